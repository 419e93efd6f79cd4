"""All partitions that hold records: the memory that they share, and the effects of topics, brokers and configs on
them."""

from collections.abc import Collection

import numpy as np
import pytest

from klamm.broker.data.data_plane import PARTITIONS_PER_STEP, DataPlane
from klamm.broker.data.record_batches import ProducedBatch, read_produced
from klamm.broker.data.record_room import ENTRY_BYTES
from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.controller.data_limits import DataLimits
from klamm.controller.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from klamm.controller.settings import Settings
from klamm.controller.transitions.new_partitions import new_partition_records
from klamm.protocol.columns import Columns
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.records.brokers import UnregisterBrokerRecord
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.partitions import PartitionChangeRecord
from klamm.protocol.records.topics import RemoveTopicRecord, TopicRecord
from tests.broker.data.batches import batch
from tests.broker.data.watching import Watcher
from tests.controller.cluster_states import add_topic, apply, fence, live_cluster, uuid_of

NOW = 1_700_000_000_000
LAG_MAX_MS = 30_000
T1, T2 = uuid_of(1), uuid_of(2)
MOST = 100


def produced(records: int = 1, value: bytes = b"v") -> ProducedBatch:
    found = read_produced(batch(records, value=value), api_version=11, max_message_bytes=1_000_000)
    assert isinstance(found, ProducedBatch)
    return found


SIZE = len(produced().records)


class Driven:
    """Topic t1 of partitions led by broker 1, t2 of one led by broker 2, and the data plane that follows them."""

    def __init__(self, partitions: int = 2, **limits: int) -> None:
        self.image: MetadataImage = live_cluster(3)
        add_topic(self.image, 1, [[1, 2, 3]] * partitions)
        add_topic(self.image, 2, [[2, 3]])
        self.data = DataPlane(Settings(data_limits=DataLimits(**limits)))
        self.watcher = Watcher(self.data.watches)
        self.now = NOW

    def append(self, number: int = 1, index: int = 0, records: int = 1) -> int | ApiError:
        topic = self.image.topics_by_id[uuid_of(number)]
        return self.data.append(self.image, topic, index, produced(records), self.now)

    def log(self, number: int = 1, index: int = 0) -> ReplicatedLog:
        found = self.data.find(uuid_of(number), index)
        assert found is not None
        return found

    def change(self, *records: object) -> None:
        self.data.follow(self.image, apply(self.image, *records), self.now)

    def set_isr(self, *isr: int, index: int = 0) -> None:
        self.change(PartitionChangeRecord(topic_id=T1, partition_id=index, isr=isr))

    def follow_on(self) -> int:
        """The number of steps."""
        steps = 0
        while self.data.is_behind:
            assert 0 < self.data.follow_on(self.image, self.now) <= PARTITIONS_PER_STEP
            steps += 1
        return steps


def test_a_partition_is_there_once_it_held_a_record() -> None:
    assert Driven().data.is_empty
    driven = Driven()
    assert driven.data.find(T1, 0) is None
    assert [driven.append(), driven.append(), driven.append(index=1)] == [0, 1, 0]
    assert not driven.data.is_empty
    assert (driven.log().leader, driven.log().isr) == (1, (1, 2, 3))
    assert list(driven.data.partitions_of(T1)) == [0, 1]
    assert driven.data.partitions_of(T2) == {}


def test_without_room_nothing_is_written_and_nothing_goes() -> None:
    driven = Driven(memory_bytes=SIZE + 3 * ENTRY_BYTES, file_bytes=2 * SIZE)
    assert [driven.append(), driven.append(), driven.append(index=1)] == [0, 1, 0]
    before = driven.data.room.used_bytes, driven.data.room.file.used_bytes
    assert before == (SIZE + 3 * ENTRY_BYTES, 2 * SIZE)
    for refusal in (driven.append(), driven.append(number=2)):
        assert isinstance(refusal, ApiError)
        assert refusal.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert f"--data-file-bytes allows {2 * SIZE} bytes" in (refusal.message or "")
    assert (driven.data.room.used_bytes, driven.data.room.file.used_bytes) == before
    assert driven.data.find(T2, 0) is None
    assert driven.log().log.read(0, MOST * SIZE, 2) is not None
    assert (driven.log().log.log_start_offset, driven.data.size_bytes) == (0, 3 * SIZE)
    driven.data.delete_before(T1, 0, 2, driven.now)
    assert driven.data.size_bytes == SIZE
    assert driven.append(number=2) == 0
    assert driven.append() == 2


