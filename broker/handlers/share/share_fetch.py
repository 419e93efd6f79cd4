"""ShareFetch (78): a member acknowledges records and acquires others. Order of the checks: KafkaApis.

The answer waits until `min_bytes` can be acquired, or the member's wait time is over, at most `MAX_WAIT_MS`; and until
the share coordinator has the acknowledgements.
"""

from collections.abc import Collection

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.handlers.delayed_fetch import MAX_WAIT_MS
from klamm.broker.handlers.fetch_quota import fetch_quota_of
from klamm.broker.handlers.hosted import end_points, find_partition
from klamm.broker.handlers.share.acknowledgements import (
    Acknowledgements,
    by_topic,
    have_acknowledgements,
    most_acknowledge_type,
)
from klamm.broker.handlers.share.reading import ACQUIRE_MODES, RECORD_LIMIT, FetchLimits, Reading
from klamm.broker.handlers.share.share_request import (
    TELL_LEADER,
    advance,
    denied_topics,
    leader_of,
    places_of,
    refuse,
)
from klamm.broker.handlers.share.share_version import Begin, records_of_state_topic
from klamm.broker.share_partitions.leaders import Around
from klamm.broker.share_partitions.sessions import FINAL_EPOCH, INITIAL_EPOCH, LAST_EPOCH, ShareSession
from klamm.broker.share_partitions.share_partition import Phase, SharePartition
from klamm.broker.share_state.offset import SharePartitionKey
from klamm.controller.configs import fetch_max_bytes
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import LogKey
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.shares import share_fetch
from klamm.protocol.messages.shares.share_fetch import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

LONGEST_WAIT_MS = 60_000
LOADED_AT_ONCE = 250
"""Share partitions that one step of a request begins to load, about 25 ms of work."""


def handle_share_fetch(
    brokers: SimulatedBrokers, image: MetadataImage, request: ShareFetchRequest, context: RequestContext
) -> Outcome:
    """The records that the member has acquired, and what became of its acknowledgements."""
    code = refuse(image, context, request.group_id, request.member_id)
    wanted = request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms
    if not code and request.is_renew_ack and any(wanted):
        code = ErrorCode.INVALID_REQUEST
    if code:
        return Outcome(ShareFetchResponse(error_code=code))
    answer = DelayedShareFetch(brokers, image, request, context)
    return Outcome(answer, records_of_state_topic(image, context), [Begin(answer.begin)])


