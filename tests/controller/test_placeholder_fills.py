"""Filling placeholders in steps, compared with a plain list of rows: the same broker gets each placeholder, for any
size of steps."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.log_records import count_records
from klamm.controller.metadata.broker import MIGRATING_DIRECTORY
from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition_table import PartitionTable
from klamm.controller.metadata.usage import UNLIMITED_TOPICS
from klamm.controller.settings import Settings
from klamm.controller.transitions import placeholders
from klamm.controller.transitions.new_partitions import new_partition_records
from klamm.controller.transitions.placeholders import PlaceholderFills
from klamm.protocol.records.brokers import BrokerRegistrationChangeRecord
from klamm.protocol.records.partitions import PartitionChangeRecord
from klamm.protocol.records.topics import RemoveTopicRecord, TopicRecord
from tests.controller.cluster_states import apply, fence, live_cluster, uuid_of

Rows = dict[tuple[int, int], list[int]]
NAMES = ("t", "__consumer_offsets", "u", "v")


@dataclass(frozen=True)
class Steps:
    """The size of a step: changes, visited rows, and the cost of a topic."""

    most: int
    rows_per_step: int
    cost_of_topic: int


steps = st.builds(Steps, st.integers(1, 6), st.integers(1, 6), st.integers(0, 3))


@st.composite
def waiting_clusters(draw: st.DrawFn) -> MetadataImage:
    """Brokers, some of them fenced or cordoned, and partitions with placeholders, some of them with an entry in a
    sparse table: those in reassignment wait, those with eligible leader replicas do not."""
    brokers, first = draw(st.integers(2, 4)), draw(st.sampled_from([0, 1]))
    image = live_cluster(brokers, first)
    image.partitions = image.topics.partitions = PartitionTable(compact_at_dead_rows=0)
    for number, name in enumerate(NAMES[: draw(st.integers(1, len(NAMES)))]):
        replica_count = draw(st.integers(1, 6))
        ids = st.lists(st.integers(first, first + brokers - 1), min_size=1, max_size=replica_count, unique=True)
        rows = [row + list(range(-1, len(row) - replica_count - 1, -1)) for row in draw(st.lists(ids, min_size=1))]
        add(image, name, number, rows)
    for broker_id in draw(st.sets(st.integers(first, first + brokers - 1))):
        apply(image, draw(st.sampled_from([fence, cordon]))(broker_id))
    for row, index in draw(st.sets(st.sampled_from(sorted(rows_of(image))), max_size=2)):
        topic_id = image.topics_by_row[row].topic_id
        sparse_fields: dict[str, Any] = draw(
            st.sampled_from([{"adding_replicas": [9]}, {"eligible_leader_replicas": [9]}])
        )
        apply(image, PartitionChangeRecord(topic_id=topic_id, partition_id=index, **sparse_fields))
    return image


def cordon(broker_id: int) -> BrokerRegistrationChangeRecord:
    """Cordon all log directories of a broker."""
    return BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=broker_id, cordoned_log_dirs=[uuid_of(20_000 + broker_id)]
    )


def add(image: MetadataImage, name: str, number: int, rows: list[list[int]]) -> Delta:
    partitions = new_partition_records(image.brokers, uuid_of(number + 1), 0, np.array(rows, dtype=np.int32))
    return apply(image, TopicRecord(name=name, topic_id=uuid_of(number + 1)), *partitions)


def rows_of(image: MetadataImage) -> Rows:
    return {
        (topic.row, index): list(image.partitions.read(topic.row, index).replicas)
        for topic in image.topics_by_name.values()
        for index in range(image.partition_count(topic))
    }


def fill_one_by_one(image: MetadataImage, limit: int) -> Rows:
    """The rule of semantics.md, partition by partition."""
    rows, held = rows_of(image), dict(image.usage.replicas)
    for broker_id in sorted(
        broker.broker_id for broker in image.brokers.values() if broker.live and not broker.cordoned
    ):
        waiting = [key for key in rows if key not in image.partitions.reassigning and broker_id not in rows[key]]
        for key in sorted(waiting, key=lambda key: (sum(replica >= 0 for replica in rows[key]), key)):
            limited = image.topics_by_row[key[0]].name not in UNLIMITED_TOPICS
            leftmost = next((position for position, replica in enumerate(rows[key]) if replica < 0), None)
            if leftmost is None or (limited and held.get(broker_id, 0) >= limit):
                continue
            rows[key][leftmost] = broker_id
            held[broker_id] = held.get(broker_id, 0) + limited
    return rows


def fills_of(image: MetadataImage, limit: int) -> PlaceholderFills:
    return PlaceholderFills(image, Settings(static_configs={"max.broker.partitions": str(limit)}))


def step(image: MetadataImage, fills: PlaceholderFills, size: Steps) -> int:
    """One step. Returns how many partitions it changed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placeholders, "ROWS_PER_STEP", size.rows_per_step)
        patch.setattr(placeholders, "COST_OF_TOPIC", size.cost_of_topic)
        records = fills.plan(size.most)
    if records:
        fills.follow(apply(image, *records))
    return count_records(records)


def finish(image: MetadataImage, fills: PlaceholderFills, size: Steps) -> None:
    for _ in range(2_000):
        if not fills.is_due:
            return
        assert step(image, fills, size) <= size.most
    raise AssertionError("filling goes on for ever")


