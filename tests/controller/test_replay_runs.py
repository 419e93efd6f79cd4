"""Runs of partition records, in every form that a run may have, have the effect of their single records."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.live_replicas import AcceptableLeaders
from klamm.controller.metadata.replay import ReplayError
from klamm.controller.metadata.usage import UNLIMITED_TOPICS
from klamm.protocol.columns import Columns, Ragged
from klamm.protocol.records.partitions import PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.topics import RemoveTopicRecord, TopicRecord
from klamm.protocol.uuid import Uuid
from tests.controller.cluster_states import add_topic, apply, clusters, fence, live_cluster, uuid_of
from tests.controller.image_facts import image_facts

COUNT = 10
"""More than are replayed one by one in any case."""


def ids(*numbers: int) -> np.ndarray[Any, Any]:
    return np.frombuffer(b"".join(uuid_of(number) for number in numbers), np.uint8).reshape(-1, 16)


def table(width: int, first: int = 0) -> Any:
    return np.arange(first, first + COUNT * width, dtype=np.int32).reshape(COUNT, width)


def uuids(width: int, among: int = 7) -> Any:
    numbers = [1 + number % among for number in range(COUNT * width)]
    return ids(*numbers).reshape(COUNT, width, 16) if width else np.empty((COUNT, 0, 16), np.uint8)


def ragged(rows: Any, least: int = 0) -> Ragged:
    return Ragged(rows, np.array([least + number % (rows.shape[1] + 1 - least) for number in range(COUNT)]))


def told(image: MetadataImage) -> dict[str, Any]:
    return {
        **image_facts(image),
        "usage": vars(image.usage),
        "counts at change": image.topics.counts_at_change,
    }


def both_ways(image: MetadataImage, other: MetadataImage, run: Columns[Any]) -> None:
    """Asserts that a run and its single records give the same image."""
    apply(image, run)
    for record in run:
        apply(other, record)
    assert told(image) == told(other)


LISTS: dict[str, tuple[Any, Any]] = {
    "no directories": (table(3), None),
    "empty lists of directories": (table(3), uuids(0)),
    "a directory for each": (table(3), uuids(3)),
    "lists of unequal length": (ragged(table(3), 1), ragged(uuids(3), 1)),
    "lists of unequal length without directories": (ragged(table(3), 1), None),
    "directories of unequal length that all are there": (table(3), Ragged(uuids(3), np.full(COUNT, 3))),
    "directories of some": (table(3), Ragged(uuids(3), np.array([3, 0] * (COUNT // 2)))),
    "broker 0 and placeholders": (np.array([[0, -1, 5], [-1, 0, 7]] * (COUNT // 2), np.int32), uuids(3)),
}


@pytest.mark.parametrize(("replicas", "directories"), LISTS.values(), ids=LISTS)
@pytest.mark.parametrize(
    "isr", [table(1), Ragged(table(9), np.array([0, 1] * 5))], ids=["ISRs", "ISRs of unequal length"]
)
@pytest.mark.parametrize("name", ["t", min(UNLIMITED_TOPICS)])
def test_a_run_of_new_partitions(name: str, isr: Any, replicas: Any, directories: Any) -> None:
    values = {
        "topic_id": uuid_of(1),
        "partition_id": np.arange(COUNT, dtype=np.int32),
        "replicas": replicas,
        "isr": isr,
        "leader": np.arange(COUNT, dtype=np.int32) % 3,
        "leader_epoch": np.arange(COUNT, dtype=np.int32),
        "partition_epoch": np.arange(COUNT, dtype=np.int32) + 3,
        **({} if directories is None else {"directories": directories}),
    }
    images = MetadataImage(), MetadataImage()
    for image in images:
        apply(image, TopicRecord(name=name, topic_id=uuid_of(1)))
    both_ways(*images, Columns(PartitionRecord, COUNT, values))


def test_directories_are_told_apart_though_a_quick_look_takes_them_for_one() -> None:
    """The fast comparison only mixes the two halves of an id."""
    mixed = 0x9E3779B97F4A7C15
    alike = [
        Uuid(one.to_bytes(8, "little") + (5 ^ (one * mixed % (1 << 64))).to_bytes(8, "little")) for one in range(1, 4)
    ]
    directories = np.frombuffer(b"".join(alike[number % 3] for number in range(2 * COUNT)), np.uint8)
    values = {
        "topic_id": uuid_of(1),
        "partition_id": np.arange(COUNT, dtype=np.int32),
        "replicas": table(2),
        "isr": table(2),
        "directories": directories.reshape(COUNT, 2, 16),
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
    }
    values |= {name: np.full(COUNT, values[name], np.int32) for name in ("leader", "leader_epoch", "partition_epoch")}
    image = MetadataImage()
    apply(image, TopicRecord(name="t", topic_id=uuid_of(1)), Columns(PartitionRecord, COUNT, values))
    found = [image.partitions.read(0, index).directories for index in range(COUNT)]
    assert found == [(alike[2 * index % 3], alike[(2 * index + 1) % 3]) for index in range(COUNT)]


def changed_cluster() -> MetadataImage:
    """Two topics in tables of unequal width, both of COUNT partitions."""
    image = live_cluster(6, 0)
    add_topic(image, 1, [[0, 1]] * COUNT)
    add_topic(image, 2, [[0, 1, 2]] * COUNT)
    return image


def change_run(partition_ids: list[int], numbers: list[int], **values: Any) -> Columns[PartitionChangeRecord]:
    named = {"topic_id": ids(*numbers), "partition_id": np.array(partition_ids, np.int32)}
    return Columns(PartitionChangeRecord, len(numbers), {**named, **values})


CHANGED: dict[str, dict[str, Any]] = {
    "leaders": {"leader": np.arange(COUNT, dtype=np.int32) % 2},
    "ISRs": {"isr": table(1)},
    "ISRs of unequal length": {"isr": ragged(table(2))},
    "ISRs of unequal length in lists longer than any": {"isr": Ragged(table(9), np.array([1, 2] * (COUNT // 2)))},
    "no ISR": {"isr": np.empty((COUNT, 0), np.int32)},
    "replicas": {"replicas": table(2, 3), "directories": uuids(2)},
    "more replicas than there is room for": {"replicas": table(5), "directories": uuids(5)},
    "fewer replicas": {"replicas": table(1), "directories": uuids(1)},
    "replicas and no directories": {"replicas": table(2, 3)},
    "recovery": {"leader_recovery_state": np.array([0, 1] * (COUNT // 2), np.int8)},
    "who is added": {"adding_replicas": table(1)},
    "who is removed": {"removing_replicas": table(2)},
    "nobody is eligible": {"eligible_leader_replicas": np.empty((COUNT, 0), np.int32)},
    "who is eligible": {"eligible_leader_replicas": table(1), "last_known_elr": table(1, 5)},
}


@pytest.mark.parametrize("values", CHANGED.values(), ids=CHANGED)
@pytest.mark.parametrize(
    "named",
    [
        [(index, 2) for index in range(COUNT)],
        [(index // 2, 1 + index % 2) for index in range(COUNT)],
        [(index // 2, 1) for index in range(COUNT)],
        [*((index, 1) for index in range(COUNT - 2)), (3, 2), (3, 2)],
        [*((index, 2) for index in range(COUNT - 2)), (3, 1), (3, 1)],
    ],
    ids=["one topic", "two in turns", "each twice", "one of the wider table twice", "one of the narrower table twice"],
)
def test_a_run_of_changes(named: list[tuple[int, int]], values: dict[str, Any]) -> None:
    partition_ids, numbers = map(list, zip(*named, strict=True))
    both_ways(changed_cluster(), changed_cluster(), change_run(partition_ids, numbers, **values))


@pytest.mark.parametrize("width", [3, 9])
def test_an_isr_that_is_longer_than_there_are_replicas_is_refused(width: int) -> None:
    image = changed_cluster()
    longer = Ragged(table(width), np.array([*[1] * (COUNT - 1), 3]))
    with pytest.raises(ReplayError, match="an ISR of 3 for 2 replicas"):
        apply(image, change_run(list(range(COUNT)), [1] * COUNT, isr=longer))


@given(clusters())
def test_what_brokers_hold_is_counted_from_broker_0_on(image: MetadataImage) -> None:
    apply(image, RemoveTopicRecord(topic_id=uuid_of(1)))
    rows = [
        image.partitions.read(topic.row, index).replicas
        for topic in image.topics_by_name.values()
        for index in range(image.partition_count(topic))
    ]
    held = {broker_id: sum(broker_id in row for row in rows) for broker_id in image.brokers}
    assert {broker_id: image.usage.replicas.get(broker_id, 0) for broker_id in image.brokers} == held
    assert (image.usage.partitions, image.usage.placeholders) == (len(rows), 0)


def test_who_could_lead_a_partition_is_one_of_its_replicas_and_live() -> None:
    image = live_cluster(4, 0)
    add_topic(image, 1, [[0, 2, 3, -1]])
    apply(image, fence(3))
    partition = image.partitions.read(0, 0)
    acceptable = AcceptableLeaders(image, partition)
    assert [broker_id for broker_id in range(-2, 9) if broker_id in acceptable] == [0, 2]


def new_run(partition_ids: list[int], numbers: list[int]) -> Columns[PartitionRecord]:
    count = len(numbers)
    values = {
        "topic_id": ids(*numbers),
        "partition_id": np.array(partition_ids, np.int32),
        "replicas": table(2)[:count],
        "isr": table(2)[:count],
        **{name: np.zeros(count, np.int32) for name in ("leader", "leader_epoch", "partition_epoch")},
    }
    return Columns(PartitionRecord, count, values)


def test_a_run_of_new_partitions_of_several_topics_in_turns() -> None:
    images = MetadataImage(), MetadataImage()
    for image in images:
        for name, number in (("t", 1), ("__consumer_offsets", 2), ("u", 3)):
            apply(image, TopicRecord(name=name, topic_id=uuid_of(number)))
    both_ways(*images, new_run([0, 1, 2, 0, 1, 0, 3, 4, 2, 1], [1, 1, 1, 2, 2, 3, 1, 1, 2, 3]))


@pytest.mark.parametrize("wrong", [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 1], [0, 0, 1]])
def test_new_partitions_that_do_not_follow_those_that_a_topic_has_are_refused(wrong: list[int]) -> None:
    image = MetadataImage()
    for number in (1, 2):
        apply(image, TopicRecord(name=f"t{number}", topic_id=uuid_of(number)))
    with pytest.raises(ReplayError, match="partitions of topic t2 do not follow the 0 that it has"):
        apply(image, new_run([0, 1, *wrong], [1, 1, 2, 2, 2]))
