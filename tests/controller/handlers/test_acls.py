"""CreateAcls, DescribeAcls, DeleteAcls: what is written, found and removed, and the limits. Error codes and texts are
compared with the recording in test_recorded_authorization.py."""

import pytest

from klamm.controller.authorizer import AclOperation, AclResourceType, PatternType
from klamm.controller.core import Call
from klamm.controller.handlers.acls.create_acls import MAX_ACLS, MAX_CHANGES_PER_REQUEST, handle_create_acls
from klamm.controller.handlers.acls.delete_acls import MAX_COMPARISONS_PER_REQUEST, handle_delete_acls
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.replay import ReplayError, replay
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.security import create_acls
from klamm.protocol.messages.security.create_acls import CreateAclsRequest
from klamm.protocol.messages.security.delete_acls import DeleteAclsRequest
from klamm.protocol.records.security import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from tests.controller.cluster_states import uuid_of
from tests.controller.handlers.cluster import DrivenCluster
from tests.controller.handlers.guarded_cluster import GuardedCluster, codes, deletion, description, entry
from tests.controller.image_facts import image_facts

READ, WRITE = AclOperation.READ, AclOperation.WRITE
PREFIXED = PatternType.PREFIXED


def creation(*names: str) -> CreateAclsRequest:
    return CreateAclsRequest(creations=[entry(READ, name) for name in names])


def names_of(cluster: GuardedCluster) -> list[str]:
    return [resource.resource_name for resource in cluster.ask(description()).resources]


def test_an_entry_is_a_record_and_outlives_the_controller() -> None:
    cluster = GuardedCluster(0)
    with cluster.writing() as written:
        cluster.grant(entry(READ, "t", pattern=PREFIXED, host="10.0.0.1"), entry(WRITE, "g", AclResourceType.GROUP))
    assert [(type(record), record.resource_name, record.pattern_type) for record in written] == [  # type: ignore[attr-defined]
        (AccessControlEntryRecord, "t", PREFIXED),
        (AccessControlEntryRecord, "g", PatternType.LITERAL),
    ]
    assert len({record.id for record in written}) == 2  # type: ignore[attr-defined]
    before = cluster.ask(description())
    cluster.restart()
    assert cluster.ask(description()) == before
    assert cluster.replayed_facts() == image_facts(cluster.image)


def test_an_entry_that_is_there_is_not_made_again() -> None:
    cluster = GuardedCluster(0)
    with cluster.writing() as written:
        cluster.grant(entry(READ), entry(READ), entry(READ, host="h"))
        cluster.grant(entry(READ))
    assert len(written) == 2


def test_a_refused_entry_leaves_the_others_of_its_request_alone() -> None:
    cluster = GuardedCluster(0)
    request = CreateAclsRequest(
        creations=[
            entry(READ, "good"),
            entry(AclOperation.ANY),
            entry(READ, pattern=PatternType.MATCH),
            entry(READ, "t", AclResourceType.ANY),
            entry(99),
            entry(READ, permission=1),
            entry(READ, principal="alice"),
            entry(READ, "also good"),
        ]
    )
    with cluster.writing() as written:
        response = cluster.ask(request)
    assert codes(response.results) == [0, 42, 42, 42, 42, 42, 42, 0]
    assert [result.error_message for result in response.results[1:6]] == [
        "Invalid operation ANY",
        "Invalid patternType MATCH",
        "Invalid resourceType ANY",
        "Invalid operation UNKNOWN",
        "Invalid permissionType ANY",
    ]
    assert [record.resource_name for record in written] == ["good", "also good"]  # type: ignore[attr-defined]


