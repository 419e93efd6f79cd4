"""ShareAcknowledge (79): a member acknowledges records, and may end its share session. Order of checks: KafkaApis."""

from collections.abc import Collection

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.handlers.hosted import end_points
from klamm.broker.handlers.share.acknowledgements import Acknowledgements, by_topic, most_acknowledge_type
from klamm.broker.handlers.share.share_request import (
    TELL_LEADER,
    advance,
    denied_topics,
    leader_of,
    places_of,
    refuse,
)
from klamm.broker.handlers.share.share_version import Begin
from klamm.broker.share_partitions.sessions import FINAL_EPOCH, INITIAL_EPOCH
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import LogKey
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.shares.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

LONGEST_WAIT_MS = 60_000


def handle_share_acknowledge(
    brokers: SimulatedBrokers, image: MetadataImage, request: ShareAcknowledgeRequest, context: RequestContext
) -> Outcome:
    """What became of the acknowledgements of each partition, when the share coordinator has them."""
    code = refuse(image, context, request.group_id, request.member_id)
    if code:
        return Outcome(ShareAcknowledgeResponse(error_code=code))
    answer = DelayedAcknowledge(brokers, image, request, context)
    return Outcome(answer, effects=[Begin(answer.begin)])


class DelayedAcknowledge:
    """An answer that is complete when all acknowledgements are written, or could not be."""

    def __init__(
        self,
        brokers: SimulatedBrokers,
        image: MetadataImage,
        request: ShareAcknowledgeRequest,
        context: RequestContext,
    ) -> None:
        self.keys: Collection[LogKey] = places_of(request.topics)
        self.retry_at_ms = 0
        self._leaders = brokers.shares.leaders
        self._request = request
        self._group_id, self._member_id = request.group_id or "", request.member_id or ""
        broker_id = context.requester.asked_broker_id
        self._broker_id = -1 if broker_id is None else broker_id
        self._listener_name = context.requester.listener_name
        self._denied = denied_topics(image, context, (topic.topic_id for topic in request.topics))
        self._given = Acknowledgements(
            self._leaders,
            self._group_id,
            self._member_id,
            request.is_renew_ack,
            most_acknowledge_type(context.api_version),
        )
        self._code = ErrorCode.NONE

    def begin(self, image: MetadataImage, _now_ms: int) -> None:
        """Examine the session and begin the acknowledgements."""
        epoch = self._request.share_session_epoch
        if epoch == INITIAL_EPOCH:
            self._code = ErrorCode.INVALID_SHARE_SESSION_EPOCH
            return
        sessions, key = self._leaders.sessions(self._broker_id), (self._group_id, self._member_id)
        self._code = sessions.check(key, epoch)
        session = sessions.find(key)
        if self._code or session is None:
            return
        if epoch != FINAL_EPOCH:
            session.advance()
        self._given.begin(image, self._broker_id, self._request.topics, self._denied)

    def try_complete(self, image: MetadataImage, now_ms: int) -> ShareAcknowledgeResponse | None:
        """The answer, if it is complete."""
        if self._code:
            return ShareAcknowledgeResponse(error_code=self._code)
        due_ms = advance(self._leaders, self._broker_id, self._group_id, self.keys, image, now_ms)
        if not self._given.are_done:
            self.retry_at_ms = max(now_ms + 1, min(now_ms + LONGEST_WAIT_MS, due_ms or now_ms + LONGEST_WAIT_MS))
            return None
        if self._request.share_session_epoch == FINAL_EPOCH:
            self._leaders.end_session(self._broker_id, self._group_id, self._member_id)
        return self._answer(image)

    def _answer(self, image: MetadataImage) -> ShareAcknowledgeResponse:
        leaders: list[int] = []
        topics = []
        for topic_id, results in by_topic(self._given.results).items():
            partitions = []
            for index, error in results.items():
                one = PartitionData(partition_index=index, error_code=error.code, error_message=error.message)
                leader = leader_of(self._leaders, image, (topic_id, index)) if error.code in TELL_LEADER else None
                if leader is not None:
                    one.current_leader = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
                    leaders.append(leader[0])
                partitions.append(one)
            topics.append(ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=partitions))
        return ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=self._leaders.configs.of(image, self._group_id).lock_duration_ms,
            responses=topics,
            node_endpoints=end_points(image, leaders, self._listener_name, NodeEndpoint),
        )
