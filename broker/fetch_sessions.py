"""The fetch sessions of one broker (KIP-227): the partitions that a client reads again and again, by session id.

A session has the latest request for each partition, and what the client was last told about it, so that an incremental
response has the changed partitions only. Sessions are soft state: a broker that restarts has none. As in Kafka's
FetchSessionCache, the slots are divided by eight shards, to which new sessions are assigned in turn. A shard without a
free slot evicts a session that was not used for two minutes, or one that is older than that and smaller. All sessions
of the process together have at most `MAX_SESSION_BYTES`, which Kafka does not limit.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from klamm.protocol.messages.data.fetch import FetchPartition, PartitionData
from klamm.protocol.uuid import ZERO_UUID, Uuid

INITIAL_EPOCH: Final = 0
"""The session epoch of a request that names all its partitions and begins a session."""
FINAL_EPOCH: Final = -1
"""The session epoch of a request that names all its partitions and closes its session, if it has one."""
NO_SESSION: Final = 0
SHARDS: Final = 8
EVICTION_MS: Final = 120_000
"""Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS, which is no config: how long a session is safe from others."""
MAX_EPOCH: Final = 2**31 - 1
MAX_SESSION_PARTITIONS: Final = 5_000
"""As many partitions as one request may name: an incremental request reads all partitions of its session."""
MAX_SESSION_BYTES: Final = 64 * 2**20
SESSION_BYTES: Final = 1_000
PARTITION_BYTES: Final = 500
"""What a session, and a partition in it, takes in memory, measured and rounded up; topic names are added."""

PartitionKey: TypeAlias = tuple[Uuid | str, int]
"""A partition in a session: the id or, in requests without ids, the name of its topic, and its index."""


class WantedPartition:
    """One partition that a client reads. In a session it also has what the client was told last."""

    __slots__ = ("high_watermark", "key", "log_start_offset", "request", "topic_id", "topic_name")

    def __init__(self, topic_name: str | None, topic_id: Uuid, request: FetchPartition) -> None:
        self.topic_name = topic_name
        """None: no topic had this id yet. A topic that is deleted keeps its name here, as in Kafka."""
        self.topic_id = topic_id
        """Zero: the request named the topic."""
        self.request = request
        by_name = topic_name is not None and topic_id == ZERO_UUID
        self.key: PartitionKey = (topic_name if by_name and topic_name is not None else topic_id, request.partition)
        self.high_watermark = -1
        self.log_start_offset = -1

    def renamed(self, topic_name: str) -> "WantedPartition":
        """The same with the name of its topic, which was unknown."""
        one = WantedPartition(topic_name, self.topic_id, self.request)
        one.high_watermark, one.log_start_offset = self.high_watermark, self.log_start_offset
        return one

    def has_news(self, answer: PartitionData, records_bytes: int) -> bool:
        """Whether an incremental response has to have this answer. Remembers it."""
        news = (
            records_bytes > 0
            or self.high_watermark != answer.high_watermark
            or self.log_start_offset != answer.log_start_offset
            or answer.preferred_read_replica >= 0
            or answer.error_code != 0
            or answer.diverging_epoch.epoch >= 0
        )
        self.remember(answer)
        return news

    def is_as_told(self, high_watermark: int, log_start_offset: int) -> bool:
        """Whether the client knows these offsets."""
        return self.high_watermark == high_watermark and self.log_start_offset == log_start_offset

    def remember(self, answer: PartitionData) -> None:
        """The client is told this. After an error the next answer counts as news."""
        self.high_watermark = -1 if answer.error_code else answer.high_watermark
        self.log_start_offset = answer.log_start_offset


Partitions: TypeAlias = dict[PartitionKey, WantedPartition]
"""Partitions in the order in which they are read."""


class FetchSession:
    """One session. `epoch` is that of its next request."""

    __slots__ = (
        "created_ms",
        "epoch",
        "is_replica",
        "partitions",
        "session_id",
        "shard",
        "size_bytes",
        "used_ms",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        shard: int,
        *,
        is_replica: bool,
        uses_topic_ids: bool,
        partitions: Partitions,
        now_ms: int,
    ) -> None:
        self.session_id = session_id
        self.shard = shard
        self.is_replica = is_replica
        """Whether a broker reads with it. Such sessions are evicted after those of consumers."""
        self.uses_topic_ids = uses_topic_ids
        self.partitions = partitions
        self.size_bytes = bytes_of(partitions)
        self.created_ms = self.used_ms = now_ms
        self.epoch = 1

    @property
    def _value(self) -> tuple[bool, int]:
        return self.is_replica, len(self.partitions)

    def may_give_way_to(self, is_replica: bool, size: int) -> bool:
        """Whether a new session of this kind and size may take the slot of this one, which is in use."""
        has_lasted = self.used_ms - self.created_ms > EVICTION_MS
        is_exposed = has_lasted or (is_replica and not self.is_replica)
        return is_exposed and (is_replica, size, 0) >= (*self._value, self.session_id)

    def with_changes(
        self, wanted: Mapping[PartitionKey, WantedPartition], forgotten: Iterable[PartitionKey]
    ) -> Partitions:
        """Its partitions after a request: new ones come last, and known ones keep their place."""
        partitions = dict(self.partitions)
        for key, one in wanted.items():
            if (known := partitions.get(key)) is not None:
                one.topic_name = known.topic_name or one.topic_name
                one.high_watermark, one.log_start_offset = known.high_watermark, known.log_start_offset
            partitions[key] = one
        for key in forgotten:
            partitions.pop(key, None)
        return partitions


def bytes_of(partitions: Partitions) -> int:
    """The memory that a session with these partitions takes at most."""
    names = sum(len(one.topic_name or "") for one in partitions.values())
    return SESSION_BYTES + len(partitions) * PARTITION_BYTES + 4 * names


class SessionMemory:
    """The memory of all sessions of a process, in bytes."""

    def __init__(self, max_bytes: int = MAX_SESSION_BYTES) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0

    def has_room(self, more_bytes: int) -> bool:
        return self.used_bytes + more_bytes <= self.max_bytes


class FetchSessions:
    """The sessions of one broker."""

    def __init__(self, slots: int, memory: SessionMemory, new_id: Callable[[], int]) -> None:
        """`slots`: `max.incremental.fetch.session.cache.slots`. `new_id` makes a
        random session id."""
        self._slots_of_shard = slots // SHARDS
        self._memory = memory
        self._new_random_id = new_id
        self._by_id: dict[int, FetchSession] = {}
        self._shards: list[dict[int, FetchSession]] = [{} for _ in range(SHARDS)]
        self._turn = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def find(self, session_id: int) -> FetchSession | None:
        return self._by_id.get(session_id)

    def grant(self, partitions: Partitions, now_ms: int, *, is_replica: bool, uses_topic_ids: bool) -> int:
        """Begin a session and return its id; NO_SESSION if there is no room for it."""
        shard, self._turn = self._turn, (self._turn + 1) % SHARDS
        if len(partitions) > MAX_SESSION_PARTITIONS or not self._memory.has_room(bytes_of(partitions)):
            return NO_SESSION
        if len(self._shards[shard]) >= self._slots_of_shard and not self._evict(
            shard, is_replica, len(partitions), now_ms
        ):
            return NO_SESSION
        session_id = self._new_id()
        session = FetchSession(
            session_id,
            shard,
            is_replica=is_replica,
            uses_topic_ids=uses_topic_ids,
            partitions=partitions,
            now_ms=now_ms,
        )
        self._by_id[session_id] = self._shards[shard][session_id] = session
        self._memory.used_bytes += session.size_bytes
        return session_id

    def has_room(self, session: FetchSession, partitions: Partitions) -> bool:
        """Whether the session may have these partitions."""
        if len(partitions) <= len(session.partitions):
            return True
        return len(partitions) <= MAX_SESSION_PARTITIONS and self._memory.has_room(
            bytes_of(partitions) - session.size_bytes
        )

    def advance(self, session: FetchSession, partitions: Partitions, now_ms: int) -> None:
        """Give the session the partitions of its next request."""
        size_bytes = bytes_of(partitions)
        self._memory.used_bytes += size_bytes - session.size_bytes
        session.partitions, session.size_bytes, session.used_ms = partitions, size_bytes, now_ms
        session.epoch = next_epoch(session.epoch)

    def close(self, session_id: int) -> None:
        """End a session, if there is one with this id."""
        session = self._by_id.pop(session_id, None)
        if session is not None:
            del self._shards[session.shard][session_id]
            self._memory.used_bytes -= session.size_bytes

    def clear(self) -> None:
        """End all sessions: the broker went down."""
        for session_id in tuple(self._by_id):
            self.close(session_id)

    def retire(self) -> None:
        """End all sessions and begin none any more: the broker is removed."""
        self._slots_of_shard = 0
        self.clear()

    def _evict(self, shard: int, is_replica: bool, size: int, now_ms: int) -> bool:
        """Make room in a shard for a new session, if it may have it."""
        sessions = self._shards[shard].values()
        unused = min(sessions, key=lambda one: (one.used_ms, one.session_id), default=None)
        if unused is None:
            return False
        if now_ms - unused.used_ms > EVICTION_MS:
            self.close(unused.session_id)
            return True
        giving_way = [one for one in sessions if one.may_give_way_to(is_replica, size)]
        if giving_way:
            self.close(
                min(giving_way, key=lambda one: (one.is_replica, len(one.partitions), one.session_id)).session_id
            )
        return bool(giving_way)

    def _new_id(self) -> int:
        while True:
            session_id = self._new_random_id()
            if session_id not in self._by_id:
                return session_id


def next_epoch(epoch: int) -> int:
    """The session epoch of the next request. It never is one of those that name all partitions."""
    return 1 if epoch == MAX_EPOCH else epoch + 1
