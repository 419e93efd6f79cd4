"""Events of partitions with records, step by step: the data plane beside plain lists that must have the same content.
Nothing is compared unless a step says so: a query may update its partition, and would then hide that an event failed
to."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from klamm.broker.data.data_plane import DataPlane
from klamm.broker.data.producers import WrittenBatch
from klamm.broker.data.record_batches import ProducedBatch, read_produced
from klamm.broker.data.record_room import ENTRY_BYTES
from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.controller.data_limits import DataLimits
from klamm.controller.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, Topic
from klamm.controller.metadata.partition import NO_LEADER_CHANGE, LogKey
from klamm.controller.settings import Settings
from klamm.protocol.columns import Columns
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.partitions import PartitionChangeRecord
from klamm.protocol.records.topics import RemoveTopicRecord
from tests.broker.data.batches import batch
from tests.broker.data.model_log import ModelReplicatedLog
from tests.broker.data.watching import Watcher
from tests.controller.cluster_states import add_topic, apply, fence, live_cluster, registration, unfence

NOW = 1_700_000_000_000
LAG_MAX_MS = 30_000
FOR_EVER_MS = 10**10
ALL = 1 << 30
BROKERS = (0, 1, 2, 3)
ROWS = [(0, 1, 2), (1, 0, -1, -2), (3, 0, -1), (2, 1), (1, 0, 2, 3)]
SIZE = len(batch())
ROOMS = [
    (ALL, ALL),
    (3 * SIZE + 10 * ENTRY_BYTES, ALL),
    (5 * (SIZE + ENTRY_BYTES), 0),
    (2 * SIZE + 6 * ENTRY_BYTES, 4 * SIZE),
]
"""Bytes of memory, and of the file."""


def sent(records: int, **numbers: Any) -> ProducedBatch:
    found = read_produced(batch(records, **numbers), api_version=11, max_message_bytes=ALL)
    assert isinstance(found, ProducedBatch)
    return found


def first_time(place: Callable[[int], int], offset: int, now_ms: int) -> int | None:
    """The first millisecond at which `place`, which only grows, is at the offset; None: never."""
    times = range(now_ms, now_ms + FOR_EVER_MS)
    index = bisect_left(times, offset, key=place)
    return None if index == len(times) else times[index]


class History:
    """Two topics at the beginning, four brokers, and the data plane that follows them."""

    def __init__(self, rate: int, room: tuple[int, int]) -> None:
        self.now = NOW
        self.image = live_cluster(len(BROKERS) - 1)
        apply(self.image, registration(0), unfence(0))
        add_topic(self.image, 1, [[0, 1, 2], [1, 2, 0]])
        add_topic(self.image, 2, [[2, 0]])
        self.topics = 2
        self.limits = DataLimits(replication_rate=rate, memory_bytes=room[0], file_bytes=room[1])
        self.data = DataPlane(Settings(data_limits=self.limits))
        self.watcher = Watcher(self.data.watches)
        self.model: dict[LogKey, ModelReplicatedLog] = {}
        self.down: set[int] = set()
        self.min_isr: dict[str, int] = {}
        self.touched: set[LogKey] = set()
        self.told: set[LogKey] = set()
        self.reached: set[str] = set()
        """The rules of the model that have been applied."""

    # The state

    def place(self, pick: int) -> tuple[Topic, int]:
        places = [
            (topic, index)
            for topic in self.image.topics_by_id.values()
            for index in range(self.image.partition_count(topic))
        ]
        return places[pick % len(places)]

    def log(self, key: LogKey) -> ReplicatedLog:
        found = self.data.find(*key)
        assert found is not None
        return found

    def fetches(self, broker_id: int) -> bool:
        return not self.image.brokers[broker_id].fenced and broker_id not in self.down

    def is_awaited(self, key: LogKey) -> bool:
        return key in self.watcher.watched

    # Consequences of an event

    def happened(self, key: LogKey) -> None:
        self.told.discard(key)
        if self.is_awaited(key):
            self.touched.add(key)

    def follow(self, key: LogKey) -> None:
        topic, model = self.image.topics_by_id[key[0]], self.model[key]
        partition = self.image.partitions.read(topic.row, key[1])
        needed = min(self.min_isr.get(topic.name, self.min_isr.get("", 1)), len(partition.replicas))
        end = model.end
        self.reached |= {"there is a placeholder"} if min(partition.replicas) < 0 else set()
        if model.follow(partition, self.fetches, self.now, needed):
            self.happened(key)
            self.reached |= {"records are cut off"} if model.end < end else set()

    def all_follow(self) -> None:
        for key in self.model:
            self.follow(key)

    def open(self, key: LogKey) -> ModelReplicatedLog:
        if key not in self.model:
            self.model[key] = ModelReplicatedLog(rate=self.limits.replication_rate)
            self.follow(key)
        return self.model[key]

    def log_records(self, *records: object) -> None:
        self.data.follow(self.image, apply(self.image, *records), self.now)
        self.follow_to_the_end()

    def follow_to_the_end(self) -> None:
        """In as many steps as it takes. No time passes."""
        while self.data.is_behind:
            assert self.data.follow_on(self.image, self.now) > 0

    # Events

    def wait(self, ms: int) -> None:
        self.now += ms
        self.told.clear()

    def produce(self, pick: int, records: int, producer_id: int = -1, number: str = "next") -> None:
        topic, index = self.place(pick)
        key = topic.topic_id, index
        if self.image.partitions.read(topic.row, index).leader < 0:
            return
        before = self.model.get(key)
        numbered = before.producers.get(producer_id, []) if before else []
        first = (numbered[-1].last + 1 if numbered else 0) + (number == "gap")
        if number == "again" and numbered:
            first, records = numbered[0].first, numbered[0].last - numbered[0].first + 1
        numbers = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": first} if producer_id >= 0 else {}
        reported = sent(records, **numbers)
        if before and producer_id >= 0:
            again = [one for one in numbered if (one.first, one.last) == (first, first + records - 1)]
            judged = self.log(key).producers.check(reported)
            assert isinstance(judged, WrittenBatch) == bool(again)
            if isinstance(judged, WrittenBatch):
                assert judged.base_offset == again[0].base_offset
            else:
                assert isinstance(judged, ApiError) == (bool(numbered) and number == "gap")
            if judged is not None:
                self.reached.add("a batch is repeated" if again else "a batch is missing")
                return
        self.write(topic, index, reported)

    def write(self, topic: Topic, index: int, told: ProducedBatch) -> None:
        key = topic.topic_id, index
        held = sum(len(one.data) + ENTRY_BYTES for log in self.model.values() for one in log.batches)
        needed = held + len(told.records) + ENTRY_BYTES
        written = self.data.append(self.image, topic, index, told, self.now)
        if isinstance(written, ApiError):
            assert written.code is ErrorCode.KAFKA_STORAGE_ERROR
            assert needed > self.limits.memory_bytes, "it would have fitted into the memory"
            self.reached.add("there is no room")
            return
        self.reached |= {"a batch just fits"} if needed == self.limits.memory_bytes else set()
        self.reached |= {"a batch goes to the file"} if needed > self.limits.memory_bytes else set()
        model = self.open(key)
        assert written == model.end
        appended = model.append(told.records, told.record_count, self.now)
        if told.producer_id >= 0:
            model.number(told.producer_id, told.base_sequence, appended)
        self.happened(key)

    def delete_records(self, pick: int, records: int) -> None:
        topic, index = self.place(pick)
        key = topic.topic_id, index
        model = self.model.get(key)
        if model is None:
            return
        offset = min(model.committed(self.now), model.start + records)
        self.data.delete_before(*key, offset, self.now)
        model.delete_before(offset)
        self.happened(key)

    def elect(self, pick: int, leader: int) -> None:
        topic, index = self.place(pick)
        isr = self.image.partitions.read(topic.row, index).isr
        if leader in self.image.partitions.read(topic.row, index).replicas or leader < 0:
            isr = isr if leader in isr or leader < 0 else (leader,)
            self.change(topic, index, PartitionChangeRecord(leader=leader, isr=isr))

    def set_isr(self, pick: int, isr: set[int]) -> None:
        topic, index = self.place(pick)
        partition = self.image.partitions.read(topic.row, index)
        members = [one for one in partition.replicas if one in isr or one == partition.leader]
        if members:
            self.change(topic, index, PartitionChangeRecord(isr=members))

    def reassign(self, pick: int, replicas: Sequence[int]) -> None:
        topic, index = self.place(pick)
        partition = self.image.partitions.read(topic.row, index)
        isr = [one for one in partition.isr if one in replicas]
        if isr:
            leader = NO_LEADER_CHANGE if partition.leader in (*isr, -1) else isr[0]
            self.change(topic, index, PartitionChangeRecord(replicas=replicas, isr=isr, leader=leader))

    def change(self, topic: Topic, index: int, record: PartitionChangeRecord) -> None:
        record.topic_id, record.partition_id = topic.topic_id, index
        self.log_records(record)
        self.changed((topic.topic_id, index))

    def changed(self, key: LogKey) -> None:
        if key in self.model:
            self.follow(key)
        else:
            self.happened(key)

    def elect_in_many(self, leader: int) -> None:
        """Leaders of many partitions, changed by a run of columns."""
        places = [
            (topic.topic_id, index)
            for topic, index in map(self.place, range(len(self.image.topics_by_id) + 1))
            if leader in self.image.partitions.read(topic.row, index).replicas
        ]
        if places:
            topic_ids = np.frombuffer(b"".join(topic_id for topic_id, _ in places), np.uint8).reshape(-1, 16)
            leaders = np.full(len(places), leader)
            indexes = np.array([index for _, index in places])
            values = {"topic_id": topic_ids, "partition_id": indexes, "leader": leaders, "isr": leaders.reshape(-1, 1)}
            self.log_records(Columns(PartitionChangeRecord, len(places), values))
            for key in places:
                self.changed(key)

    def fence(self, broker_id: int, fenced: bool) -> None:
        if self.image.brokers[broker_id].fenced != fenced:
            self.log_records((fence if fenced else unfence)(broker_id))
            self.all_follow()

    def set_down(self, down: set[int]) -> None:
        assert self.data.set_down(self.image, down, self.now) == (down != self.down)
        self.follow_to_the_end()
        self.down = down
        self.all_follow()

    def set_min_isr(self, topic_name: str, value: int | None) -> None:
        if topic_name and topic_name not in self.image.topics_by_name:
            return
        text = None if value is None else str(value)
        resource_type = TOPIC_RESOURCE if topic_name else BROKER_RESOURCE
        self.log_records(
            ConfigRecord(resource_type=resource_type, resource_name=topic_name, name="min.insync.replicas", value=text)
        )
        self.min_isr.pop(topic_name, None)
        if value is not None:
            self.min_isr[topic_name] = value
        self.all_follow()

    def replace_topic(self, pick: int) -> None:
        topic, _ = self.place(pick)
        rows = [[0, 1, 2], [1, 3, 2]]
        if not all(any(self.image.brokers[broker_id].live for broker_id in row) for row in rows):
            return
        self.log_records(RemoveTopicRecord(topic_id=topic.topic_id))
        self.touched |= {key for key in self.watcher.watched if key[0] == topic.topic_id}
        for key in [key for key in self.model if key[0] == topic.topic_id]:
            del self.model[key]
        self.min_isr.pop(topic.name, None)
        self.topics += 1
        add_topic(self.image, self.topics, rows)

    def restart(self) -> None:
        """Another process, which knows the log end offsets of the former one."""
        ends = dict(self.data.log_end_offsets())
        self.data = DataPlane(Settings(data_limits=self.limits))
        self.data.restore(self.image, ends, self.now)
        self.watcher.move_to(self.data.watches)
        self.down, self.touched = set(), set()
        self.told.clear()
        for key, model in self.model.items():
            model.restart()
            self.follow(key)
        self.touched.clear()
        self.watcher.take()

    def wait_for_some(self, picked: set[int]) -> None:
        self.watcher.watch((topic.topic_id, index) for topic, index in map(self.place, picked))

    # Queries

    def look_at_isrs(self, most: int, heeded: bool) -> None:
        """The ISRs that the leader would change by now, each once in a millisecond."""
        found: list[tuple[LogKey, tuple[int, ...]]] = []
        while self.data.next_due_ms <= self.now:
            some = self.data.due(self.now, most)
            assert len(some) <= most
            found += some
            self.reached |= {"more ISRs are due than are asked for"} if len(some) == most < len(self.model) else set()
        expected = {}
        for key, model in self.model.items():
            leaving = model.leaving(self.now, LAG_MAX_MS)
            joining = model.joining(self.now)
            self.note_who_joins(model, joining)
            self.reached |= {"a replica leaves"} if leaving else set()
            isr = (*(one for one in model.isr if one not in leaving), *joining)
            if isr != tuple(model.isr) and key not in self.told:
                expected[key] = isr
        assert sorted(found) == sorted(expected.items())
        self.told |= expected.keys()
        for key, isr in found if heeded else ():
            self.change(self.image.topics_by_id[key[0]], key[1], PartitionChangeRecord(isr=isr))

    def note_who_joins(self, model: ModelReplicatedLog, joining: Sequence[int]) -> None:
        self.reached |= {"a replica joins"} if joining else set()
        for replica, line in model.lines.items():
            if model.leader >= 0 and replica not in model.isr and line.since_ms is not None:
                offset, committed = model.has(replica, self.now), model.committed(self.now)
                self.reached |= (
                    {"the epoch's start alone keeps a replica out"}
                    if committed <= offset < model.epoch_start
                    else set()
                )
                self.reached |= (
                    {"what is committed alone keeps a replica out"}
                    if model.epoch_start <= offset < committed
                    else set()
                )

    def look_at_what_was_touched(self) -> None:
        assert self.watcher.take() == self.touched
        self.touched = set()

    def look(self) -> None:
        ends = {key: model.end for key, model in self.model.items()}
        assert dict(self.data.log_end_offsets()) == ends
        assert self.data.is_empty == (not self.model)
        assert self.data.size_bytes == sum(model.size_bytes for model in self.model.values())
        assert self.data.incomplete == {key for key, model in self.model.items() if len(model.isr) < len(model.lines)}
        for key, model in self.model.items():
            is_what_the_model_says(self.log(key), model, self.now)


def first_change(model: ModelReplicatedLog, now_ms: int) -> int | None:
    """The earliest change of the ISR: a member has lacked records for too long, or another replica has caught up with
    what is required now. None: no change before another event."""
    times = [LAG_MAX_MS + 1 + model.appended_ms(model.has(replica, now_ms)) for replica in model.lagging(now_ms)]
    enough = max(model.committed(now_ms), model.epoch_start)
    for replica, line in model.lines.items():
        if model.leader >= 0 and replica not in model.isr and line.since_ms is not None:
            time = first_time(partial(model.has, replica), enough, now_ms)
            times += [] if time is None else [time]
    return max(now_ms, min(times)) if times else None


def is_what_the_model_says(found: ReplicatedLog, model: ModelReplicatedLog, now_ms: int) -> None:
    log = found.log
    assert (log.log_start_offset, log.log_end_offset) == (model.start, model.end)
    assert log.read(model.start, ALL, model.end) == model.read(model.start, ALL, model.end)
    assert (found.leader, found.leader_epoch, list(found.isr)) == (model.leader, model.leader_epoch, list(model.isr))
    assert found.epoch_start == model.epoch_start
    assert list(found.replicas) == list(model.lines)
    for epoch in range(-1, model.leader_epoch + 2):
        assert log.epoch_end_offset(epoch) == model.end_of(epoch)
    for offset in (model.start - 1, model.start, model.end - 1, model.end):
        assert log.epochs.epoch_at(offset) == model.epoch_at(offset)
    assert {(producer_id, newest.last_sequence, newest.base_offset) for producer_id, _, newest in found.producers} == {
        (producer_id, numbered[-1].last, numbered[-1].base_offset) for producer_id, numbered in model.producers.items()
    }
    watermark = model.committed(now_ms)
    for offset in {model.start, watermark, watermark + 1, (watermark + model.end) // 2, model.end, model.end + 1}:
        assert found.reaches_at_ms(offset, now_ms) == first_time(model.committed, offset, now_ms)
        for replica in model.lines:
            assert found.has_at_ms(replica, offset, now_ms) == first_time(partial(model.has, replica), offset, now_ms)
    assert found.high_watermark(now_ms) == watermark
    for replica in model.lines:
        assert found.log_end_offset(replica, now_ms) == model.has(replica, now_ms)
        assert found.lag(replica, now_ms) == model.lag(replica, now_ms)
    due_ms = found.due_ms(now_ms, LAG_MAX_MS)
    assert (None if due_ms is None else max(now_ms, due_ms)) == first_change(model, now_ms)
    assert list(found.caught_up(now_ms)) == model.joining(now_ms)
    assert list(found.fallen_behind(now_ms, LAG_MAX_MS)) == model.leaving(now_ms, LAG_MAX_MS)
