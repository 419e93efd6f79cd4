"""Partitions of a snapshot that Apache Kafka wrote are replayed by index, whatever the order of its HashMap."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from klamm.controller.log_records import Record
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.replay import ReplayError
from klamm.controller.snapshot_order import FIRST_MIXED, PartitionsInOrder
from klamm.protocol.columns import Columns
from klamm.protocol.records.partitions import PartitionRecord
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from tests.controller.cluster_states import apply, uuid_of

COUNT = 2 * FIRST_MIXED + 5
HASHED = sorted(range(COUNT), key=lambda index: (index ^ index >> 16) & (1 << 18) - 1)
"""The partitions of a topic in the order of a HashMap with 2^18 bins."""


def run(topic_id: Uuid, indexes: Sequence[int]) -> Columns[PartitionRecord]:
    """Each partition has its index as its leader epoch."""
    ids = np.array(indexes, dtype=np.int32)
    lists = np.ones((len(ids), 1), dtype=np.int32)
    values = {"topic_id": topic_id, "partition_id": ids, "replicas": lists, "isr": lists, "leader": 1}
    return Columns(PartitionRecord, len(ids), {**values, "leader_epoch": ids, "partition_epoch": 0})


def replayed(*batches: Sequence[Record]) -> MetadataImage:
    image, partitions = MetadataImage(), PartitionsInOrder()
    for batch in batches:
        apply(image, *partitions.take(batch))
    apply(image, *partitions.rest())
    return image


def leader_epochs(image: MetadataImage, name: str) -> list[int]:
    topic = image.topics_by_name[name]
    found: list[int] = []
    for owned, table in image.partitions.topic_ranges(topic.row):
        found += table.leader_epoch[owned.rows].tolist()
    return found


def test_kafka_writes_large_topics_in_another_order() -> None:
    assert HASHED[:FIRST_MIXED] == list(range(FIRST_MIXED))
    assert HASHED[FIRST_MIXED : FIRST_MIXED + 4] == [65_537, 65_536, 65_539, 65_538]


@pytest.mark.parametrize("has_singles", [False, True])
@pytest.mark.parametrize("cuts", [(), (FIRST_MIXED + 1,), (FIRST_MIXED + 2, 2 * FIRST_MIXED + 3)])
def test_partitions_are_replayed_by_index(cuts: tuple[int, ...], has_singles: bool) -> None:
    batches: list[list[Record]] = [[TopicRecord(name="t", topic_id=uuid_of(1))]]
    for begin, end in pairwise((0, *cuts, COUNT)):
        piece = run(uuid_of(1), HASHED[begin:end])
        batches.append([piece[0], piece[1:]] if has_singles else [piece])
    assert leader_epochs(replayed(*batches), "t") == list(range(COUNT))


def test_topics_follow_each_other_in_one_batch_and_in_one_run() -> None:
    order = HASHED[: FIRST_MIXED + 4]
    topics: list[Record] = [TopicRecord(name=f"t{number}", topic_id=uuid_of(number)) for number in (1, 2)]
    runs = [run(uuid_of(number), order) for number in (1, 2)]
    ids = np.frombuffer(b"".join(uuid_of(number) for number in (1, 2) for _ in order), np.uint8).reshape(-1, 16)
    both = run(uuid_of(1), [*order, *order])
    mixed = Columns(PartitionRecord, len(both), {**both.values, "topic_id": ids})
    batches: list[list[Record]] = [[*topics, mixed], [topics[0], runs[0], topics[1], runs[1]]]
    for batch in batches:
        image = replayed(batch)
        assert [leader_epochs(image, name) for name in ("t1", "t2")] == [list(range(len(order)))] * 2


def test_runs_in_order_stay_as_they_are() -> None:
    partitions = PartitionsInOrder()
    small, large = run(uuid_of(1), range(70_000)), run(uuid_of(1), range(70_000, 80_000))
    assert partitions.take([small, large]) == [small, large]
    assert partitions.rest() == []


def test_a_snapshot_that_lacks_a_partition_is_refused() -> None:
    topic = TopicRecord(name="t", topic_id=uuid_of(1))
    with pytest.raises(ReplayError, match="do not follow the 65536"):
        replayed([topic, run(uuid_of(1), range(FIRST_MIXED)), run(uuid_of(1), [FIRST_MIXED + 1])])
