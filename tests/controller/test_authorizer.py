"""The authorizer compared with a plain model of the rules, and with recorded answers of a real Kafka. Filters are
compared with a plain search through all entries."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from klamm.controller.authorizer import (
    CLUSTER_NAME,
    Acl,
    AclIndex,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    StandardAuthorizer,
    all_operations,
    authorizer_config_fault,
    configured_authorizer,
)
from klamm.controller.authorizer.acl_index import FEW_PREFIXES
from klamm.controller.handlers.acls.acl_filter import AclFilter
from klamm.controller.metadata.acls import AclTable
from tests.controller.cluster_states import uuid_of

GOLDEN = Path(__file__).parent.parent / "golden" / "authorizer" / "rules.jsonl.gz"
ALICE, HOST = "User:alice", "127.0.0.1"
TOPIC, CLUSTER = AclResourceType.TOPIC, AclResourceType.CLUSTER
ASKED = [operation for operation in AclOperation if operation not in (AclOperation.ANY, AclOperation.ALL)]
NAMES = ["a", "ab", "abc", "b", "ba", "c"]

names = st.sampled_from(["a", "ab", "abc", "b", "*", "c", "abcd"])
acls = st.builds(
    Acl,
    resource_type=st.sampled_from([TOPIC, TOPIC, TOPIC, CLUSTER]).map(int),
    resource_name=names,
    pattern_type=st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]).map(int),
    principal=st.sampled_from([ALICE, ALICE, "User:*", "User:bob", "Group:alice"]),
    host=st.sampled_from(["*", "*", HOST, "10.0.0.1"]),
    operation=st.sampled_from([operation for operation in AclOperation if operation != AclOperation.ANY]).map(int),
    permission_type=st.sampled_from([AclPermissionType.ALLOW, AclPermissionType.DENY]).map(int),
)


def is_about(acl: Acl, resource_type: int, name: str) -> bool:
    if acl.resource_type != resource_type:
        return False
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, "*")


def concerns(acl: Acl, principal: str, host: str, operation: AclOperation) -> bool:
    implied = {
        AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
        AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
    }
    means = {AclOperation.ALL, operation}
    if acl.permission_type == AclPermissionType.ALLOW:
        means |= implied.get(operation, set())
    return acl.principal in (principal, "User:*") and acl.host in (host, "*") and acl.operation in means


def model_allows(
    entries: list[Acl],
    operation: AclOperation,
    resource_type: int,
    name: str,
    *,
    allow_if_no_acl: bool,
) -> bool:
    """The rules of StandardAuthorizer, in the simplest form."""
    about = [acl for acl in entries if is_about(acl, resource_type, name)]
    if not about:
        return allow_if_no_acl
    said = {acl.permission_type for acl in about if concerns(acl, ALICE, HOST, operation)}
    return AclPermissionType.DENY not in said and AclPermissionType.ALLOW in said


def entry(operation: int, name: str = "a", pattern: int = PatternType.LITERAL, permission: int = 3) -> Acl:
    return Acl(TOPIC, name, pattern, ALICE, "*", operation, permission)


@given(st.lists(st.tuples(acls, st.booleans()), max_size=12), st.booleans())
@example([(entry(AclOperation.ALL), True), (entry(AclOperation.READ, permission=2), True)], False)
@example([(entry(AclOperation.DESCRIBE, "*", permission=2), True), (entry(AclOperation.READ), True)], False)
@example([(entry(AclOperation.READ, "a", PatternType.PREFIXED), False), (entry(AclOperation.READ), True)], True)
def test_any_set_of_entries_means_what_the_rules_say(made: list[tuple[Acl, bool]], allow_if_no_acl: bool) -> None:
    """Entries that were created and removed again have no effect."""
    index = AclIndex()
    for acl, _ in made:
        index.add(acl)
    for acl, stays in made:
        if not stays:
            index.remove(acl)
    entries = [acl for acl, stays in made if stays]
    access = StandardAuthorizer(allow_if_no_acl=allow_if_no_acl).access(index, ALICE, HOST)
    assert access is not None
    for operation in ASKED:
        for resource_type, candidates in ((TOPIC, NAMES), (CLUSTER, [CLUSTER_NAME])):
            expected = {
                name: model_allows(entries, operation, resource_type, name, allow_if_no_acl=allow_if_no_acl)
                for name in candidates
            }
            allowed = {name: access.allows(operation, resource_type, name) for name in candidates}
            assert allowed == expected
            denied = {name for name, allowed in expected.items() if not allowed}
            assert access.denied(operation, resource_type, candidates) == denied
    bits = access.operations(TOPIC, NAMES)
    for name, found in zip(NAMES, bits, strict=True):
        assert found == sum(
            1 << operation
            for operation in AclOperation
            if all_operations(TOPIC) >> operation & 1
            and model_allows(entries, operation, TOPIC, name, allow_if_no_acl=allow_if_no_acl)
        )


def model_allows_some(entries: list[Acl], operation: AclOperation, *, allow_if_no_acl: bool) -> bool:
    """Kafka's Authorizer.authorizeByResourceType, for topics."""
    if model_allows(entries, operation, TOPIC, "hardcode", allow_if_no_acl=allow_if_no_acl):
        return True
    meant = [acl for acl in entries if acl.resource_type == TOPIC and concerns(acl, ALICE, HOST, operation)]
    denied = [acl for acl in meant if acl.permission_type == AclPermissionType.DENY]
    prefixes = [acl.resource_name for acl in denied if acl.pattern_type == PatternType.PREFIXED]
    literals = [acl.resource_name for acl in denied if acl.pattern_type == PatternType.LITERAL]
    return "*" not in literals and any(
        not (acl.pattern_type == PatternType.LITERAL and acl.resource_name in literals)
        and not any(acl.resource_name.startswith(prefix) for prefix in prefixes)
        for acl in meant
        if acl.permission_type == AclPermissionType.ALLOW
    )


