"""Replay: any batching of a log gives one image, and so do its bytes; records that contradict the image are refused."""

import copy
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.log_records import Record, count_records
from klamm.controller.metadata.columns import PADDING
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.replay import ReplayError, replay
from klamm.controller.settings import Settings
from klamm.controller.transitions.elections import plan_broker_return
from klamm.controller.transitions.features import bootstrap_records
from klamm.controller.transitions.leadership import plan_broker_loss
from klamm.controller.transitions.new_partitions import new_partition_records
from klamm.protocol.columns import Columns
from klamm.protocol.fields import Message
from klamm.protocol.record_batch import decode_batches, encode_batch
from klamm.protocol.records.brokers import ProducerIdsRecord
from klamm.protocol.records.cluster import NoOpRecord
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.partitions import ClearElrRecord, PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.topics import RemoveTopicRecord, TopicRecord
from tests.controller.cluster_states import add_topic, apply, fence, live_cluster, registration, unfence, uuid_of
from tests.controller.image_facts import image_facts
from tests.controller.test_leadership import catch_up

SETTINGS = Settings()


class History:
    """A log as batches of records, and the image that they gave live."""

    def __init__(self, brokers: int) -> None:
        self.image = MetadataImage()
        self.batches: list[list[Record]] = []
        self.write(bootstrap_records(Settings()))
        for broker_id in range(1, brokers + 1):
            self.write([registration(broker_id), unfence(broker_id)])

    def write(self, records: list[Record]) -> None:
        if records:
            replay(self.image, records, self.image.next_offset)
            self.batches.append(records)

    def singles(self) -> list[Message]:
        return [
            one
            for records in self.batches
            for record in records
            for one in (record if isinstance(record, Columns) else [record])
        ]


@st.composite
def histories(draw: st.DrawFn) -> History:
    history = History(draw(st.integers(2, 5)))
    brokers = len(history.image.brokers)
    for number in range(1, draw(st.integers(1, 5)) + 1):
        replication_factor = draw(st.integers(1, brokers))
        row = st.permutations(range(1, brokers + 1)).map(lambda ids, r=replication_factor: list(ids)[:r])  # type: ignore[misc]
        replicas = np.array(draw(st.lists(row, min_size=1, max_size=6)), dtype=np.int32)
        topic_id = uuid_of(number)
        history.write(
            [
                TopicRecord(name=f"t.{number}", topic_id=topic_id),
                ConfigRecord(resource_type=2, resource_name=f"t.{number}", name="retention.ms", value=str(number)),
                *new_partition_records(history.image.brokers, topic_id, 0, replicas),
            ]
        )
        broker_id = draw(st.integers(1, brokers))
        if draw(st.booleans()) and brokers > 1:
            history.write([*plan_broker_loss(history.image, SETTINGS, broker_id), fence(broker_id)])
            history.write([unfence(broker_id), *plan_broker_return(history.image, SETTINGS, broker_id)])
            history.write(catch_up(history.image))
        history.write([ProducerIdsRecord(broker_id=broker_id, next_producer_id=1_000 * number)])
        if draw(st.integers(0, 4)) == 0:
            history.write([RemoveTopicRecord(topic_id=topic_id)])
    return history


@given(histories(), st.data())
def test_any_batching_of_the_log_gives_one_image(history: History, data: st.DataObject) -> None:
    singles = history.singles()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(singles)))) | {0, len(singles)})
    image = MetadataImage()
    for start, end in pairwise(cuts):
        replay(image, singles[start:end], start)
    assert image_facts(image) == image_facts(history.image)


@given(histories())
def test_the_bytes_of_the_log_give_the_same_image(history: History) -> None:
    data, offset = b"", 0
    for records in history.batches:
        data += encode_batch(offset, 1, 0, records)
        offset += count_records(records)
    image = MetadataImage()
    for batch in decode_batches(data):
        replay(image, batch.contents, batch.base_offset)
    assert image_facts(image) == image_facts(history.image)


class LongBatches:
    """Batches of records, with a short representation."""

    def __init__(self, *batches: list[Message]) -> None:
        self.batches = batches


