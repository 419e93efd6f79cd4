"""The record data of the cluster and the progress of its replication: soft state, beside the image and never logged.

A partition that never held a record has no entry here: its log is empty. The others are found by topic id and index.
The data plane learns changes of partitions, brokers and configs from the delta of each commit (`follow`). Handlers of
Produce and similar APIs use `find` and `append`. Nothing happens here in the background: callers pass the time, and
`due` returns the partitions whose ISR has to change. A change that affects all partitions is applied in steps
(`follow_on`); partitions that are not reached yet replicate as before.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final

from klamm.broker.data.kept import Kept
from klamm.broker.data.offline_replicas import fetching, offline_replicas
from klamm.broker.data.partition_log import PartitionLog
from klamm.broker.data.record_batches import ProducedBatch, decode_header
from klamm.broker.data.record_file import RecordFile
from klamm.broker.data.record_room import RecordRoom
from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.broker.data.reservations import Reservations
from klamm.broker.data.watches import Watches
from klamm.controller.configs import (
    CleanupRules,
    cleanup_rules,
    producer_id_expiration_ms,
    record_rules,
    replica_lag_time_max_ms,
)
from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata.image import TOPIC_RESOURCE, MetadataImage, Topic
from klamm.controller.metadata.partition import LogKey
from klamm.controller.settings import Settings
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.internal_topics import INTERNAL_TOPICS
from klamm.protocol.uuid import Uuid

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
ALL_DURABLE: Final = 2**63 - 1
PARTITIONS_PER_STEP: Final = 500
"""The most partitions that one step processes, at about 15 µs each."""


class DataPlane:
    """All partitions that hold or held records, and which brokers are down."""

    def __init__(self, settings: Settings, file: RecordFile | None = None) -> None:
        """`file`: where batches beyond the memory budget go; None: in a temporary one."""
        limits = settings.data_limits
        self.room = RecordRoom(limits.memory_bytes, file or RecordFile(limits.file_bytes))
        """The memory and the file that the logs share."""
        self.kept: Kept | None = None
        """Where the records of internal topics are kept; None: in memory alone."""
        self.reservations: Reservations | None = None
        """The reservations of offsets; None: the cluster ends with its process. Set by the server."""
        self.watches = Watches()
        """Callbacks for partitions that change, including partitions that never held a record."""
        self.rates: dict[int, int] = {}
        """Messages per second that the followers on a broker fetch of each partition, if it is not the usual rate. Set
        by `set_rate`."""
        self.held_out: set[tuple[LogKey, int]] = set()
        """Replicas that do not join the ISR although they are caught up, because a user has removed them from it."""
        self._settings = settings
        self._replication_rate = limits.replication_rate
        self._replica_lag_time_max_ms = replica_lag_time_max_ms(settings)
        self._topics: dict[Uuid, dict[int, ReplicatedLog]] = {}
        self._down: frozenset[int] = frozenset()
        self.simulated: Collection[int] | None = None  # set by `SimulatedBrokers`
        self._min_isr: dict[tuple[Uuid, int], int] = {}
        """A cache of min.insync.replicas, by topic id and leader."""
        self._cleanup_rules: dict[tuple[Uuid, int], CleanupRules] = {}
        """A cache of the configs about segments, retention and compaction, by topic id and leader."""
        self._behind: dict[Uuid, list[int]] = {}
        """Partitions to which a change of brokers or configs is not applied yet: their indexes, by topic id."""
        self._due: dict[LogKey, int] = {}
        """When (ms) to check the ISR of partitions with a replica outside the ISR, or with one in it that lacks
        records. This may be too early; the check then finds a later time."""
        self._due_in_order: list[tuple[int, LogKey]] = []
        """The entries of `_due` as a heap, which also has outdated entries."""
        self._incomplete: set[LogKey] = set()

    @property
    def is_empty(self) -> bool:
        """Whether there is no partition that holds or held records."""
        return not self._topics

    @property
    def size_bytes(self) -> int:
        """The bytes of all batches."""
        return sum(found.log.size_bytes for partitions in self._topics.values() for found in partitions.values())

    def find(self, topic_id: Uuid, partition_index: int) -> ReplicatedLog | None:
        """The partition, if it holds or held records; otherwise None."""
        partitions = self._topics.get(topic_id)
        return None if partitions is None else partitions.get(partition_index)

    def append(
        self,
        image: MetadataImage,
        topic: Topic,
        partition_index: int,
        batch: ProducedBatch,
        now_ms: int,
        *,
        log_append_time: bool = False,
        bounded: bool = True,
    ) -> int | ApiError:
        """Append a batch to an existing partition. Returns its first offset, or KAFKA_STORAGE_ERROR if there is neither
        memory nor room in the file for it: Kafka's code for a log directory that takes no more, which clients retry.
        With `log_append_time` its records get the timestamp `now_ms`. Not `bounded`: no limit applies, because the
        writer compacts the partition itself."""
        if bounded and not self.room.make_room(len(batch.records)):
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, self.room.refusal)
        found = self._open(image, topic, partition_index, now_ms)
        if topic.name not in INTERNAL_TOPICS:
            rules = self.cleanup_rules(image, topic, found.leader)
            latest_ms = now_ms if log_append_time else batch.max_timestamp_ms
            found.log.roll(len(batch.records), latest_ms, rules, now_ms)
        base_offset = found.append(batch, now_ms, log_append_time=log_append_time)
        self.room.settle()
        key = topic.topic_id, partition_index
        if self.kept is not None and topic.name in INTERNAL_TOPICS:
            written = found.log.read(base_offset, 1, found.log.log_end_offset)
            self.kept.append(key, topic.name, written or b"")
        elif self.reservations is not None and found.log.log_end_offset > found.reserved_end:
            self.reservations.make(key, found)
        self._note(key, found, now_ms)
        return base_offset

    def forget_expired_producers(self, image: MetadataImage, found: ReplicatedLog, now_ms: int) -> None:
        """Apply `producer.id.expiration.ms` to a partition, whenever its check is due. For whatever reads its
        producers: Kafka checks all partitions in the background."""
        if found.producers.is_check_due(now_ms):
            leader = found.leader if found.leader >= 0 else None
            expiration_ms = producer_id_expiration_ms(image.configs, self._settings, leader)
            found.producers.forget_expired(now_ms, expiration_ms, found.transactions.is_open)

    def open(self, image: MetadataImage, topic: Topic, partition_index: int, now_ms: int) -> ReplicatedLog:
        """An existing partition with its log, which is empty if it never held a record."""
        return self._open(image, topic, partition_index, now_ms)

    def delete_before(self, topic_id: Uuid, partition_index: int, offset: int, now_ms: int) -> None:
        """Delete the records below `offset`, which is at most the log end offset. Without a log, this does nothing."""
        found = self.find(topic_id, partition_index)
        if found is not None:
            found.log.delete_before(offset)
            if self.kept is not None:
                self.kept.delete_before((topic_id, partition_index), offset)
            # A follower that lacked deleted records alone has caught up, and whoever waits for them waits in vain.
            self._note((topic_id, partition_index), found, now_ms)

    def partitions_of(self, topic_id: Uuid) -> Mapping[int, ReplicatedLog]:
        """The partitions of a topic that hold or held records, by index."""
        return self._topics.get(topic_id, {})

    def restore(self, image: MetadataImage, log_end_offsets: Mapping[LogKey, int], now_ms: int) -> None:
        """Create empty logs that begin at the end offsets of a former process, and those of internal topics with their
        records, if they are kept. Deleted partitions are skipped."""

        def exists(key: LogKey) -> bool:
            topic = image.topics_by_id.get(key[0])
            return topic is not None and key[1] < image.partition_count(topic)

        for (topic_id, partition_index), batches in () if self.kept is None else self.kept.load(exists):
            self._open_kept(image, image.topics_by_id[topic_id], partition_index, batches, now_ms)
        for (topic_id, partition_index), log_end_offset in log_end_offsets.items():
            topic = image.topics_by_id.get(topic_id)
            if topic is not None and partition_index < image.partition_count(topic):
                self._open(image, topic, partition_index, now_ms, log_end_offset)

    def durable_end(self, topic_id: Uuid, partition_index: int) -> int:
        """The offset below which records of an internal topic survive the process, if they are kept at all."""
        return ALL_DURABLE if self.kept is None else self.kept.durable_end((topic_id, partition_index))

    def begin_compaction(self, topic_id: Uuid, partition_index: int) -> None:
        """Separate the records so far from later ones, so that `delete_before` can delete their file."""
        if self.kept is not None:
            self.kept.roll((topic_id, partition_index))

    @property
    def topic_ids(self) -> Collection[Uuid]:
        """The topics with partitions that hold or held records."""
        return self._topics.keys()

    def log_end_offsets(self) -> Iterator[tuple[LogKey, int]]:
        """The log end offset of each partition, for `restore`. Logs may grow while this iterates."""
        for topic_id, partitions in list(self._topics.items()):
            for partition_index, found in list(partitions.items()):
                yield (topic_id, partition_index), found.log.log_end_offset

    def reserved_ends(self) -> list[tuple[LogKey, int]]:
        """The end of each partition's reservation."""
        return [
            ((topic_id, partition_index), found.reserved_end)
            for topic_id, partitions in self._topics.items()
            for partition_index, found in partitions.items()
        ]

    def set_rate(self, broker_id: int, rate: int | None, now_ms: int) -> None:
        """Set how many messages per second the followers on a broker fetch of each partition: 0: none; None: as many
        as others."""
        for partitions in self._topics.values():
            for found in partitions.values():
                found.anchor(broker_id, now_ms)
        if rate is None:
            self.rates.pop(broker_id, None)
        else:
            self.rates[broker_id] = rate
        for topic_id, partitions in self._topics.items():
            for partition_index, found in partitions.items():
                if broker_id in found.replicas:
                    self._note((topic_id, partition_index), found, now_ms)

    def set_down(self, image: MetadataImage, broker_ids: Collection[int], now_ms: int) -> bool:
        """Set which brokers are down, even if the controller has not fenced them yet. Returns whether that changed."""
        down = frozenset(broker_ids)
        if self._down == down:
            return False
        self._down = down
        self._leave_behind(self._topics)
        self.follow_on(image, now_ms)
        return True

    def follow(self, image: MetadataImage, delta: Delta, now_ms: int) -> None:
        """Apply the changes of a replayed batch to the partitions that hold records. A change that affects all of
        them is applied to some now; `follow_on` applies it to the others."""
        if not self._topics and not self.watches:
            return
        is_ahead = not self._behind
        for topic in delta.removed_topics:
            self._remove(topic.topic_id)
        for resource_type, resource_name, config_name in delta.configs:
            self._cleanup_rules.clear()
            if config_name == MIN_INSYNC_REPLICAS:
                self._min_isr.clear()
                self._leave_behind(self._topics_under(image, resource_type, resource_name))
        for topic_row, indexes in delta.changed_partitions.by_topic():
            changed = image.topics_by_row.get(topic_row)
            if changed and (changed.topic_id in self._topics or self.watches.has_topic(changed.topic_id)):
                for partition_index in indexes.tolist():
                    self._follow(image, changed.topic_id, partition_index, now_ms)
        if delta.brokers or delta.unregistered:
            self._leave_behind(self._topics)
        if is_ahead:
            self.follow_on(image, now_ms)

    @property
    def is_behind(self) -> bool:
        """Whether partitions are left for `follow_on`."""
        return bool(self._behind)

    def follow_on(self, image: MetadataImage, now_ms: int) -> int:
        """Apply changes of brokers and configs to at most `PARTITIONS_PER_STEP` of the next partitions. Returns their
        number."""
        left = PARTITIONS_PER_STEP
        while left and self._behind:
            topic_id, indexes = self._behind.popitem()
            if len(indexes) > left:
                self._behind[topic_id] = indexes[left:]
            for partition_index in indexes[:left]:
                self._follow(image, topic_id, partition_index, now_ms)
            left -= len(indexes[:left])
        return PARTITIONS_PER_STEP - left

    @property
    def down(self) -> Collection[int]:
        """The brokers that are down, as set by `set_down`. They neither fetch nor serve records."""
        return self._down

    @property
    def incomplete(self) -> Collection[LogKey]:
        """The partitions with records that have a replica outside the ISR."""
        return self._incomplete

    @property
    def next_due_ms(self) -> float:
        """When `due` may have partitions to check; infinite: not before another change."""
        return self._due_in_order[0][0] if self._due_in_order else inf

    def due(self, now_ms: int, most: int) -> list[tuple[LogKey, tuple[int, ...]]]:
        """Up to `most` partitions whose leader would change the ISR by now, each with the ISR that it would request.
        Checks at most `PARTITIONS_PER_STEP` partitions; `next_due_ms` says whether there are more.

        A partition is not returned again before the next millisecond, even if its ISR is not changed."""
        found: list[tuple[LogKey, tuple[int, ...]]] = []
        for _ in range(PARTITIONS_PER_STEP):
            if len(found) == most or self.next_due_ms > now_ms:
                break
            due_ms, key = heappop(self._due_in_order)
            if self._due.get(key) != due_ms:
                continue
            del self._due[key]
            partition = self._topics[key[0]][key[1]]
            leaving = partition.fallen_behind(now_ms, self._replica_lag_time_max_ms)
            isr = tuple(replica for replica in partition.isr if replica not in leaving)
            isr += tuple(one for one in partition.caught_up(now_ms) if (key, one) not in self.held_out)
            self._schedule(key, partition, now_ms, at_least_ms=now_ms + 1)
            if isr != partition.isr:
                found.append((key, isr))
        return found

    def _leave_behind(self, topic_ids: Iterable[Uuid]) -> None:
        self._behind.update((topic_id, list(self._topics[topic_id])) for topic_id in topic_ids)

    def _topics_under(self, image: MetadataImage, resource_type: int, resource_name: str) -> Iterable[Uuid]:
        """The topics with records that a config of this resource may affect."""
        if resource_type != TOPIC_RESOURCE:
            return self._topics
        topic = image.topics_by_name.get(resource_name)
        return [topic.topic_id] if topic and topic.topic_id in self._topics else []

    def _open(
        self, image: MetadataImage, topic: Topic, partition_index: int, now_ms: int, start_offset: int = 0
    ) -> ReplicatedLog:
        partitions = self._topics.setdefault(topic.topic_id, {})
        found = partitions.get(partition_index)
        if found is None:
            log = PartitionLog(self.room, start_offset, spills=topic.name not in INTERNAL_TOPICS)
            found = partitions[partition_index] = ReplicatedLog(log, self._replication_rate, self.rates)
            self._follow(image, topic.topic_id, partition_index, now_ms)
        return found

    def _open_kept(
        self, image: MetadataImage, topic: Topic, partition_index: int, batches: Iterable[bytes], now_ms: int
    ) -> None:
        """Open a log with the batches of a former process. All replicas have all of them."""
        log = PartitionLog(self.room, spills=False)
        for raw in batches:
            batch = decode_header(raw)
            log.begin_at(batch.base_offset)
            log.append(batch, batch.leader_epoch, batch.max_timestamp_ms)
        found = ReplicatedLog(log, self._replication_rate, self.rates)
        found.begin_whole(image.partitions.read(topic.row, partition_index))
        self._topics.setdefault(topic.topic_id, {})[partition_index] = found
        self._follow(image, topic.topic_id, partition_index, now_ms)

    def _remove(self, topic_id: Uuid) -> None:
        if self.kept is not None and topic_id in self._topics:
            self.kept.remove(topic_id)
        self._min_isr.clear()
        self._cleanup_rules.clear()
        for partition_index, found in self._topics.pop(topic_id, {}).items():
            found.log.remove()
            key = topic_id, partition_index
            self._due.pop(key, None)
            self._incomplete.discard(key)
        self.watches.touch_topic(topic_id)

    def _follow(self, image: MetadataImage, topic_id: Uuid, partition_index: int, now_ms: int) -> None:
        found, topic = self.find(topic_id, partition_index), image.topics_by_id.get(topic_id)
        if found is None or topic is None:
            self.watches.touch((topic_id, partition_index))
            return
        log_end_offset = found.log.log_end_offset
        partition = image.partitions.read(topic.row, partition_index)
        found.offline_replicas = offline_replicas(image, partition)
        fetches = fetching(image, self._down, found.offline_replicas)
        min_isr = self._min_insync_replicas(image, topic, partition.leader)
        if found.follow(partition, fetches, now_ms, min_isr):
            if self.kept is not None and found.log.log_end_offset < log_end_offset:
                self.kept.truncate((topic_id, partition_index), found.log.log_end_offset)
            self._note((topic_id, partition_index), found, now_ms)

    def cleanup_rules(self, image: MetadataImage, topic: Topic, leader: int) -> CleanupRules:
        """The rules for segments, retention and compaction of a topic, by the configs of a leader."""
        known = self._cleanup_rules.get((topic.topic_id, leader))
        if known is None:
            known = cleanup_rules(image.configs, self._settings, topic.name, leader if leader >= 0 else None)
            self._cleanup_rules[topic.topic_id, leader] = known
        return known

    def _min_insync_replicas(self, image: MetadataImage, topic: Topic, leader: int) -> int:
        known = self._min_isr.get((topic.topic_id, leader))
        if known is None:
            rules = record_rules(image.configs, self._settings, topic.name, leader if leader >= 0 else None)
            known = self._min_isr[topic.topic_id, leader] = rules.min_insync_replicas
        return known

    def _note(self, key: LogKey, partition: ReplicatedLog, now_ms: int) -> None:
        """After a change of a partition: schedule the check of its ISR and call its watches."""
        self.watches.touch(key)
        if len(partition.isr) < len(partition.replicas):
            self._incomplete.add(key)
        else:
            self._incomplete.discard(key)
        self._schedule(key, partition, now_ms, at_least_ms=now_ms)

    def _schedule(self, key: LogKey, partition: ReplicatedLog, now_ms: int, at_least_ms: int) -> None:
        due_ms = partition.due_ms(now_ms, self._replica_lag_time_max_ms)
        if due_ms is None:
            return
        due_ms, known_ms = max(due_ms, at_least_ms), self._due.get(key)
        if known_ms is None or due_ms < known_ms:
            self._due[key] = due_ms
            heappush(self._due_in_order, (due_ms, key))
            if len(self._due_in_order) > 2 * len(self._due) + PARTITIONS_PER_STEP:
                self._due_in_order = [(due_ms, key) for key, due_ms in self._due.items()]
                heapify(self._due_in_order)
