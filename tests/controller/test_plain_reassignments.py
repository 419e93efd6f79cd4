"""Which reassignments are started as columns: each partition is judged alone, whatever else is in the request."""

from itertools import combinations
from typing import Any

import pytest

from klamm.controller.log_records import Record
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import NO_LEADER
from klamm.controller.metadata.partition_table import PartitionKey
from klamm.controller.transitions.reassignment_columns import plan_plain_reassignments
from klamm.protocol.columns import Columns
from klamm.protocol.fields import wire_fields
from klamm.protocol.records.partitions import PartitionChangeRecord
from tests.controller.cluster_states import add_topic, apply, fence, live_cluster, registration, unfence, uuid_of

PRESENT = [1, 2, 3]
ELSEWHERE = uuid_of(30_000)
"""A log directory of broker 4, which has several."""
WITH_ELSEWHERE = {"directories": [uuid_of(20_001), ELSEWHERE, uuid_of(20_003)]}
CASES: list[tuple[str, list[int], dict[str, Any], list[int], bool]] = [
    ("one comes, one goes", PRESENT, {}, [1, 2, 4], True),
    ("all come, all go", PRESENT, {}, [4, 5, 0], True),
    ("one comes", PRESENT, {}, [1, 2, 3, 4], True),
    (
        "another comes to where one has its place already",
        [1, 4, 3],
        WITH_ELSEWHERE,
        [1, 4, 5],
        True,
    ),
    ("the order alone changes", PRESENT, {}, [3, 1, 2], True),
    ("it has its target", PRESENT, {}, PRESENT, True),
    ("a placeholder goes and one comes", [1, 2, -1], {}, [1, 2, 4], True),
    ("one comes, two go", PRESENT, {}, [1, 4], True),
    ("one goes", PRESENT, {}, [1, 2], False),
    ("nobody leads", PRESENT, {"leader": NO_LEADER}, [1, 2, 4], False),
    ("the leader is not live", [6, 1, 2], {}, [1, 2, 4], False),
    ("it moves already", PRESENT, {"adding_replicas": [3]}, [1, 2, 4], False),
    ("somebody is eligible", PRESENT, {"eligible_leader_replicas": [3], "isr": [1, 2]}, [1, 2, 4], False),
    ("a broker twice", PRESENT, {}, [1, 4, 4], False),
    ("a broker that nobody knows", PRESENT, {}, [1, 2, 99], False),
    ("a placeholder is wanted", PRESENT, {}, [1, 2, -1], False),
    ("nobody is wanted", PRESENT, {}, [], False),
]


@pytest.fixture(scope="module")
def image() -> MetadataImage:
    """Each case is the only partition of its topic. Broker 6 is fenced and still has its leaderships."""
    made = live_cluster(7, 0)
    several = registration(4)
    several.log_dirs = [uuid_of(20_004), ELSEWHERE]
    apply(made, several, unfence(4))
    for number, (_, replicas, fields, *_) in enumerate(CASES, start=1):
        add_topic(made, number, [replicas])
        apply(made, PartitionChangeRecord(topic_id=uuid_of(number), partition_id=0, **fields))
    apply(made, fence(6))
    return made


def plan(image: MetadataImage, *cases: int, factor: bool = True) -> tuple[list[Record], set[PartitionKey]]:
    targets = {key_of(image, case): CASES[case][3] for case in cases}
    return plan_plain_reassignments(image, targets, allow_replication_factor_change=factor)


def key_of(image: MetadataImage, case: int) -> PartitionKey:
    return PartitionKey(image.topics_by_id[uuid_of(case + 1)].row, 0)


def rows(records: list[Record]) -> list[str]:
    """Every field of each change, in an order that does not depend on how they were planned."""
    single = [one for record in records for one in (record if isinstance(record, Columns) else [record])]
    return sorted(
        repr([(wire.name, getattr(one, wire.name)) for wire in wire_fields(PartitionChangeRecord)]) for one in single
    )


@pytest.mark.parametrize("case", range(len(CASES)), ids=[row[0] for row in CASES])
def test_what_is_plain(image: MetadataImage, case: int) -> None:
    _, replicas, _, target, is_plain = CASES[case]
    records, plain = plan(image, case)
    assert plain == ({key_of(image, case)} if is_plain else set())
    assert len(rows(records)) == (is_plain and replicas != target)
    unchanged_factor = plan(image, case, factor=False)
    assert unchanged_factor == (([], set()) if len(replicas) != len(target) else (unchanged_factor[0], plain))


def test_a_partition_is_judged_by_itself_whoever_else_is_in_the_request(image: MetadataImage) -> None:
    alone = {case: plan(image, case) for case in range(len(CASES))}
    for cases in (*combinations(alone, 2), *combinations(alone, 3), tuple(alone)):
        records, plain = plan(image, *cases)
        assert plain == set().union(*(alone[case][1] for case in cases)), cases
        assert rows(records) == sorted(row for case in cases for row in rows(alone[case][0])), cases


def test_replicas_stay_in_their_directories_and_new_ones_begin_in_the_broker_s_own(image: MetadataImage) -> None:
    records, _ = plan(image, 0, 3)
    changes: list[Any] = [one for record in records for one in (record if isinstance(record, Columns) else [record])]
    directories = {one.topic_id: dict(zip(one.replicas, one.directories, strict=True)) for one in changes}
    assert directories == {
        uuid_of(1): {
            1: uuid_of(20_001),
            2: uuid_of(20_002),
            4: image.brokers[4].default_directory,
            3: uuid_of(20_003),
        },
        uuid_of(4): {1: uuid_of(20_001), 4: ELSEWHERE, 5: uuid_of(20_005), 3: uuid_of(20_003)},
    }