@st.composite
def long_batches(draw: st.DrawFn) -> LongBatches:
    """Batches long enough to have runs: partitions of a few shapes, then changes of a few kinds, some more than once.
    The topics have one partition each, or many, and one of them does not count for limits."""
    broker_ids = st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True)
    few = st.none() | st.lists(st.integers(1, 9), max_size=2)
    names = ["many", "__consumer_offsets", *(f"small.{number}" for number in range(draw(st.sampled_from([1, 30]))))]
    counts = [draw(st.sampled_from([1, 30, 50])), draw(st.sampled_from([1, 20])), *[1] * len(names)]
    same = st.just(draw(broker_ids)) if draw(st.booleans()) else broker_ids
    shapes = [draw(new_shapes(same, few)) for _ in range(draw(st.integers(1, 3)))]
    created: list[Message] = []
    keys = []
    for number, (name, count) in enumerate(zip(names, counts, strict=False)):
        created.append(TopicRecord(name=name, topic_id=uuid_of(number)))
        for index in range(count):
            values = {**shapes[index % len(shapes)], "leader_epoch": index, "leader": index % 5}
            created.append(PartitionRecord(partition_id=index, topic_id=uuid_of(number), **values))
            keys.append((index, uuid_of(number)))
    changed: list[Message] = []
    for _ in range(draw(st.integers(1, 3))):
        kinds = [draw(changes(broker_ids, few)) for _ in range(draw(st.integers(1, 2)))]
        first = draw(st.integers(0, len(keys) - 1))
        for at, (index, topic_id) in enumerate([*keys[first:], *keys[: draw(st.integers(0, 2))]]):
            changed.append(PartitionChangeRecord(partition_id=index, topic_id=topic_id, **kinds[at % len(kinds)]))
    return LongBatches(created, changed)


def new_shapes(broker_ids: st.SearchStrategy[list[int]], few: Any) -> st.SearchStrategy[dict[str, Any]]:
    """The lengths of a partition's lists, which are its shape."""
    return broker_ids.flatmap(
        lambda replicas: st.fixed_dictionaries(
            {
                "replicas": st.just([*replicas, -1]),
                "isr": st.sampled_from([replicas, replicas[:1], []]),
                "directories": st.sampled_from(
                    [[uuid_of(51)] * (len(replicas) + 1), [], [uuid_of(50), *[uuid_of(51)] * len(replicas)]]
                ),
            },
            optional={
                "leader_recovery_state": st.just(1),
                "adding_replicas": st.just(replicas[:1]),
                "eligible_leader_replicas": few,
                "last_known_elr": few,
            },
        )
    )


def changes(broker_ids: st.SearchStrategy[list[int]], few: Any) -> st.SearchStrategy[dict[str, Any]]:
    """The fields of a change, in any combination."""
    moved = broker_ids.map(
        lambda replicas: {"replicas": replicas, "directories": [uuid_of(50 + replica) for replica in replicas]}
    )
    others = st.fixed_dictionaries(
        {},
        optional={
            "isr": st.lists(st.integers(1, 9), max_size=1),
            "leader": st.integers(-1, 9),
            "leader_recovery_state": st.sampled_from([0, 1]),
            "adding_replicas": few,
            "removing_replicas": few,
            "eligible_leader_replicas": few,
            "last_known_elr": few,
        },
    )
    without_directories = broker_ids.map(lambda replicas: {"replicas": replicas})
    return st.tuples(st.just({}) | moved | without_directories, others).map(lambda both: {**both[0], **both[1]})