@given(st.lists(acls, max_size=8), st.booleans(), st.sampled_from([AclOperation.WRITE, AclOperation.CREATE]))
@example([entry(AclOperation.WRITE), entry(AclOperation.WRITE, permission=2)], False, AclOperation.WRITE)
@example([entry(AclOperation.WRITE, "ab"), entry(AclOperation.ALL, "a", 4, permission=2)], False, AclOperation.WRITE)
@example([entry(AclOperation.WRITE, "a", 4), entry(AclOperation.ALL, "a", permission=2)], False, AclOperation.WRITE)
@example([entry(AclOperation.WRITE, "a", 4), entry(AclOperation.ALL, "*", permission=2)], True, AclOperation.WRITE)
def test_whether_anything_is_allowed_is_told_as_by_kafka(
    entries: list[Acl], allow_if_no_acl: bool, operation: AclOperation
) -> None:
    index = AclIndex()
    for acl in entries:
        index.add(acl)
    access = StandardAuthorizer(allow_if_no_acl=allow_if_no_acl).access(index, ALICE, HOST)
    assert access is not None
    expected = model_allows_some(entries, operation, allow_if_no_acl=allow_if_no_acl)
    assert access.allows_some(operation, TOPIC) == expected


RECORDED = [json.loads(line) for line in gzip.decompress(GOLDEN.read_bytes()).decode().splitlines()]


@pytest.mark.parametrize("case", RECORDED, ids=range(len(RECORDED)))
def test_random_sets_of_entries_mean_what_they_meant_to_a_real_kafka(case: dict[str, object]) -> None:
    index = AclIndex()
    for values in case["acls"]:  # type: ignore[attr-defined]
        index.add(Acl(*values))
    authorizer = StandardAuthorizer(allow_if_no_acl=bool(case["allow_everyone_if_no_acl_found"]))
    access = authorizer.access(index, ALICE, HOST)
    assert access is not None
    topics = list(case["topics"])  # type: ignore[call-overload]
    hidden = access.denied(AclOperation.DESCRIBE, TOPIC, topics)
    operations = dict(zip(topics, access.operations(TOPIC, topics), strict=True))
    assert {name: None if name in hidden else operations[name] for name in topics} == case["topics"]
    cluster = access.operations(CLUSTER, [CLUSTER_NAME])[0]
    assert case["cluster"] == (cluster if access.allows(AclOperation.DESCRIBE, CLUSTER, CLUSTER_NAME) else 0)


def test_super_users_may_do_everything() -> None:
    index = AclIndex()
    index.add(entry(AclOperation.ALL, "*", permission=AclPermissionType.DENY))
    authorizer = StandardAuthorizer(super_users=frozenset({ALICE}))
    assert authorizer.access(index, ALICE, HOST) is None
    assert authorizer.access(index, "User:alic", HOST) is not None


def test_an_entry_that_was_made_twice_holds_until_both_are_removed() -> None:
    index = AclIndex()
    for pattern in (PatternType.LITERAL, PatternType.PREFIXED):
        acl = entry(AclOperation.READ, pattern=pattern)
        access = StandardAuthorizer().access(index, ALICE, HOST)
        assert access is not None
        for add in (index.add, index.add, index.remove):
            add(acl)
            assert access.allows(AclOperation.READ, TOPIC, "a")
        index.remove(acl)
        assert not access.allows(AclOperation.READ, TOPIC, "a")


def test_many_prefixes_mean_what_few_mean() -> None:
    """Few prefixes and many are searched in different ways."""
    index = AclIndex()
    access = StandardAuthorizer().access(index, ALICE, HOST)
    assert access is not None
    made = [entry(AclOperation.READ, f"p{number:02}", PatternType.PREFIXED) for number in range(2 * FEW_PREFIXES)]
    candidates = [f"p{number:02}-x" for number in range(2 * FEW_PREFIXES)] + ["p0", "", "x"]
    present: list[Acl] = []
    for change, entries in ((index.add, made), (index.remove, made[::-1])):
        for acl in entries:
            change(acl)
            present = [*present, acl] if change == index.add else [one for one in present if one != acl]
            allowed = {name for name in candidates if any(is_about(one, TOPIC, name) for one in present)}
            assert access.denied(AclOperation.READ, TOPIC, candidates) == set(candidates) - allowed
    assert present == []