def test_the_number_of_batches_is_limited_by_memory() -> None:
    driven = Driven(memory_bytes=20 * ENTRY_BYTES, file_bytes=1 << 30)
    written = [driven.append() for _ in range(30)]
    refusal = written[-1]
    assert isinstance(refusal, ApiError)
    assert f"--data-memory-bytes is {20 * ENTRY_BYTES}" in (refusal.message or "")
    accepted = [offset for offset in written if not isinstance(offset, ApiError)]
    assert accepted == list(range(len(accepted)))
    assert 18 <= len(accepted) <= 20
    assert driven.data.room.used_bytes <= 20 * ENTRY_BYTES


def test_a_batch_that_is_larger_than_the_memory_goes_to_the_file_at_once() -> None:
    driven = Driven(memory_bytes=2_000, file_bytes=1 << 20)
    topic = driven.image.topics_by_id[T1]
    large = produced(value=bytes(10_000))
    for offset in range(3):
        assert driven.data.append(driven.image, topic, 0, large, driven.now) == offset
        assert driven.data.room.used_bytes == ENTRY_BYTES * (offset + 1)
    assert driven.data.room.file.used_bytes == 3 * len(large.records)


def test_batches_of_internal_topics_stay_in_memory() -> None:
    driven = Driven(memory_bytes=4 * SIZE, file_bytes=1 << 20)
    apply(driven.image, TopicRecord(name="__consumer_offsets", topic_id=uuid_of(3)))
    partitions = new_partition_records(driven.image.brokers, uuid_of(3), 0, np.array([[1, 2, 3]], dtype=np.int32))
    apply(driven.image, *partitions)
    topic = driven.image.topics_by_id[uuid_of(3)]
    for _ in range(9):
        driven.data.append(driven.image, topic, 0, produced(), driven.now, bounded=False)
    assert driven.data.room.file.used_bytes == 0
    assert isinstance(driven.append(), ApiError), "the memory is theirs"


def test_a_partition_that_is_deleted_gives_its_room_back() -> None:
    driven = Driven(memory_bytes=2 * (SIZE + ENTRY_BYTES), file_bytes=0)
    driven.append()
    driven.append(index=1)
    driven.watcher.watch([(T1, 1), (T2, 0)])
    driven.change(RemoveTopicRecord(topic_id=T1))
    assert (driven.data.size_bytes, driven.data.find(T1, 0), driven.data.is_empty) == (0, None, True)
    assert driven.watcher.take() == {(T1, 1)}
    assert driven.append(number=2) == 0
    assert list(driven.data.log_end_offsets()) == [((T2, 0), 1)]
    driven.now += 10 * LAG_MAX_MS
    assert driven.data.due(driven.now, MOST) == []


def test_partitions_begin_where_they_ended_and_all_of_the_isr_has_that() -> None:
    driven = Driven()
    driven.set_isr(1, 2)
    ends = {(T1, 0): 7, (T1, 1): 0, (T1, 2): 5, (uuid_of(9), 0): 5}
    driven.data.restore(driven.image, ends, NOW)
    assert dict(driven.data.log_end_offsets()) == {(T1, 0): 7, (T1, 1): 0}, "what is gone is passed over"
    log = driven.log()
    assert (log.log.log_start_offset, log.high_watermark(NOW), log.lag(2, NOW)) == (7, 7, 0)
    assert driven.append() == 7


def test_a_run_of_changes_is_followed_as_if_they_came_one_by_one() -> None:
    driven = Driven()
    driven.append()
    driven.append(number=2)
    driven.watcher.watch([(T1, 0), (T1, 1)])
    topic_ids = np.frombuffer(T1 + T1 + T2, np.uint8).reshape(-1, 16)
    values = {"topic_id": topic_ids, "partition_id": np.array([0, 1, 0]), "isr": np.array([[3], [3], [3]])}
    driven.change(Columns(PartitionChangeRecord, 3, {**values, "leader": np.array([3, 3, 3])}))
    assert [(log.leader, log.isr) for log in (driven.log(), driven.log(2))] == [(3, (3,))] * 2
    assert driven.data.find(T1, 1) is None
    assert driven.watcher.take() == {(T1, 0), (T1, 1)}, "also who waits for a first record is told"


def change_leader(driven: Driven, index: int) -> None:
    driven.change(PartitionChangeRecord(topic_id=T1, partition_id=index, leader=2))


def append(driven: Driven, index: int) -> None:
    driven.append(index=index)


