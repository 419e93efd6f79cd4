"""The share partitions of all brokers of a process: loaded when a member first fetches, forgotten when another broker
leads, when the last member of the group has gone, or when the share coordinator knows a newer leader.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from klamm.broker.coordinator.shard import Shard
from klamm.broker.data.data_plane import DataPlane
from klamm.broker.data.partition_log import EARLIEST
from klamm.broker.data.record_file import RecordFileError
from klamm.broker.handlers.hosted import find_partition, high_watermark, log_of
from klamm.broker.share_partitions.configs import ShareConfigsInForce
from klamm.broker.share_partitions.left_records import LeftRecords
from klamm.broker.share_partitions.locks import AcquisitionLock, Locks
from klamm.broker.share_partitions.releases import expire_lock
from klamm.broker.share_partitions.sessions import ShareSession, ShareSessions
from klamm.broker.share_partitions.share_partition import Phase, ShareConfigs, SharePartition
from klamm.broker.share_state.combiner import Batch, joined
from klamm.broker.share_state.offset import UNINITIALIZED, ShareGroupOffset, SharePartitionKey
from klamm.broker.share_state.persister import Persister
from klamm.broker.share_state.questions import Read, Write
from klamm.broker.share_state.states import StateWrite
from klamm.controller.configs.group_rules import duration_of_reset
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.settings import Settings
from klamm.protocol.errors import ApiError, ErrorCode

Place: TypeAlias = tuple[int, SharePartitionKey]
"""A broker and a share partition."""
MAX_SHARE_PARTITIONS: Final = 200_000
"""Share partitions of one process. Kafka has no such limit. A fetch of more gets COORDINATOR_NOT_AVAILABLE."""
MAX_IN_FLIGHT: Final = 4_000_000
"""Locks of single records of one process, about 1 kB each. Kafka has no such limit. Beyond it, fetches get nothing."""
_FENCING: Final = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)
_AS_LEADERS_SAY: Final = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""What clients get for an error of the share coordinator; UNKNOWN_SERVER_ERROR for all others."""


WRITE_FAILED: Final = "Error in write state RPC. "
"""What Kafka's leaders put before the text of a share coordinator that has refused new state."""


def as_leaders_say(error: ApiError, before: str = "") -> ApiError:
    """An error of the share coordinator as clients get it."""
    text = None if error.message is None else before + error.message
    return ApiError(_AS_LEADERS_SAY.get(error.code, ErrorCode.UNKNOWN_SERVER_ERROR), text)


class Around:
    """The `Surroundings` of one share partition."""

    def __init__(self, leaders: "ShareLeaders", key: SharePartitionKey) -> None:
        self._leaders = leaders
        self._key = key
        self.partition: SharePartition
        self.error: ApiError | None = None
        """Why the share partition could not be loaded."""
        self.shard: Shard | None = None
        """The share coordinator's shard that was asked last."""

    def wait_on(self, shard: Shard) -> None:
        self.shard = shard

    def configs(self) -> ShareConfigs:
        return self._leaders.configs.of(self._leaders.image(), self._key.group_id)

    def now_ms(self) -> int:
        return self._leaders.clock_ms()

    def start_lock(self, member_id: str, first_offset: int, last_offset: int, delay_ms: int) -> AcquisitionLock:
        due_ms = self.now_ms() + delay_ms
        return self._leaders.locks.start(self.partition, member_id, first_offset, last_offset, due_ms)

    def write(self, batches: Sequence[Batch], written: Callable[[ApiError | None], None]) -> None:
        partition, leaders = self.partition, self._leaders
        state = StateWrite(
            partition.state_epoch,
            partition.leader_epoch,
            partition.start_offset,
            partition.delivery_complete_count,
            joined(batches),
        )

        def answered(_image: MetadataImage, answer: object, _now_ms: int) -> None:
            error = as_leaders_say(answer, WRITE_FAILED) if isinstance(answer, ApiError) else None
            written(error)
            if error is not None and error.code in _FENCING:
                leaders.forget(partition)

        leaders.persister.ask(self._key, Write(state), answered, self.wait_on)

    def wake(self) -> None:
        self._leaders.data.watches.touch((self._key.topic_id, self._key.partition))