@given(long_batches())
def test_runs_from_bytes_give_the_image_of_their_records_one_by_one(long: LongBatches) -> None:
    """Replayed record by record, as batches of records, and as batches whose runs were decoded as columns."""
    one_by_one, together, decoded = MetadataImage(), MetadataImage(), MetadataImage()
    offset = 0
    for records in long.batches:
        for index, record in enumerate(records):
            replay(one_by_one, [record], offset + index)
        replay(together, records, offset)
        (batch,) = decode_batches(encode_batch(offset, 1, 0, records))
        replay(decoded, batch.contents, offset)
        offset += len(records)
    for image in (together, decoded):
        assert image_facts(image) == image_facts(one_by_one)
        assert usage_facts(image) == usage_facts(one_by_one)
        assert sparse_facts(image) == sparse_facts(one_by_one)
        for table in image.partitions.tables.values():
            beyond = np.arange(table.width) >= table.isr_count[: table.count, None]
            assert (table.isr[: table.count][beyond] == PADDING).all()


def usage_facts(image: MetadataImage) -> Any:
    return sorted(image.usage.replicas.items()), image.usage.partitions, image.usage.placeholders


def sparse_facts(image: MetadataImage) -> Any:
    """Which partitions are marked as having a sparse entry."""
    return {
        (topic.row, owned.first_index + position)
        for topic in image.topics_by_row.values()
        for owned, table in image.partitions.topic_ranges(topic.row)
        for position in np.flatnonzero(table.sparse[owned.rows]).tolist()
    }


@st.composite
def new_partitions(draw: st.DrawFn) -> list[PartitionRecord]:
    """New partitions of topics 1 and 2 as any log may have them: of every length, in reassignment, without
    directories."""
    ids = st.lists(st.integers(-2, 9), min_size=1, max_size=5, unique=True)
    few = st.lists(st.integers(1, 9), max_size=1)
    records = []
    for topic in (1, 2):
        for index in range(draw(st.integers(0, 8))):
            replicas = draw(ids)
            directories = [uuid_of(draw(st.integers(50, 52))) for _ in replicas] if draw(st.booleans()) else []
            record = PartitionRecord(
                partition_id=index,
                topic_id=uuid_of(topic),
                replicas=replicas,
                isr=replicas[: draw(st.integers(0, 2))],
                leader=draw(st.integers(-1, 9)),
                leader_epoch=draw(st.integers(0, 3)),
                partition_epoch=draw(st.integers(0, 3)),
                leader_recovery_state=draw(st.integers(0, 1)),
                directories=directories,
                adding_replicas=draw(few),
                removing_replicas=draw(few),
                eligible_leader_replicas=draw(st.none() | few),
                last_known_elr=draw(st.none() | few),
            )
            records.append(record)
    return records


@given(new_partitions())
def test_new_partitions_replayed_together_are_those_replayed_one_by_one(records: list[PartitionRecord]) -> None:
    topics = [
        TopicRecord(name="t", topic_id=uuid_of(1)),
        TopicRecord(name="__consumer_offsets", topic_id=uuid_of(2)),
    ]
    together, one_by_one = MetadataImage(), MetadataImage()
    replay(together, [*topics, *records], 0)
    replay(one_by_one, topics, 0)
    for offset, record in enumerate(records, len(topics)):
        replay(one_by_one, [record], offset)
    assert image_facts(together) == image_facts(one_by_one)
    assert usage_facts(together) == usage_facts(one_by_one)


def contradictions() -> list[tuple[str, Message]]:
    return [
        ("a partition of no topic", PartitionRecord(partition_id=0, topic_id=uuid_of(9), replicas=[1], isr=[1])),
        ("a gap in the partitions", PartitionRecord(partition_id=2, topic_id=uuid_of(1), replicas=[1], isr=[1])),
        ("a change of no partition", PartitionChangeRecord(partition_id=7, topic_id=uuid_of(1), leader=1)),
        ("a change of no topic", PartitionChangeRecord(partition_id=0, topic_id=uuid_of(9), leader=1)),
        ("a topic twice", TopicRecord(name="t", topic_id=uuid_of(5))),
        ("an id twice", TopicRecord(name="u", topic_id=uuid_of(1))),
        ("the removal of no topic", RemoveTopicRecord(topic_id=uuid_of(9))),
        ("a change of no broker", unfence(9)),
        ("producer ids once more", ProducerIdsRecord(broker_id=1, next_producer_id=1_000)),
    ]