@given(waiting_clusters(), st.integers(1, 12), steps)
def test_steps_of_any_size_fill_what_one_by_one_fills(image: MetadataImage, limit: int, size: Steps) -> None:
    expected = fill_one_by_one(image, limit)
    finish(image, fills_of(image, limit), size)
    assert rows_of(image) == expected
    for row, index in expected:
        partition = image.partitions.read(row, index)
        for replica, directory in zip(partition.replicas, partition.directories, strict=True):
            assert directory == (image.brokers[replica].log_dirs[0] if replica >= 0 else MIGRATING_DIRECTORY)


def test_a_reassignment_that_begins_between_two_steps_keeps_its_placeholders() -> None:
    image = live_cluster(2)
    add(image, "t", 0, [[1, -1]] * 3)
    fills, size = fills_of(image, 9), Steps(most=1, rows_per_step=100, cost_of_topic=0)
    assert step(image, fills, size) == 1
    apply(image, PartitionChangeRecord(topic_id=uuid_of(1), partition_id=1, removing_replicas=[1]))
    finish(image, fills, size)
    assert list(rows_of(image).values()) == [[1, 2], [1, -1], [1, 2]]


@given(waiting_clusters(), st.integers(1, 12), steps, st.integers(0, 8), st.data())
def test_what_happens_between_two_steps_is_seen(
    image: MetadataImage, limit: int, size: Steps, before: int, data: st.DataObject
) -> None:
    """A topic is deleted, rows move, a broker is fenced: in the end no broker with room has a placeholder left to fill.
    A partition that is in reassignment by then stays as it is."""
    fills = fills_of(image, limit)
    for _ in range(before):
        if fills.is_due:
            step(image, fills, size)
    topics, live = sorted(image.topics_by_name), sorted(image.live_brokers().ids.tolist())
    gone = data.draw(st.sampled_from(topics))
    fills.follow(apply(image, RemoveTopicRecord(topic_id=image.topics_by_name[gone].topic_id)))
    if live:
        fills.follow(add(image, "new", len(NAMES), [[broker_id, -1] for broker_id in live]))
        for broker_id in data.draw(st.sets(st.sampled_from(live), max_size=1)):
            fills.follow(apply(image, fence(broker_id)))
    waiting = [key for key, row in rows_of(image).items() if min(row) < 0]
    moving = data.draw(st.sets(st.sampled_from(waiting), max_size=2)) if waiting else set()
    for row, index in moving:
        topic_id = image.topics_by_row[row].topic_id
        moved = PartitionChangeRecord(topic_id=topic_id, partition_id=index, adding_replicas=[9])
        fills.follow(apply(image, moved))
    still = {key: rows_of(image)[key] for key in moving}
    finish(image, fills, size)
    assert {key: rows_of(image)[key] for key in moving} == still
    assert rows_of(image) == fill_one_by_one(image, limit)
    assert all(len(set(replicas)) == len(replicas) for replicas in rows_of(image).values())


def test_the_order_of_creation_holds_over_tables_of_all_widths() -> None:
    image = live_cluster(3)
    for number, rows in enumerate([[[1, 2]], [[1, -1, -2]], [[1, -1]]]):
        add(image, f"t{number}", number, rows)
    finish(image, fills_of(image, 1), Steps(most=10, rows_per_step=100, cost_of_topic=0))
    assert list(rows_of(image).values()) == [[1, 2], [1, 3, -2], [1, -1]]


@pytest.mark.parametrize("steps_before", range(11))
def test_rows_that_moved_are_looked_for_again(steps_before: int) -> None:
    """The order stays the same although the rows have moved to other positions."""
    image = live_cluster(3)
    image.partitions = image.topics.partitions = PartitionTable(compact_at_dead_rows=0)
    add(image, "gone", 0, [[1, 2, 3]] * 4)
    add(image, "t", 1, [[1, 2, -1], [1, -1, -2], [1, 2, -1]])
    fills, size = fills_of(image, 5), Steps(most=1, rows_per_step=1, cost_of_topic=0)
    image.usage.replicas.update({1: 9, 2: 9, 3: 4})
    for _ in range(steps_before):
        assert not step(image, fills, size)
    apply(image, RemoveTopicRecord(topic_id=uuid_of(1)))
    add(image, "new", 2, [[1, 2, -1]] * 4)
    image.usage.replicas.update({1: 9, 2: 9, 3: 4})
    finish(image, fills, size)
    assert list(rows_of(image).values()) == [[1, 2, -1], [1, 3, -2], [1, 2, -1], *[[1, 2, -1]] * 4]


def test_a_step_looks_at_a_bounded_number_of_rows() -> None:
    """One placeholder behind many complete partitions is not found in one step."""
    image = live_cluster(2)
    add(image, "t", 0, [[1, 2]] * 100)
    add(image, "u", 1, [[1, -1]])
    fills, size = fills_of(image, 1_000), Steps(most=10, rows_per_step=20, cost_of_topic=0)
    changed = []
    while fills.is_due:
        changed.append(step(image, fills, size))
    assert changed[:5] == [0] * 5
    assert sum(changed) == 1