@pytest.mark.parametrize("happens", [change_leader, append])
@pytest.mark.parametrize("has_records", [False, True])
def test_what_becomes_of_an_awaited_partition_is_told_once(happens: object, has_records: bool) -> None:
    assert callable(happens)
    driven = Driven()
    if has_records:
        driven.append()
        driven.append(index=1)
    happens(driven, 0)
    assert not driven.data.watches, "nobody waits"
    driven.watcher.watch([(T1, 1)])
    happens(driven, 0)
    assert not driven.watcher.take()
    happens(driven, 1)
    assert driven.watcher.take() == {(T1, 1)}
    assert not driven.watcher.take()


def test_isrs_are_due_when_somebody_fell_behind_or_caught_up_and_not_before() -> None:
    driven = Driven(replication_rate=1000)
    driven.set_isr(1)
    driven.append(records=500)
    assert driven.data.incomplete == {(T1, 0)}
    for ms, due in ((0, []), (498, []), (499, [((T1, 0), (1, 2, 3))])):
        assert driven.data.due(NOW + ms, MOST) == due
    assert driven.data.due(NOW + 499, MOST) == [], "once in a millisecond"
    assert driven.data.due(NOW + 500, MOST) == [((T1, 0), (1, 2, 3))], "it was not heeded"
    driven.now = NOW + 501
    driven.set_isr(1, 2, 3)
    assert driven.data.incomplete == set()
    assert driven.data.due(NOW + LAG_MAX_MS, MOST) == []
    driven.data.set_down(driven.image, [3], driven.now)
    driven.append()
    assert driven.data.due(driven.now + LAG_MAX_MS, MOST) == []
    assert driven.data.due(driven.now + LAG_MAX_MS + 1, MOST) == [((T1, 0), (1, 2))]


def test_an_isr_that_is_due_earlier_than_was_thought_is_found_then() -> None:
    driven = Driven(replication_rate=1)
    driven.append(records=10)
    driven.set_isr(1, 2, 3)
    driven.now += 20_000
    driven.set_isr(1)
    assert driven.data.next_due_ms > NOW + 19_999
    assert driven.data.due(driven.now, MOST) == [((T1, 0), (1, 2, 3))]


def test_of_many_isrs_that_are_due_a_bounded_number_is_told_at_a_time() -> None:
    partitions = PARTITIONS_PER_STEP + 10
    driven = Driven(partitions)
    driven.data.set_down(driven.image, [3], NOW)
    for index in range(partitions):
        driven.append(index=index)
    later = NOW + LAG_MAX_MS + 1
    reported = [driven.data.due(later, 7)]
    assert len(reported[0]) == 7
    while driven.data.next_due_ms <= later:
        reported.append(driven.data.due(later, partitions))
    assert [len(some) for some in reported] == [7, PARTITIONS_PER_STEP, 3]
    assert {key for some in reported for key, _ in some} == {(T1, index) for index in range(partitions)}


def test_what_is_known_of_due_times_does_not_grow_with_changes() -> None:
    driven = Driven(replication_rate=1000)
    for _ in range(2 * PARTITIONS_PER_STEP):
        driven.set_isr(1)  # a replica joins soon
        driven.now += 10
        driven.set_isr(1, 2, 3)
        driven.append(records=10)
        assert driven.data.due(driven.now, MOST) == [], "somebody falls behind in half a minute"
    assert len(driven.data._due_in_order) <= 2 + PARTITIONS_PER_STEP


