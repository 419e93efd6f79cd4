"""AlterClientQuotas and DescribeClientQuotas: what is written, found and removed, and the limits. Codes and texts are
compared with the recording in tests/behaviour; these tests have the boundary cases that it lacks."""

import itertools
import math
from collections.abc import Iterable

import pytest

from klamm.controller.handlers.quotas.alter_client_quotas import MAX_CHANGES_PER_REQUEST, MAX_ENTITIES
from klamm.controller.handlers.quotas.quota_rules import validate_entity, validate_quota
from klamm.controller.metadata.quota_entity import quota_entity
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.configs.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponseEntryData,
    EntityData,
    EntryData,
    OpData,
)
from klamm.protocol.messages.configs.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from klamm.protocol.records.configs import ClientQuotaRecord
from klamm.protocol.records.configs import EntityData as RecordEntityData
from tests.controller.handlers.cluster import DrivenCluster
from tests.controller.handlers.guarded_cluster import GuardedCluster
from tests.controller.image_facts import image_facts
from tests.controller.snapshots import rebuilt

PRODUCED, CONSUMED, PERCENTAGE = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
CONNECTIONS, MUTATIONS = "connection_creation_rate", "controller_mutation_rate"
Names = dict[str, str | None]
ALICE: Names = {"user": "alice"}
EVERYBODY: Names = {"user": None}


@pytest.fixture
def cluster() -> DrivenCluster:
    return DrivenCluster(1)


def entry(names: Names, **values: float | None) -> EntryData:
    """Quotas of one entity by key; None removes a quota."""
    return EntryData(
        entity=[EntityData(entity_type=entity_type, entity_name=name) for entity_type, name in names.items()],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
    )


def alter(
    cluster: DrivenCluster, *entries: EntryData, validate_only: bool = False
) -> list[AlterClientQuotasResponseEntryData]:
    answer = cluster.ask(AlterClientQuotasRequest(entries=entries, validate_only=validate_only))
    return list(answer.entries)


def codes(results: Iterable[AlterClientQuotasResponseEntryData]) -> list[int]:
    return [result.error_code for result in results]


def described(cluster: DrivenCluster, *components: ComponentData, strict: bool = False) -> dict[str, dict[str, float]]:
    """Quotas by entity; an entity is printed as `type=name` with blanks between its parts."""
    response: DescribeClientQuotasResponse = cluster.ask(
        DescribeClientQuotasRequest(components=components, strict=strict)
    )
    assert (response.error_code, response.error_message) == (0, "")
    assert response.entries is not None
    return {
        " ".join(f"{one.entity_type}={one.entity_name}" for one in found.entity): {
            value.key: value.value for value in found.values
        }
        for found in response.entries
    }


def test_quotas_are_records_and_outlive_the_controller(cluster: DrivenCluster) -> None:
    both: Names = {"user": "alice", "client-id": None}
    with cluster.writing() as written:
        assert codes(alter(cluster, entry(ALICE, producer_byte_rate=5), entry(both, request_percentage=12.5))) == [0, 0]
    alice = RecordEntityData(entity_type="user", entity_name="alice")
    every_client = RecordEntityData(entity_type="client-id", entity_name=None)
    assert written == [
        ClientQuotaRecord(entity=[alice], key=PRODUCED, value=5.0),
        ClientQuotaRecord(entity=[every_client, alice], key=PERCENTAGE, value=12.5),
    ]
    expected = {"user=alice": {PRODUCED: 5.0}, "client-id=None user=alice": {PERCENTAGE: 12.5}}
    assert described(cluster) == expected
    assert cluster.replayed_facts() == image_facts(cluster.image)
    assert rebuilt(cluster.image).facts() == cluster.image.facts()
    cluster.restart()
    assert described(cluster) == expected


def test_only_what_changes_is_written(cluster: DrivenCluster) -> None:
    alter(cluster, entry(ALICE, producer_byte_rate=5, request_percentage=1))
    with cluster.writing() as written:
        alter(cluster, entry(ALICE, producer_byte_rate=5, consumer_byte_rate=None, request_percentage=None))
    assert [(record.key, record.remove) for record in written] == [(PERCENTAGE, True)]  # type: ignore[attr-defined]
    assert described(cluster) == {"user=alice": {PRODUCED: 5.0}}
    alter(cluster, entry(ALICE, producer_byte_rate=None))
    assert described(cluster) == {}
    assert not cluster.image.client_quotas, "an entity goes with its last quota"


def test_what_is_only_validated_is_not_written(cluster: DrivenCluster) -> None:
    with cluster.writing() as written:
        results = alter(cluster, entry(ALICE, producer_byte_rate=5), entry(EVERYBODY, nonsense=1), validate_only=True)
    assert (codes(results), written) == ([0, ErrorCode.INVALID_REQUEST], [])


