"""A fetch that waits for records, and what its session makes of the answer (KIP-227)."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from klamm.broker.data.data_plane import DataPlane
from klamm.broker.data.down_conversion import Conversion
from klamm.broker.fetch_sessions import NO_SESSION, FetchSession, FetchSessions, Partitions, WantedPartition, next_epoch
from klamm.broker.handlers.fetch_quota import FetchQuota
from klamm.broker.handlers.fetch_reading import Answered, Asked, Reading, refused
from klamm.broker.handlers.hosted import end_points
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import LogKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)

MAX_WAIT_MS: Final = 5 * 60 * 1000
"""The longest time that an answer waits, even if the consumer's `max_wait_ms` is longer."""


class Settled(NamedTuple):
    """What a session makes of the answers."""

    answers: Sequence[Answered]
    """Those that the response has."""
    session_id: int = NO_SESSION
    error_code: ErrorCode = ErrorCode.NONE


class Settling(Protocol):
    """What happens with the answers of a request when they are complete."""

    news_only: bool
    """Whether answers that the client knows may be missing."""

    def settle(self, answers: Sequence[Answered], now_ms: int) -> Settled: ...

    def throttled(self) -> Settled:
        """What the response has instead of the answers if a quota throttles the client, which reads them again."""
        ...


class WithoutSession:
    """All answers are in the response."""

    news_only = False

    def settle(self, answers: Sequence[Answered], now_ms: int) -> Settled:
        del now_ms
        return Settled(answers)

    def throttled(self) -> Settled:
        return Settled(())


class NewSession:
    """All answers are in the response, and a session begins with them, if there is room for it."""

    news_only = False

    def __init__(self, sessions: FetchSessions, *, is_replica: bool, uses_topic_ids: bool) -> None:
        self._sessions = sessions
        self._is_replica = is_replica
        self._uses_topic_ids = uses_topic_ids

    def settle(self, answers: Sequence[Answered], now_ms: int) -> Settled:
        partitions: Partitions = {}
        for one in answers:
            one.wanted.remember(one.answer)
            partitions[one.wanted.key] = one.wanted
        session_id = self._sessions.grant(
            partitions, now_ms, is_replica=self._is_replica, uses_topic_ids=self._uses_topic_ids
        )
        return Settled(answers, session_id)

    def throttled(self) -> Settled:
        return Settled(())  # no session begins


class InSession:
    """The answers with news are in the response. A partition with records is the last one to be read next time, so
    that each has its turn."""

    news_only = True

    def __init__(self, session: FetchSession) -> None:
        self._session = session
        self._epoch = next_epoch(session.epoch)

    def settle(self, answers: Sequence[Answered], now_ms: int) -> Settled:
        del now_ms
        session = self._session
        if session.epoch != self._epoch:  # another request was quicker, on another connection
            return Settled((), session.session_id, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        news = [one for one in answers if one.wanted.has_news(one.answer, one.records_bytes)]
        for one in news:
            if one.records_bytes:
                session.partitions[one.wanted.key] = session.partitions.pop(one.wanted.key)
        return Settled(news, session.session_id)

    def throttled(self) -> Settled:
        session = self._session
        is_current = session.epoch == self._epoch
        return Settled((), session.session_id, ErrorCode.NONE if is_current else ErrorCode.INVALID_FETCH_SESSION_EPOCH)


class DelayedFetch:
    """An answer that is complete when `min_bytes` are there, when a partition has an error, or when the time is
    over. The session changes when it is complete, which is after the effects of its request."""

    __slots__ = (
        "_asked",
        "_data",
        "_deadline_ms",
        "_quota",
        "_refused",
        "_request",
        "_settling",
        "_wanted",
        "keys",
        "retry_at_ms",
    )

    def __init__(
        self,
        data: DataPlane,
        request: FetchRequest,
        asked: Asked,
        wanted: Iterable[tuple[WantedPartition, ErrorCode]],
        settling: Settling,
        now_ms: int,
        quota: FetchQuota | None = None,
    ) -> None:
        """`wanted`: what is read, in order, with the error of each partition that is refused before anything is
        read. Such partitions come last in the response, and are not watched."""
        self.keys: Collection[LogKey] = ()
        self.retry_at_ms = self._deadline_ms = now_ms + min(request.max_wait_ms, MAX_WAIT_MS)
        self._data = data
        self._request = request
        self._asked = asked
        self._settling = settling
        self._quota = quota
        self._wanted: list[WantedPartition] = []
        self._refused: list[Answered] = []
        for one, code in wanted:
            if code:
                self._refused.append(Answered(one, refused(one.request, code)))
            else:
                self._wanted.append(one)

    @property
    def client_waits_ms(self) -> int:
        """How long the client said that the answer may wait."""
        return min(self._request.max_wait_ms, MAX_WAIT_MS)

    def expire(self, now_ms: int) -> None:
        """The client has waited so long."""
        self._deadline_ms = now_ms

    def try_complete(self, image: MetadataImage, now_ms: int) -> FetchResponse | None:
        """The answer, if it is complete or its time is over; None: it waits on."""
        reading = Reading(self._request, self._asked, now_ms, news_only=self._settling.news_only)
        for one in self._wanted:
            reading.read(image, self._data, one)
        if self._wanted and not reading.is_enough and now_ms < self._deadline_ms:
            self.keys = reading.keys
            self.retry_at_ms = min(reading.retry_at_ms or self._deadline_ms, self._deadline_ms)
            return None
        room = Conversion(sum(bool(answered.records_bytes) for answered in reading.found))
        for answered in reading.found:  # those with records are in every response
            answered.copy_records(self._asked.api_version, room)
        answers = [*reading.found, *self._refused]
        throttle_ms = (
            0 if self._quota is None else self._quota.throttle_ms(FetchResponse(responses=_by_topic(answers)), now_ms)
        )
        settled = self._settling.throttled() if throttle_ms else self._settling.settle(answers, now_ms)
        return FetchResponse(
            throttle_time_ms=throttle_ms,
            error_code=settled.error_code,
            session_id=settled.session_id,
            responses=_by_topic(settled.answers),
            node_endpoints=end_points(image, reading.leaders, self._asked.requester.listener_name, NodeEndpoint),
        )


def _by_topic(answers: Sequence[Answered]) -> list[FetchableTopicResponse]:
    """The answers in their order: a topic is named again if another one was in between."""
    topics: list[FetchableTopicResponse] = []
    partitions: list[PartitionData] = []
    former = None
    for one in answers:
        topic = one.wanted.key[0]
        if topic != former or not topics:
            former, partitions = topic, []
            topics.append(
                FetchableTopicResponse(
                    topic=one.wanted.topic_name or "", topic_id=one.wanted.topic_id, partitions=partitions
                )
            )
        partitions.append(one.answer)
    return topics