@pytest.mark.parametrize("rounds", [PARTITIONS_PER_STEP // 2, PARTITIONS_PER_STEP, 2 * PARTITIONS_PER_STEP])
def test_an_isr_is_told_when_it_is_due_also_after_due_times_of_old_were_forgotten(rounds: int) -> None:
    """Outdated entries are removed from time to time. The others stay in order."""
    driven = Driven(replication_rate=1000)
    driven.append()
    driven.data.set_down(driven.image, [3], driven.now)
    driven.append()
    assert driven.data.due(driven.now, MOST) == [], "of the first partition a replica falls behind in half a minute"
    for _ in range(rounds):
        driven.set_isr(1, index=1)  # a replica joins soon
        driven.append(index=1, records=5)
        driven.now += 10
        driven.set_isr(1, 2, 3, index=1)
        driven.append(index=1, records=5)
        driven.now += 10
        assert driven.data.due(driven.now, MOST) == []
        driven.set_isr(1, index=1)
        driven.append(index=1, records=5)
        driven.now += 5
        assert driven.data.due(driven.now, MOST) == [((T1, 1), (1, 2))]
        driven.set_isr(1, 2, 3, index=1)
        assert driven.data.due(driven.now + 1, MOST) == []


@pytest.mark.parametrize("down", [[2], [1], [1, 2, 3]])
def test_who_is_down_neither_fetches_nor_serves(down: Collection[int]) -> None:
    driven = Driven(replication_rate=1000)
    driven.append(records=1000)
    assert driven.data.set_down(driven.image, down, NOW + 99)
    assert not driven.data.set_down(driven.image, list(down), NOW + 99)
    assert set(driven.data.down) == set(down)
    fetching = [broker_id for broker_id in (2, 3) if driven.log().lag(broker_id, NOW + 5000) == 0]
    assert fetching == ([3] if down == [2] else [])
    assert driven.data.set_down(driven.image, [], NOW + 5000)
    assert driven.log().high_watermark(NOW + 6000) == 1000


def test_what_concerns_all_partitions_is_followed_in_steps() -> None:
    partitions = 2 * PARTITIONS_PER_STEP + 10
    driven = Driven(partitions)
    for index in range(partitions):
        driven.append(index=index)
    driven.now += 1000
    assert driven.data.set_down(driven.image, [3], driven.now)
    assert driven.data.is_behind
    assert driven.follow_on() == 2
    driven.change(fence(2))
    assert driven.data.is_behind
    assert driven.follow_on() == 2
    driven.set_isr(1)
    assert driven.follow_on() == 0, "what was followed once is not followed again"
    for index in range(partitions):
        driven.append(index=index)
        assert [driven.log(1, index).lag(broker_id, driven.now + 1000) for broker_id in (1, 2, 3)] == [0, 1, 1]


def test_a_topic_that_goes_meanwhile_is_not_followed_any_more() -> None:
    driven = Driven(2 * PARTITIONS_PER_STEP)
    for index in range(2 * PARTITIONS_PER_STEP):
        driven.append(index=index)
    driven.data.set_down(driven.image, [3], NOW)
    driven.change(RemoveTopicRecord(topic_id=T1))
    driven.follow_on()
    assert driven.data.find(T1, 0) is None


@pytest.mark.parametrize(
    ("resource_type", "name"),
    [(TOPIC_RESOURCE, "t1"), (TOPIC_RESOURCE, "t2"), (TOPIC_RESOURCE, "nobody's"), (BROKER_RESOURCE, "")],
)
def test_a_new_minimum_of_replicas_in_sync_reaches_whom_it_concerns(resource_type: int, name: str) -> None:
    """If more replicas are required than are in sync, nothing is committed."""
    driven = Driven()
    driven.change(PartitionChangeRecord(topic_id=T2, partition_id=0, isr=(2,)))
    driven.set_isr(1)
    driven.append()
    driven.append(number=2)

    def set_minimum(value: str | None) -> None:
        driven.change(
            ConfigRecord(resource_type=resource_type, resource_name=name, name="min.insync.replicas", value=value)
        )
        driven.append()
        driven.append(number=2)

    set_minimum("2")
    stand_still = [driven.log(number).high_watermark(NOW) == 1 for number in (1, 2)]
    assert stand_still == [name in ("t1", ""), name in ("t2", "")]
    set_minimum(None)
    assert [driven.log(number).high_watermark(NOW) for number in (1, 2)] == [3, 3]


def test_other_configs_leave_no_partition_behind() -> None:
    driven = Driven(PARTITIONS_PER_STEP + 1)
    for index in range(PARTITIONS_PER_STEP + 1):
        driven.append(index=index)
    driven.set_isr(1)
    driven.follow_on()
    for name, is_behind in (("retention.ms", False), ("min.insync.replicas", True)):
        driven.change(ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t1", name=name, value="2"))
        assert driven.data.is_behind is is_behind


def test_a_replica_whose_broker_is_unregistered_does_not_fetch() -> None:
    driven = Driven(replication_rate=1000)
    driven.change(fence(3), UnregisterBrokerRecord(broker_id=3, broker_epoch=driven.image.brokers[3].broker_epoch))
    driven.append(records=10)
    assert [driven.log().lag(broker_id, NOW + 1000) for broker_id in (1, 2, 3)] == [0, 0, 10]


def test_what_is_committed_stays_so_when_somebody_joins_who_lacks_it() -> None:
    """A leader of Klamm's own would not add it to the ISR, but AlterPartition of an outside leader may."""
    driven = Driven(replication_rate=1)
    driven.set_isr(1)
    driven.append(records=10)
    assert driven.log().high_watermark(NOW) == 10
    driven.set_isr(1, 2)
    assert driven.log().lag(2, NOW) > 0
    assert driven.log().high_watermark(NOW) == 10
    driven.append(records=5)
    assert driven.log().high_watermark(NOW) == 10