def test_a_fault_of_one_entity_leaves_the_others_alone(cluster: DrivenCluster) -> None:
    results = alter(
        cluster,
        entry(ALICE, producer_byte_rate=5, consumer_byte_rate=0),
        entry({"planet": "x"}, producer_byte_rate=5),
        entry(EVERYBODY, producer_byte_rate=6),
        entry(EVERYBODY, producer_byte_rate=7),
    )
    assert [(result.error_code, result.error_message) for result in results] == [
        (42, "Quota consumer_byte_rate must be greater than 0"),
        (42, "Unhandled client quota entity type: planet"),
        (42, "Ignoring duplicate entity ClientQuotaEntity(entries={user=null})"),
    ]
    assert described(cluster) == {"user=None": {PRODUCED: 6.0}}


ENTITIES: list[Names] = [
    {"user": "a"},
    {"user": "b"},
    {"user": None},
    {"client-id": "a"},
    {"client-id": None},
    {"user": "a", "client-id": "a"},
    {"user": "a", "client-id": None},
    {"user": None, "client-id": "a"},
    {"user": None, "client-id": None},
    {"ip": "10.0.0.1"},
    {"ip": None},
]
EXACT, DEFAULT, SPECIFIED = 0, 1, 2
MATCHES: list[tuple[int, str | None]] = [(EXACT, "a"), (EXACT, "nobody"), (DEFAULT, None), (SPECIFIED, None)]


def does_match(kind: int, match: str | None, name: str | None) -> bool:
    """By KIP-546: the exact name, the default entity, or any name, which includes the default entity."""
    return {EXACT: name is not None and name == match, DEFAULT: name is None, SPECIFIED: True}[kind]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("types", [(), ("user",), ("client-id",), ("ip",), ("user", "client-id")])
def test_a_filter_finds_what_each_of_its_components_matches(
    cluster: DrivenCluster, types: tuple[str, ...], strict: bool
) -> None:
    for names in ENTITIES:
        key = CONNECTIONS if "ip" in names else PRODUCED
        assert codes(alter(cluster, entry(names, **{key: 1.0}))) == [0]
    for matches in itertools.product(MATCHES, repeat=len(types)):
        requested = dict(zip(types, matches, strict=True))
        components = [
            ComponentData(entity_type=one, match_type=kind, match=match) for one, (kind, match) in requested.items()
        ]
        expected = {
            " ".join(f"{one}={'<default>' if name is None else name}" for one, name in sorted(names.items()))
            for names in ENTITIES
            if requested.keys() <= names.keys() and all(does_match(*requested[one], names[one]) for one in requested)
            if not strict or requested.keys() == names.keys()
        }
        assert printed(cluster, components, strict=strict) == expected


def printed(cluster: DrivenCluster, components: list[ComponentData], *, strict: bool) -> set[str]:
    response = cluster.ask(DescribeClientQuotasRequest(components=components, strict=strict))
    return {
        " ".join(
            f"{one.entity_type}={'<default>' if one.entity_name is None else one.entity_name}"
            for one in sorted(found.entity, key=lambda one: one.entity_type)
        )
        for found in response.entries
    }


def test_an_entity_whose_types_come_in_another_order_is_the_same(cluster: DrivenCluster) -> None:
    one, other = entry({"user": "a", "client-id": "b"}, request_percentage=1), entry({"client-id": "b", "user": "a"})
    [result] = alter(cluster, one, other)
    assert result.error_message == "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=b, user=a})"
    assert described(cluster) == {"client-id=b user=a": {PERCENTAGE: 1.0}}


def test_the_text_about_a_long_name_fits_into_an_answer(cluster: DrivenCluster) -> None:
    long: Names = {"user": "x" * 32_767}
    results = alter(cluster, entry(long, producer_byte_rate=1), entry(long))
    assert codes(results) == [ErrorCode.INVALID_REQUEST]
    response = cluster.ask(DescribeClientQuotasRequest(components=[ComponentData(entity_type="y" * 32_767)]))
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("names", "key", "value", "fault"),
    [
        (ALICE, PRODUCED, 1.0, None),
        (ALICE, PRODUCED, 1 + 9e-7, None),
        (ALICE, PRODUCED, 1 - 9e-7, None),
        (ALICE, PRODUCED, 1 + 2e-6, "producer_byte_rate cannot be a fractional value."),
        (ALICE, CONSUMED, 2.0**63, None),
        (ALICE, CONSUMED, 2.0**63 + 2048, "Proposed value for consumer_byte_rate is too large for a LONG."),
        (ALICE, CONSUMED, math.inf, "Proposed value for consumer_byte_rate is too large for a LONG."),
        (ALICE, PERCENTAGE, 1e-9, None),
        (ALICE, PERCENTAGE, math.inf, None),
        (ALICE, PERCENTAGE, math.nan, "Quota request_percentage must be greater than 0"),
        (ALICE, MUTATIONS, 0.25, None),
        (ALICE, CONNECTIONS, 1.0, "Invalid configuration key connection_creation_rate"),
        ({"client-id": None}, PRODUCED, 7.0, None),
        ({"user": None, "client-id": "c"}, MUTATIONS, 7.0, None),
        ({"ip": None}, CONNECTIONS, 2.0**31 - 1, None),
        ({"ip": None}, CONNECTIONS, 2.0**31, "Proposed value for connection_creation_rate is too large for an INT."),
        ({"ip": None}, CONNECTIONS, 0.5, "connection_creation_rate cannot be a fractional value."),
        ({"ip": None}, PERCENTAGE, 1.0, "Invalid configuration key request_percentage"),
    ],
)
def test_which_values_are_valid(names: Names, key: str, value: float, fault: str | None) -> None:
    found = validate_quota(names, key, value)
    assert (found.message if found else None) == fault