@pytest.mark.parametrize(
    ("what", "record"), contradictions(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_record_that_contradicts_the_image_is_refused(what: str, record: Message) -> None:
    history = History(2)
    history.write(
        [
            TopicRecord(name="t", topic_id=uuid_of(1)),
            *new_partition_records(history.image.brokers, uuid_of(1), 0, np.array([[1, 2]], dtype=np.int32)),
            ProducerIdsRecord(broker_id=1, next_producer_id=1_000),
        ]
    )
    before = image_facts(copy.deepcopy(history.image))
    with pytest.raises(ReplayError):
        replay(history.image, [record], history.image.next_offset)
    assert image_facts(history.image) == before, what


def test_a_no_op_moves_the_offset_and_nothing_else() -> None:
    history = History(1)
    before = image_facts(history.image)
    history.write([NoOpRecord()])
    assert image_facts(history.image) == {**before, "next_offset": before["next_offset"] + 1}


@pytest.mark.parametrize(("topic_name", "cleared"), [("t1", {"t1"}), ("t2", {"t2"}), ("", {"t1", "t2"})])
def test_a_partition_that_loses_eligible_leader_replicas_is_in_its_next_epoch(
    topic_name: str, cleared: set[str]
) -> None:
    """Whether it had eligible or last known ones. Others, and reassignments in progress, do not change."""
    image = live_cluster(3)
    changes: list[dict[str, Any]] = [
        {},
        {"eligible_leader_replicas": [3]},
        {"last_known_elr": [2]},
        {"eligible_leader_replicas": [3], "adding_replicas": [3]},
        {"adding_replicas": [3]},
    ]
    for number in (1, 2):
        add_topic(image, number, [[1, 2, 3]] * len(changes))
        for index, change in enumerate(changes):
            apply(image, PartitionChangeRecord(partition_id=index, topic_id=uuid_of(number), **change))
    before = image_facts(image)["partitions"]
    apply(image, ClearElrRecord(topic_name=topic_name))
    for (name, index), partition in image_facts(image)["partitions"].items():
        loses = name in cleared and index in (1, 2, 3)
        expected = replace(before[name, index], partition_epoch=2, eligible_leader_replicas=(), last_known_elr=())
        assert partition == (expected if loses else before[name, index])
    assert {index for row, index in sparse_facts(image) if row == image.topics_by_name[min(cleared)].row} == {3, 4}


def test_eligible_leader_replicas_of_a_topic_that_is_not_there_cannot_be_cleared() -> None:
    with pytest.raises(ReplayError):
        apply(live_cluster(1), ClearElrRecord(topic_name="t"))


def test_a_removed_topic_takes_its_configs_along_and_frees_its_name() -> None:
    history = History(2)
    history.write(
        [
            TopicRecord(name="a.b", topic_id=uuid_of(1)),
            ConfigRecord(resource_type=2, resource_name="a.b", name="retention.ms", value="1"),
        ]
    )
    history.write([RemoveTopicRecord(topic_id=uuid_of(1))])
    assert image_facts(history.image)["configs"] == {(4, ""): {"min.insync.replicas": "1"}}
    assert history.image.collision_keys == {}
    history.write([TopicRecord(name="a.b", topic_id=uuid_of(2))])
    assert history.image.topics_by_name["a.b"].topic_id == uuid_of(2)


def test_of_two_names_that_collide_one_may_go_and_the_other_still_counts() -> None:
    """Only logs of other programs have such names: no request creates them."""
    image = MetadataImage()
    names = ("a.b", "a_b", "a.c")
    apply(image, *(TopicRecord(name=name, topic_id=uuid_of(number)) for number, name in enumerate(names, start=1)))
    assert sorted(map(sorted, image.collision_keys.values())) == [["a.b", "a_b"], ["a.c"]]
    apply(image, RemoveTopicRecord(topic_id=uuid_of(1)))
    assert sorted(map(sorted, image.collision_keys.values())) == [["a.c"], ["a_b"]]
    apply(image, RemoveTopicRecord(topic_id=uuid_of(2)))
    assert sorted(map(sorted, image.collision_keys.values())) == [["a.c"]]