class ShareLeaders:
    """All share partitions, sessions and locks."""

    def __init__(
        self,
        data: DataPlane,
        persister: Persister,
        settings: Settings,
        image: Callable[[], MetadataImage],
        clock_ms: Callable[[], int],
    ) -> None:
        self.data = data
        self.persister = persister
        self.image = image
        self.clock_ms = clock_ms
        self.locks = Locks()
        self.configs = ShareConfigsInForce(settings)
        self._settings = settings
        self.left = LeftRecords(self._forget_unused)
        self._by_place: dict[Place, SharePartition] = {}
        self._by_group: dict[tuple[int, str], dict[SharePartition, None]] = {}
        """The share partitions by broker and group."""
        self._sessions: dict[int, ShareSessions] = {}

    # -- share partitions ------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._by_place)

    def find(self, broker_id: int, key: SharePartitionKey) -> SharePartition | None:
        """A share partition that was loaded, or is loading, while its broker leads. Nothing in it belongs to a member
        that has gone."""
        found = self.loaded(broker_id, key)
        if found is not None and self._leads(broker_id, key) is None:
            self.forget(found)
            return None
        return found

    def loaded(self, broker_id: int, key: SharePartitionKey) -> SharePartition | None:
        """The same as of the last change of leaders, which takes less time."""
        found = self._by_place.get((broker_id, key))
        if found is not None and self.left:
            self.left.release(found)
        return found

    def find_or_load(self, broker_id: int, key: SharePartitionKey) -> SharePartition | ApiError:
        """A share partition; it begins to load if it is not there."""
        found = self.find(broker_id, key)
        if found is not None:
            return found
        leader_epoch = self._leads(broker_id, key)
        if leader_epoch is None:
            return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if len(self._by_place) >= MAX_SHARE_PARTITIONS:
            return ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        around = Around(self, key)
        partition = around.partition = SharePartition(key, broker_id, leader_epoch, around)
        self._by_place[broker_id, key] = partition
        self._by_group.setdefault((broker_id, key.group_id), {})[partition] = None
        self.persister.ask(
            key,
            Read(leader_epoch),
            lambda image, answer, now_ms: self._loaded(partition, around, image, answer, now_ms),
            around.wait_on,
        )
        return partition

    def _leads(self, broker_id: int, key: SharePartitionKey) -> int | None:
        """The leader epoch of a partition that a broker leads; None: it does not."""
        image = self.image()
        topic = image.topics_by_id.get(key.topic_id)
        hosted = find_partition(image, self.data, topic, key.partition) if topic is not None else None
        if hosted is None or hosted.leader != broker_id or broker_id in self.data.down:
            return None
        return hosted.leader_epoch

    def _loaded(
        self, partition: SharePartition, around: Around, image: MetadataImage, answer: object, now_ms: int
    ) -> None:
        if partition.phase is Phase.GONE:
            return
        if isinstance(answer, ShareGroupOffset):
            start = self._start_offset(partition, around, image, answer, now_ms)
            if isinstance(start, ApiError):
                around.error = start
            elif not partition.load(answer, start):
                around.error = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            assert isinstance(answer, ApiError)
            around.error = as_leaders_say(answer)
        if around.error is not None:
            self.forget(partition)
        around.wake()

    def _start_offset(
        self, partition: SharePartition, around: Around, image: MetadataImage, state: ShareGroupOffset, now_ms: int
    ) -> int | ApiError:
        """Where the group begins: where it was, or by `share.auto.offset.reset`."""
        if state.start_offset != UNINITIALIZED:
            return state.start_offset
        topic = image.topics_by_id.get(partition.key.topic_id)
        hosted = find_partition(image, self.data, topic, partition.key.partition) if topic is not None else None
        if hosted is None:
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        reset = around.configs().auto_offset_reset
        if reset == "latest":
            return high_watermark(hosted, now_ms)
        ago_ms = (duration_of_reset(reset) or 0) // 1_000_000
        try:
            found = log_of(hosted).find_offset(EARLIEST if reset == "earliest" else max(0, now_ms - ago_ms))
        except RecordFileError:
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        return ApiError(ErrorCode.OFFSET_NOT_AVAILABLE) if found is None else found.offset

    def forget(self, partition: SharePartition) -> None:
        """The broker does not have this share partition any more."""
        place = partition.broker_id, partition.key
        if self._by_place.get(place) is partition:
            del self._by_place[place]
            in_group = partition.broker_id, partition.key.group_id
            del self._by_group[in_group][partition]
            if not self._by_group[in_group]:
                del self._by_group[in_group]
        partition.close()
        partition.around.wake()

    # -- sessions --------------------------------------------------------------------------------------------------

    def sessions(self, broker_id: int) -> ShareSessions:
        """The sessions of a broker."""
        if broker_id not in self._sessions:
            most = self._settings.static_int("group.share.max.share.sessions", broker_id)
            self._sessions[broker_id] = ShareSessions(most)
        return self._sessions[broker_id]

    def end_session(self, broker_id: int, group_id: str, member_id: str) -> None:
        """A session ends: what its member has acquired becomes available."""
        session = self.sessions(broker_id).remove((group_id, member_id))
        if session is not None:
            self._leave(broker_id, session)
            self.left.release_some()

    def _leave(self, broker_id: int, session: ShareSession) -> None:
        group_id, member_id = session.key
        for topic_id, index in session.partitions:
            partition = self._by_place.get((broker_id, SharePartitionKey(group_id, topic_id, index)))
            if partition is not None and partition.phase is Phase.ACTIVE:
                self.left.note(partition, member_id)

    def connection_closed(self, connection_id: int) -> None:
        """A client has gone: its sessions end. A group without sessions on a broker leaves nothing there."""
        for broker_id, sessions in self._sessions.items():
            groups = sessions.groups_on(connection_id)
            for session in sessions.close_connection(connection_id):
                self._leave(broker_id, session)
            for group_id in groups:
                if not sessions.has_group(group_id):
                    for partition in self._by_group.get((broker_id, group_id), ()):
                        self.left.note_unused(partition)
        self.left.release_some()

    def _forget_unused(self, partition: SharePartition) -> None:
        sessions = self._sessions.get(partition.broker_id)
        if sessions is None or not sessions.has_group(partition.key.group_id):
            self.forget(partition)

    # -- time and changes ------------------------------------------------------------------------------------------

    def expire_locks(self) -> None:
        """Release what was acquired too long ago."""
        self.locks.expire(self.clock_ms(), _expire)
        self.left.release_some()

    @property
    def next_due_ms(self) -> int | None:
        """When `expire_locks` has something to do. None: no lock waits, and no records were left."""
        return self.clock_ms() + 1 if self.left else self.locks.next_due_ms

    def tick(self) -> None:
        """Do what is due. To be called regularly."""
        self.expire_locks()

    def follow_leaders(self) -> None:
        """Forget the share partitions of brokers that do not lead, or are down, and the sessions of the latter."""
        for (broker_id, key), partition in list(self._by_place.items()):
            if self._leads(broker_id, key) is None:
                self.forget(partition)
        for broker_id in list(self._sessions):
            if broker_id in self.data.down:
                del self._sessions[broker_id]


def _expire(lock: AcquisitionLock) -> None:
    if lock.partition.phase is Phase.ACTIVE:
        expire_lock(lock)
