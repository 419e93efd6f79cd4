"""The request log as a topic: its lines are records of one partition, which any consumer reads.

The server appends the lines itself at each tick, as the leader of the partition, so that no quota, ACL or fault rule
applies. A request that reads or writes the topic has no record in it: a consumer would otherwise get one record for
each of its own fetches, for ever. That needs to know which fetch sessions read the topic, because a request within a
session does not name it. Lines wait here while the partition has no leader; what exceeds the limits is lost.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.coordinator.batches import encode_batch
from klamm.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH
from klamm.controller.metadata.image import MetadataImage, Topic
from klamm.protocol.errors import ApiError
from klamm.protocol.fields import Message
from klamm.protocol.messages.data.fetch import FetchRequest, FetchResponse
from klamm.protocol.messages.shares.share_acknowledge import ShareAcknowledgeRequest
from klamm.protocol.messages.shares.share_fetch import ShareFetchRequest
from klamm.server.event_log import EventLog
from klamm.server.limits import KIB, MIB

PARTITION: Final = 0
RETENTION_BYTES: Final = 64 * MIB
SEGMENT_BYTES: Final = 8 * MIB
MAX_RECORD_BYTES: Final = 4 * MIB
"""The most bytes of one line, and of one batch."""
BATCH_BYTES: Final = 512 * KIB
"""A batch ends with the line that makes it this large."""
MAX_WAITING_LINES: Final = 20_000
MAX_WAITING_BYTES: Final = 16 * MIB
MAX_SESSIONS: Final = 10_000
"""The fetch sessions that are known to read the topic; beyond that the oldest is forgotten."""
CONFIGS: Final = {
    "cleanup.policy": "delete",
    "compression.type": "uncompressed",
    "max.message.bytes": str(MAX_RECORD_BYTES + MIB),
    "retention.bytes": str(RETENTION_BYTES),
    "segment.bytes": str(SEGMENT_BYTES),
}
"""The topic's configs at its creation."""
_READ_OR_WRITE: Final = frozenset(
    {
        "CreateTopics", "DeleteRecords", "Fetch", "ListOffsets", "OffsetCommit", "OffsetForLeaderEpoch", "Produce",
        "ShareAcknowledge", "ShareFetch", "TxnOffsetCommit",
    }
)  # fmt: skip
"""The APIs whose requests are left out if they name the topic."""
_Session = tuple[int | None, int | str | None, str | None]


class RequestTopic:
    """The lines that wait for the partition, and the fetch sessions that read it."""

    def __init__(
        self,
        name: str,
        image: Callable[[], MetadataImage],
        brokers: SimulatedBrokers,
        clock_ms: Callable[[], int],
        events: EventLog,
    ) -> None:
        self.name = name
        self.is_open = False
        """Whether lines are taken; set when the topic has been created."""
        self._image = image
        self._brokers = brokers
        self._clock_ms = clock_ms
        self._events = events
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._losing = False
        self._sessions: dict[_Session, None] = {}

    def concerns(self, api: str, broker_id: int | None, request: Message, response: object) -> bool:
        """Whether the request reads or writes the topic. Learns from it which fetch sessions do."""
        if api not in _READ_OR_WRITE:
            return False
        named = self._names(request)
        session = _session_of(broker_id, request)
        if session is None:
            return named
        concerns = named or (not _names_all(request) and session in self._sessions)
        goes_on = _answered_session(broker_id, request, response) or session
        self._sessions.pop(session, None)
        if concerns and not self._forgets(request) and goes_on[1]:
            self._sessions[goes_on] = None
            if len(self._sessions) > MAX_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
        return concerns

    def add(self, line: bytes) -> None:
        """Take one line, without its line end, for the next `write`."""
        if not self.is_open:
            return
        is_full = len(self._waiting) >= MAX_WAITING_LINES or self._waiting_bytes + len(line) > MAX_WAITING_BYTES
        if is_full or len(line) > MAX_RECORD_BYTES:
            self._lose("its partition has had no leader for too long" if is_full else "a line is too large")
            return
        self._waiting.append(line)
        self._waiting_bytes += len(line)

    @property
    def has_lines(self) -> bool:
        """Whether lines wait."""
        return bool(self._waiting)

    def write(self) -> bool:
        """Append what waits to the partition, if it has a leader here that is up. Returns whether it did."""
        topic = self._image().topics_by_name.get(self.name) if self._waiting else None
        if topic is None or not self._has_leader(topic):
            return False
        now_ms = self._clock_ms()
        while self._waiting:
            batch = encode_batch([(None, line) for line in self._next_lines()], now_ms)
            appended = self._brokers.data.append(self._image(), topic, PARTITION, batch, now_ms)
            if isinstance(appended, ApiError):
                self._lose(appended.message or appended.code.name)
                return False
        self._losing = False
        return True

    def _next_lines(self) -> list[bytes]:
        lines, size_bytes = [], 0
        while self._waiting and size_bytes < BATCH_BYTES:
            lines.append(self._waiting.popleft())
            size_bytes += len(lines[-1])
        self._waiting_bytes -= size_bytes
        return lines

    def _has_leader(self, topic: Topic) -> bool:
        leader = self._brokers.by_id.get(self._image().partitions.read(topic.row, PARTITION).leader)
        return leader is not None and leader.is_up

    def _lose(self, reason: str) -> None:
        if not self._losing:
            self._losing = True
            self._events.warning(
                "the request topic cannot be written; its lines are lost until it can", topic=self.name, reason=reason
            )

    def _names(self, request: Message) -> bool:
        return self._has(getattr(request, "topic_data", None) or getattr(request, "topics", None) or ())

    def _forgets(self, request: Message) -> bool:
        return self._has(getattr(request, "forgotten_topics_data", ()))

    def _has(self, entries: object) -> bool:
        topic = self._image().topics_by_name.get(self.name)
        topic_id = None if topic is None else topic.topic_id
        return any(
            self.name in (getattr(entry, "name", None), getattr(entry, "topic", None))
            or (topic_id is not None and getattr(entry, "topic_id", None) == topic_id)
            for entry in entries  # type: ignore[attr-defined]
        )


def _session_of(broker_id: int | None, request: Message) -> _Session | None:
    """What names the fetch session (0: none) or the share session of a request. None: another kind of request."""
    if isinstance(request, FetchRequest):
        return broker_id, request.session_id, None
    if isinstance(request, ShareFetchRequest | ShareAcknowledgeRequest):
        return broker_id, request.group_id, request.member_id
    return None


def _answered_session(broker_id: int | None, request: Message, response: object) -> _Session | None:
    """The fetch session that the answer begins."""
    if isinstance(request, FetchRequest) and isinstance(response, FetchResponse) and response.session_id:
        return broker_id, response.session_id, None
    return None


def _names_all(request: Message) -> bool:
    """Whether a request names all that it reads, and takes nothing from a session before."""
    if isinstance(request, FetchRequest):
        return request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH)
    return isinstance(request, ShareFetchRequest) and request.share_session_epoch == INITIAL_EPOCH