@given(st.lists(acls, max_size=15), st.data())
def test_entries_that_are_removed_leave_no_trace(made: list[Acl], data: st.DataObject) -> None:
    """A table with entries that come and go for years does not grow."""
    gone = data.draw(st.sets(st.sampled_from(range(len(made)))) if made else st.just(set()))
    table, without = AclTable(), AclTable()
    for number, acl in enumerate(made):
        table.add(uuid_of(number), acl)
        if number not in gone:
            without.add(uuid_of(number), acl)
    for number in data.draw(st.permutations(sorted(gone))):
        table.remove(uuid_of(number))
    assert (table._by_name, table._lengths, table._times) == (without._by_name, without._lengths, without._times)
    assert len(table) == len(without)


def test_entries_that_may_match_a_name_come_shortest_name_first_and_the_wildcard_last() -> None:
    table = AclTable()
    for number, name in enumerate(("ab", "abc", "a", "*", "abcd", "b", "ab")):
        table.add(uuid_of(number), entry(AclOperation.READ, name)._replace(host=f"h{number}"))
    assert [acl.resource_name for _, acl in table.starting("abc")] == ["a", "ab", "ab", "abc", "*"]
    assert [acl.resource_name for _, acl in table.starting("*")] == ["*"]
    assert [acl.host for _, acl in table.named("ab")] == ["h0", "h6"]


@given(
    st.lists(acls, max_size=15),
    st.builds(
        AclFilter,
        resource_type=st.sampled_from([AclResourceType.ANY, TOPIC, CLUSTER, AclResourceType.GROUP, 99]).map(int),
        resource_name=st.none() | names | st.just(""),
        pattern_type=st.sampled_from([*PatternType, 99]).map(int),
        principal=st.none() | st.sampled_from([ALICE, "User:*", ""]),
        host=st.none() | st.sampled_from([HOST, "*"]),
        operation=st.sampled_from([AclOperation.ANY, AclOperation.READ, AclOperation.ALL, 99]).map(int),
        permission_type=st.sampled_from([*AclPermissionType, 99]).map(int),
    ),
)
def test_a_filter_finds_what_a_search_through_everything_finds(made: list[Acl], wanted: AclFilter) -> None:
    table = AclTable()
    for number, acl in enumerate(made):
        table.add(uuid_of(number), acl)
    matches = wanted.matcher()
    found = {acl_id for acl_id, acl in wanted.candidates(table) if matches(acl)}
    assert found == {acl_id for acl_id, acl in table.by_id.items() if is_asked_for(wanted, acl)}
    for acl_id in list(table.by_id):
        table.remove(acl_id)
        assert acl_id not in dict(wanted.candidates(table))
    assert (len(table), list(wanted.candidates(table))) == (0, [])


def is_asked_for(wanted: AclFilter, acl: Acl) -> bool:
    """Whether a filter of KIP-290 matches; 1 is ANY in every field."""
    if wanted.pattern_type == PatternType.MATCH:
        pattern = wanted.resource_name is None or is_about(acl, acl.resource_type, wanted.resource_name)
    else:
        pattern = wanted.pattern_type in (1, acl.pattern_type) and wanted.resource_name in (None, acl.resource_name)
    numbers = ("resource_type", "operation", "permission_type")
    texts = ("principal", "host")
    return (
        pattern
        and all(getattr(wanted, name) in (1, getattr(acl, name)) for name in numbers)
        and all(getattr(wanted, name) in (None, getattr(acl, name)) for name in texts)
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorizer.class.name", "kafka.security.authorizer.AclAuthorizer"),
        ("authorizer.class.name", "StandardAuthorizer"),
        ("super.users", "admin"),
        ("super.users", "User:a,b;c"),
        ("allow.everyone.if.no.acl.found", "yes"),
        ("allow.everyone.if.no.acl.found", ""),
    ],
)
def test_a_config_that_cannot_be_obeyed_is_a_fault(name: str, value: str) -> None:
    assert authorizer_config_fault(name, value)


def test_configs_are_read_as_kafka_reads_them() -> None:
    assert configured_authorizer({"super.users": "User:a"}) is None
    assert configured_authorizer({"authorizer.class.name": " "}) is None
    given_configs = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": " User:a ; User:CN=x,O=y;;Group:g:h",
        "allow.everyone.if.no.acl.found": " True",
    }
    assert not any(authorizer_config_fault(name, value) for name, value in given_configs.items())
    assert configured_authorizer(given_configs) == StandardAuthorizer(
        super_users=frozenset({"User:a", "User:CN=x,O=y", "Group:g:h"}), allow_if_no_acl=True
    )
    assert configured_authorizer({"authorizer.class.name": given_configs["authorizer.class.name"]}) == (
        StandardAuthorizer()
    )