class DelayedShareFetch:
    """An answer that is complete when there are enough records and all acknowledgements are written."""

    def __init__(
        self, brokers: SimulatedBrokers, image: MetadataImage, request: ShareFetchRequest, context: RequestContext
    ) -> None:
        self.keys: Collection[LogKey] = ()
        self.retry_at_ms = self._deadline_ms = context.now_ms + max(0, min(request.max_wait_ms, MAX_WAIT_MS))
        self._leaders = brokers.shares.leaders
        self._request = request
        self._group_id, self._member_id = request.group_id or "", request.member_id or ""
        requester = context.requester
        self._broker_id = -1 if requester.asked_broker_id is None else requester.asked_broker_id
        self._connection_id, self._listener_name = requester.connection_id, requester.listener_name
        self._context = context
        self._quota = fetch_quota_of(brokers, image, share_fetch.API, context)
        max_bytes = min(request.max_bytes, fetch_max_bytes(context.settings, requester.asked_broker_id))
        if self._quota is not None and self._quota.max_bytes is not None:
            max_bytes = min(max_bytes, self._quota.max_bytes)
        self._limits = FetchLimits(
            self._member_id,
            min(request.min_bytes, max_bytes),
            max_bytes,
            request.max_records,
            request.batch_size,
            by_record=request.share_acquire_mode == RECORD_LIMIT,
        )
        self._given = Acknowledgements(
            self._leaders,
            self._group_id,
            self._member_id,
            request.is_renew_ack,
            most_acknowledge_type(context.api_version),
        )
        self._code = ErrorCode.NONE
        self._partitions: list[tuple[LogKey, SharePartition]] = []
        self._to_load: list[LogKey] = []
        self._errors: dict[LogKey, ErrorCode] = {}
        self._read: dict[LogKey, PartitionData] | None = None
        """What was acquired; None: nothing yet."""

    # -- the beginning ---------------------------------------------------------------------------------------------

    def begin(self, image: MetadataImage, now_ms: int) -> None:
        """Examine the session, begin the acknowledgements, and load share partitions."""
        places = self._enter_session()
        if self._code:
            return
        named = places_of(self._request.topics)
        denied = denied_topics(image, self._context, (place[0] for place in (*places, *named)))
        if have_acknowledgements(self._request.topics):
            self._given.begin(image, self._broker_id, self._request.topics, denied)
        if self._request.is_renew_ack:
            self._read = {}
            return
        allowed = self._allowed(image, places, denied)
        if allowed and self._request.share_acquire_mode not in ACQUIRE_MODES:
            self._code = ErrorCode.UNKNOWN_SERVER_ERROR  # as Kafka, which has begun the acknowledgements
            return
        self._to_load = self._rotated(allowed)
        self.keys = list(dict.fromkeys([*named, *self._to_load]))
        self._load()

    def _enter_session(self) -> list[LogKey]:
        """The partitions to fetch from."""
        sessions, key = self._leaders.sessions(self._broker_id), (self._group_id, self._member_id)
        epoch, named = self._request.share_session_epoch, places_of(self._request.topics)
        if epoch == INITIAL_EPOCH:
            if have_acknowledgements(self._request.topics):
                self._code = ErrorCode.INVALID_REQUEST
                return []
            self._code = sessions.begin(key, self._connection_id, named)
            return named
        self._code = sessions.check(key, epoch)
        session = sessions.find(key)
        if self._code or session is None or epoch == FINAL_EPOCH:
            return []
        forgotten = [
            (topic.topic_id, index) for topic in self._request.forgotten_topics_data for index in topic.partitions
        ]
        self._code = sessions.update(session, named, forgotten)
        return list(session.partitions)

    def _allowed(self, image: MetadataImage, places: list[LogKey], denied: Collection[str]) -> list[LogKey]:
        allowed = []
        for place in places:
            topic = image.topics_by_id.get(place[0])
            if topic is None:
                self._errors[place] = ErrorCode.UNKNOWN_TOPIC_ID
            elif topic.name in denied:
                self._errors[place] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif find_partition(image, self._leaders.data, topic, place[1]) is None:
                self._errors[place] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                allowed.append(place)
        return allowed

    def _rotated(self, places: list[LogKey]) -> list[LogKey]:
        """Each request of a session begins with another partition."""
        epoch = self._request.share_session_epoch
        at = epoch % len(places) if places and epoch > 0 else 0
        return [*places[at:], *places[:at]]

    def _load(self) -> None:
        """Find or load the next share partitions."""
        places, self._to_load = self._to_load[:LOADED_AT_ONCE], self._to_load[LOADED_AT_ONCE:]
        for place in places:
            found = self._leaders.find_or_load(self._broker_id, SharePartitionKey(self._group_id, *place))
            if isinstance(found, ApiError):
                self._errors[place] = found.code
            else:
                self._partitions.append((place, found))
        wants_nothing = not self._limits.max_records or not self._limits.max_bytes
        if not self._to_load and (wants_nothing or not self._partitions):
            self._read = {}

    # -- the end ---------------------------------------------------------------------------------------------------

    def try_complete(self, image: MetadataImage, now_ms: int) -> ShareFetchResponse | None:
        """The answer, if it is complete or its time is over; None: it waits on."""
        if self._code:
            if self._code is ErrorCode.SHARE_SESSION_LIMIT_REACHED and now_ms < self._deadline_ms:
                return None
            return ShareFetchResponse(error_code=self._code)
        if self._to_load:
            self._load()
            self.retry_at_ms = now_ms + 1
            return None
        due_ms = advance(self._leaders, self._broker_id, self._group_id, self.keys, image, now_ms)
        if self._read is None:
            due_ms = self._try_read(image, now_ms, due_ms)
        if self._read is None or not self._given.are_done:
            latest_ms = now_ms + LONGEST_WAIT_MS if self._read is not None else self._deadline_ms
            self.retry_at_ms = max(now_ms + 1, min(latest_ms, latest_ms if due_ms is None else due_ms))
            return None
        response = self._answer(image, self._read, now_ms)
        if self._request.share_session_epoch == FINAL_EPOCH:
            self._leaders.end_session(self._broker_id, self._group_id, self._member_id)
        return response

    def _try_read(self, image: MetadataImage, now_ms: int, due_ms: int | None) -> int | None:
        for place, partition in self._partitions:
            around = partition.around
            if partition.phase is Phase.GONE and isinstance(around, Around) and around.error is not None:
                self._errors[place] = around.error.code
        live = [(place, one) for place, one in self._partitions if place not in self._errors]
        reading = Reading(self._leaders, image, self._limits, live, now_ms)
        if reading.is_enough or not live or now_ms >= self._deadline_ms:
            self._read = reading.acquire()
        times = [one for one in (due_ms, reading.retry_at_ms) if one is not None]
        return min(times, default=None)

    def _answer(self, image: MetadataImage, read: dict[LogKey, PartitionData], now_ms: int) -> ShareFetchResponse:
        leaders = self._add_errors(image, read)
        session, is_current = self._session()
        shown = self._shown(session, read) if is_current else {}
        throttle_ms = 0
        if self._quota is not None:
            throttle_ms = self._quota.throttle_ms(ShareFetchResponse(responses=_by_topic(shown)), now_ms)
        if throttle_ms:
            # As in Kafka, what was acquired stays so until its lock expires, and the client gets it then.
            shown = {}
        elif session is not None and is_current:
            for place, one in read.items():
                session.note(place, has_records=bool(one.records), has_error=bool(one.error_code))
        for place, error in self._given.results.items():
            one = shown.setdefault(place, PartitionData(partition_index=place[1], records=b""))
            one.acknowledge_error_code, one.acknowledge_error_message = error.code, error.message
        return ShareFetchResponse(
            throttle_time_ms=throttle_ms,
            error_code=ErrorCode.NONE if is_current else ErrorCode.INVALID_SHARE_SESSION_EPOCH,
            acquisition_lock_timeout_ms=self._leaders.configs.of(image, self._group_id).lock_duration_ms,
            responses=_by_topic(shown),
            node_endpoints=end_points(image, leaders, self._listener_name, NodeEndpoint),
        )

    def _add_errors(self, image: MetadataImage, read: dict[LogKey, PartitionData]) -> list[int]:
        """Add the partitions that could not be read. The leaders that the answer names."""
        leaders: list[int] = []
        for place, code in self._errors.items():
            one = read[place] = PartitionData(partition_index=place[1], error_code=code, records=b"")
            leader = leader_of(self._leaders, image, place) if code in TELL_LEADER else None
            if leader is not None:
                one.current_leader = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
                leaders.append(leader[0])
        return leaders

    def _session(self) -> tuple[ShareSession | None, bool]:
        """The session whose partitions the answer need not repeat, and whether it has had no other request
        meanwhile."""
        epoch = self._request.share_session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            return None, True
        session = self._leaders.sessions(self._broker_id).find((self._group_id, self._member_id))
        return session, session is None or session.epoch == (1 if epoch == LAST_EPOCH else epoch + 1)

    @staticmethod
    def _shown(session: ShareSession | None, read: dict[LogKey, PartitionData]) -> dict[LogKey, PartitionData]:
        """What the session has not shown yet."""
        return {
            place: one
            for place, one in read.items()
            if session is None or session.shows(place, has_records=bool(one.records), has_error=bool(one.error_code))
        }


def _by_topic(shown: dict[LogKey, PartitionData]) -> list[ShareFetchableTopicResponse]:
    return [
        ShareFetchableTopicResponse(topic_id=topic_id, partitions=list(partitions.values()))
        for topic_id, partitions in by_topic(shown).items()
    ]