def test_one_request_makes_at_most_ten_thousand_entries() -> None:
    cluster = GuardedCluster(0)
    too_many = [f"n{number}" for number in range(MAX_CHANGES_PER_REQUEST + 1)]
    with cluster.writing() as written:
        response = cluster.ask(creation(*too_many))
    assert {(result.error_code, result.error_message) for result in response.results} == {
        (ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    }
    assert (len(response.results), written) == (len(too_many), [])
    assert set(codes(cluster.ask(creation(*too_many[1:])).results)) == {0}
    # Entries that exist already take no room.
    assert set(codes(cluster.ask(creation(*too_many)).results)) == {0}
    response = cluster.ask(DeleteAclsRequest(filters=[deletion(resource_name_filter="n5"), deletion()]))
    assert {
        (result.error_code, result.error_message, len(result.matching_acls)) for result in response.filter_results
    } == {(ErrorCode.INVALID_REQUEST, "Cannot remove more than 10000 acls in a single delete operation.", 0)}
    assert len(cluster.image.acls) == len(too_many)
    both = DeleteAclsRequest(filters=[deletion(resource_name_filter="n5"), deletion(resource_name_filter="n6")])
    assert [len(result.matching_acls) for result in cluster.ask(both).filter_results] == [1, 1]
    assert [len(one.matching_acls) for one in cluster.ask(DeleteAclsRequest(filters=[deletion()])).filter_results] == [
        MAX_CHANGES_PER_REQUEST - 1
    ]


def full_image(entries: int) -> MetadataImage:
    image = MetadataImage()
    records = [
        AccessControlEntryRecord(
            id=uuid_of(number),
            resource_type=AclResourceType.TOPIC,
            resource_name=f"n{number}",
            pattern_type=PatternType.LITERAL,
            principal="User:a",
            host="*",
            operation=READ,
            permission_type=3,
        )
        for number in range(entries)
    ]
    replay(image, records, 0)
    return image


def test_a_cluster_holds_a_hundred_thousand_entries() -> None:
    image = full_image(MAX_ACLS - 1)
    cluster = GuardedCluster(0)
    request = creation("last", "n1", "too many", "last")
    request.creations[1].principal = "User:a"  # which is there
    context = cluster.controller.context(Call(create_acls.API, 3, request), cluster.clock.now_ms)
    outcome = handle_create_acls(image, request, context)
    results = outcome.response.results  # type: ignore[union-attr]
    assert codes(results) == [0, 0, ErrorCode.POLICY_VIOLATION, 0]
    assert results[2].error_message == "The cluster has 100000 ACLs; at most 100000 are possible."
    assert len(outcome.records) == 1


def test_one_request_looks_at_a_million_entries_at_most() -> None:
    """A filter with a name costs what it finds; a request may have few filters without a name."""
    entries = 50_000
    image = full_image(entries)
    cluster = GuardedCluster(0)

    def results(*filters: object) -> list[tuple[int, int]]:
        request = DeleteAclsRequest(filters=filters)  # type: ignore[arg-type]
        context = cluster.controller.context(Call(create_acls.API, 3, request), cluster.clock.now_ms)
        outcome = handle_delete_acls(image, request, context)
        found = outcome.response.filter_results  # type: ignore[union-attr]
        return [(one.error_code, len(one.matching_acls)) for one in found]

    without_name = [deletion(principal_filter="User:b")] * (MAX_COMPARISONS_PER_REQUEST // entries)
    by_name = [deletion(resource_name_filter=f"n{number}") for number in range(5_000)]
    assert results(*without_name) == [(0, 0)] * len(without_name)
    one_more = [*without_name, deletion(host_filter="b")]
    assert results(*one_more) == [(ErrorCode.INVALID_REQUEST, 0)] * len(one_more)
    assert results(*by_name) == [(0, 1)] * len(by_name)
    match = [deletion(resource_name_filter=f"n{number}xx", pattern_type_filter=2) for number in range(5_000)]
    assert results(*match) == [(0, 0)] * len(match)


def test_filters_are_put_to_the_entries_as_they_were_and_answered_in_order() -> None:
    cluster = GuardedCluster(0)
    cluster.grant(entry(READ, "a"), entry(WRITE, "a"), entry(READ, "b"))
    with cluster.writing() as written:
        response = cluster.ask(
            DeleteAclsRequest(
                filters=[
                    deletion(resource_name_filter="a", operation=READ),
                    deletion(operation=99),
                    deletion(resource_name_filter="a"),
                    deletion(resource_name_filter="nothing"),
                ]
            )
        )
    assert [(one.error_code, len(one.matching_acls)) for one in response.filter_results] == [
        (0, 1),
        (ErrorCode.INVALID_REQUEST, 0),
        (0, 2),
        (0, 0),
    ]
    assert [type(record) for record in written] == [RemoveAccessControlEntryRecord] * 2, "each is removed once"
    assert names_of(cluster) == ["b"]
    assert cluster.replayed_facts() == image_facts(cluster.image)


def test_entries_of_one_pattern_are_described_together() -> None:
    cluster = GuardedCluster(0)
    cluster.grant(entry(READ, "a"), entry(READ, "b"), entry(WRITE, "a"), entry(READ, "a", pattern=PREFIXED))
    described = cluster.ask(description())
    assert [
        (one.resource_name, one.pattern_type, [acl.operation for acl in one.acls]) for one in described.resources
    ] == [("a", 3, [READ, WRITE]), ("b", 3, [READ]), ("a", 4, [READ])]
    assert not cluster.ask(description(resource_type_filter=99)).resources


def test_without_an_authorizer_entries_of_the_log_are_kept_and_count_for_nothing() -> None:
    guarded = GuardedCluster(1)
    guarded.grant(entry(AclOperation.ALL, "*", permission=2, principal="User:*"))
    open_to_all = DrivenCluster(0, log=guarded.log)
    assert open_to_all.ask(description()).error_code == ErrorCode.SECURITY_DISABLED
    assert open_to_all.create("t").error_code == 0
    assert len(open_to_all.image.acls) == 1


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([AccessControlEntryRecord(id=uuid_of(1)), AccessControlEntryRecord(id=uuid_of(1))], "exists already"),
        ([RemoveAccessControlEntryRecord(id=uuid_of(1))], "to remove"),
    ],
)
def test_records_that_contradict_the_image_cannot_be_replayed(records: list[object], said: str) -> None:
    with pytest.raises(ReplayError, match=said):
        replay(MetadataImage(), records, 0)  # type: ignore[arg-type]