@pytest.mark.parametrize(
    ("address", "is_valid"),
    [
        (None, True),
        ("10.0.0.1", True),
        ("10.1", True),
        ("167772161", True),
        ("10.0.0.256", False),
        ("10.255.256", True),
        ("10.256.1", False),
        ("256.1", False),
        ("4294967296", False),
        ("1.2.3.4.5", False),
        ("1..2", False),
        ("::1", True),
        ("[::1]", True),
        ("::ffff:10.0.0.1", True),
        ("1::2::3", False),
        ("host.example", True),
        ("host.example.", True),
        ("a_b-c", True),
        ("-a", False),
        ("a..b", False),
        ("a b", False),
        ("10.0.0.0/8", False),
        ("a" * 254, False),
    ],
)
def test_which_addresses_and_host_names_are_valid(address: str | None, is_valid: bool) -> None:
    assert (validate_entity({"ip": address}) is None) == is_valid


def test_one_request_makes_at_most_ten_thousand_changes(cluster: DrivenCluster) -> None:
    entries = [
        entry({"user": f"u{number}"}, producer_byte_rate=1, consumer_byte_rate=1)
        for number in range(MAX_CHANGES_PER_REQUEST // 2 + 1)
    ]
    with cluster.writing() as written:
        results = alter(cluster, *entries)
    assert {(result.error_code, result.error_message) for result in results} == {
        (ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    }
    assert (len(results), written) == (len(entries), [])
    assert set(codes(alter(cluster, *entries[1:]))) == {0}


def test_only_so_many_entities_have_quotas(cluster: DrivenCluster) -> None:
    for number in range(MAX_ENTITIES - 1):
        cluster.image.client_quotas[quota_entity([("user", str(number))])] = {PRODUCED: 1.0}
    results = alter(
        cluster,
        entry({"user": "0"}, producer_byte_rate=2),
        entry({"user": "last"}, producer_byte_rate=1),
        entry({"user": "one more"}, producer_byte_rate=1),
        entry({"user": "nothing"}, producer_byte_rate=None),
    )
    assert codes(results) == [0, 0, ErrorCode.POLICY_VIOLATION, 0]
    assert len(cluster.image.client_quotas) == MAX_ENTITIES


@pytest.mark.parametrize(
    ("filters", "strict", "expected"),
    [
        ([], False, {"user=alice", "user=None", "client-id=c user=alice", "ip=None"}),
        ([], True, set()),
        ([("user", 0, "alice")], False, {"user=alice", "client-id=c user=alice"}),
        ([("user", 0, "alice")], True, {"user=alice"}),
        ([("user", 1, None)], False, {"user=None"}),
        ([("user", 2, None)], True, {"user=alice", "user=None"}),
        ([("client-id", 2, None), ("user", 2, None)], True, {"client-id=c user=alice"}),
        ([("ip", 2, None)], False, {"ip=None"}),
        ([("ip", 0, "None")], False, set()),
    ],
)
def test_a_filter_matches_by_type_and_name(
    cluster: DrivenCluster, filters: list[tuple[str, int, str | None]], strict: bool, expected: set[str]
) -> None:
    alter(
        cluster,
        entry(ALICE, producer_byte_rate=1),
        entry(EVERYBODY, producer_byte_rate=2),
        entry({"user": "alice", "client-id": "c"}, producer_byte_rate=3),
        entry({"ip": None}, connection_creation_rate=4),
    )
    components = [
        ComponentData(entity_type=entity_type, match_type=match_type, match=match)
        for entity_type, match_type, match in filters
    ]
    assert set(described(cluster, *components, strict=strict)) == expected


@pytest.mark.parametrize("broker_id", [1, None])
def test_who_may_not_is_told_so_for_each_entity(broker_id: int | None) -> None:
    cluster = GuardedCluster(1)
    with cluster.asking():
        answer = cluster.ask(AlterClientQuotasRequest(entries=[entry(ALICE), entry({"ip": ""})]), broker_id=broker_id)
    text = "Request needs ALTER_CONFIGS permission."
    assert [(one.error_code, one.error_message, len(one.entity)) for one in answer.entries] == [(31, text, 1)] * 2