def test_equal_entries_with_ids_of_their_own_are_both_kept() -> None:
    """Only logs of other programs have them."""
    image = MetadataImage()
    replay(image, [AccessControlEntryRecord(id=uuid_of(number), principal="User:a") for number in (1, 2)], 0)
    acl = image.acls.by_id[uuid_of(1)]
    for number, left in ((1, True), (2, False)):
        replay(image, [RemoveAccessControlEntryRecord(id=uuid_of(number))], image.next_offset)
        assert (acl in image.acls) is left


def test_the_same_requests_give_the_same_bytes() -> None:
    def log_of(seed: int) -> bytes:
        cluster = GuardedCluster(1, seed=seed)
        cluster.grant(entry(READ, "a"), entry(WRITE, "b"))
        cluster.ask(DeleteAclsRequest(filters=[deletion(resource_name_filter="a")]))
        return cluster.log.log_bytes()

    assert log_of(1) == log_of(1)
    assert log_of(1) != log_of(2)


def test_without_an_authorizer_there_are_no_entries_to_speak_of() -> None:
    cluster = DrivenCluster(1)
    assert cluster.ask(description()).error_code == ErrorCode.SECURITY_DISABLED
    assert codes(cluster.ask(creation("t")).results) == [ErrorCode.SECURITY_DISABLED]
    deleted = cluster.ask(DeleteAclsRequest(filters=[deletion(), deletion(resource_name_filter="t")]))
    assert codes(deleted.filter_results) == [ErrorCode.SECURITY_DISABLED] * 2
