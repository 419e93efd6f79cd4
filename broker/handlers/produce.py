"""Produce (0): record batches are written to the partitions that this broker leads.

With acks=all the answer waits until every member of the ISR has the records, which is often the case at once. With
acks=0 there is no answer: a refusal closes the connection instead, so that the client notices it (as in Kafka). Order
of the checks: KafkaApis.handleProduceRequest, which begins with the right to the transactional id, and
ReplicaManager.appendRecordsToLeader. The first batch of a transaction in
a partition waits until the transaction's coordinator has confirmed or added the partition (KIP-890).
"""

from collections.abc import Collection
from dataclasses import field, replace

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.data.data_plane import DataPlane
from klamm.broker.data.message_sets import is_message_set
from klamm.broker.data.record_batches import ProducedBatch, RefusedBatch, check_batch, look_at_front
from klamm.broker.data.records import NoRoom, Room
from klamm.broker.data.replicated_log import ReplicatedLog
from klamm.broker.handlers.batches_written import (
    ACKS_OF_ALL,
    ACKS_OF_NONE,
    NO_OFFSET,
    Accepted,
    BatchesWritten,
    Unacknowledged,
    note_reason,
    refused,
)
from klamm.broker.handlers.hosted import (
    Hosted,
    end_points,
    find_partition,
    find_topic,
    log_of,
    validate_hosted,
)
from klamm.broker.handlers.produced_records import find_records, validated
from klamm.broker.handlers.transactions.verification import Support
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.configs import RecordRules, record_rules
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage, Topic
from klamm.controller.metadata.partition import LogKey
from klamm.controller.outcome import NoReply, Outcome
from klamm.controller.reading import Reading, Unread
from klamm.controller.served_apis import release_of
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.data.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from klamm.quick_dataclasses import dataclass

VALID_ACKS = (ACKS_OF_ALL, ACKS_OF_NONE, 1)
FIRST_VERSION_WITH_LEADERS = 10
FIRST_VERSION_WITH_ABORTABLE = 11
FIRST_VERSION_THAT_ADDS = 12
"""Partitions to the transaction (KIP-890)."""
FIRST_VERSION_BY_ID = 13
ADMIN_CLIENT_ID = "__admin_client"
"""The client id of Kafka's own admin client: only clients with this id may write to internal topics."""
_TOO_MUCH = RefusedBatch(ErrorCode.MESSAGE_TOO_LARGE, "The records take more than one request may have uncompressed.")


@dataclass(slots=True)
class _Asked:
    """The state of one request while it is decided."""

    data: DataPlane
    image: MetadataImage
    request: ProduceRequest
    context: RequestContext
    denied: Collection[str]
    batches: list[Accepted] = field(default_factory=list)
    """The batches to write, in the order of the request."""
    leaders: list[int] = field(default_factory=list)
    """The leaders that clients have to ask instead of this broker."""
    unread: list[Reading] = field(default_factory=list)
    """The batches whose records a thread has to read first."""
    whole: RefusedBatch | None = None
    """An error for the whole request, which Kafka meets at one of its batches."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why something was refused, by the name of the topic: for the request log."""
    room: Room = field(default_factory=Room.at_most)
    """For reading records now."""
    room_in_thread: Room | None = None

    def refused(
        self, topic: Topic, wanted: PartitionProduceData, error: ApiError, log_start_offset: int = NO_OFFSET
    ) -> PartitionProduceResponse:
        note_reason(self.reasons, topic.name, error)
        if error.code is ErrorCode.INVALID_RECORD and not release_of(self.context.served).has_code_of_invalid_records:
            error = replace(error, code=ErrorCode.CORRUPT_MESSAGE)
        return refused(wanted.index, error, log_start_offset)


def handle_produce(
    brokers: SimulatedBrokers, image: MetadataImage, request: ProduceRequest, context: RequestContext
) -> Outcome:
    """The offset of each batch, or why it was not written. With acks=0 `BatchesWritten` raises NoReply for a
    refusal."""
    by_id = context.api_version >= FIRST_VERSION_BY_ID
    known = (image.topics_by_id.get(wanted.topic_id) for wanted in request.topic_data)
    names = (topic.name for topic in known if topic) if by_id else (wanted.name for wanted in request.topic_data)
    denied = context.denied(AclOperation.WRITE, AclResourceType.TOPIC, names)
    room = Room.at_most() if context.readings is None else Room.at_once()
    asked = _Asked(brokers.data, image, request, context, denied, room=room)
    may_write = _may_write_transaction(request, context)
    if isinstance(may_write, RefusedBatch):
        return _refuse_whole(request, may_write)
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=wanted.name,
                topic_id=wanted.topic_id,
                partition_responses=_write_topic(asked, wanted) if may_write else _refuse_transaction(wanted),
            )
            for wanted in request.topic_data
            if wanted.partition_data  # a topic without partitions is omitted, as in Kafka
        ]
    )
    if asked.whole:
        return _refuse_whole(request, asked.whole)
    if asked.unread:
        raise Unread(asked.unread)
    written = BatchesWritten(brokers, response, request, asked.batches, _support(context.api_version), asked.reasons)
    if request.acks == ACKS_OF_NONE:
        return Outcome(None, effects=[written])
    # The response is complete only after the effect.
    deadline_ms = context.now_ms + request.timeout_ms
    delayed = DelayedProduce(brokers.data, response, context, written, asked.leaders, deadline_ms)
    return Outcome(delayed, effects=[written], log_only_errors=asked.reasons)


def _may_write_transaction(request: ProduceRequest, context: RequestContext) -> RefusedBatch | bool:
    """False if a batch is transactional and the requester names no transactional id, or one that it may not write to.
    Kafka refuses the whole request then, whatever else is wrong with it; also if it cannot look at a batch."""
    for topic in request.topic_data:
        for partition in topic.partition_data:
            is_transactional = look_at_front(partition.records)
            if isinstance(is_transactional, RefusedBatch):
                return is_transactional
            if is_transactional:
                name = request.transactional_id
                return name is not None and context.authorize(
                    AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, name
                )
    return True


def _refuse_whole(request: ProduceRequest, error: RefusedBatch) -> Outcome:
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=wanted.name,
                topic_id=wanted.topic_id,
                partition_responses=[refused(partition.index, error) for partition in wanted.partition_data],
            )
            for wanted in request.topic_data
            if wanted.partition_data
        ]
    )
    if request.acks == ACKS_OF_NONE:
        raise NoReply(f"Produce without acks: {error.code.name} for the whole request", response)
    return Outcome(response)


def _refuse_transaction(wanted: TopicProduceData) -> list[PartitionProduceResponse]:
    error = ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return [refused(partition.index, error) for partition in wanted.partition_data]


def _support(api_version: int) -> Support:
    if api_version >= FIRST_VERSION_THAT_ADDS:
        return Support.ADDS
    return Support.ABORTABLE if api_version >= FIRST_VERSION_WITH_ABORTABLE else Support.DEFAULT


def _write_topic(asked: _Asked, wanted: TopicProduceData) -> list[PartitionProduceResponse]:
    context = asked.context
    topic_id = wanted.topic_id if context.api_version >= FIRST_VERSION_BY_ID else None
    topic = find_topic(asked.image, wanted.name, topic_id, asked.denied)
    if isinstance(topic, ErrorCode):
        return [refused(partition.index, ApiError(topic)) for partition in wanted.partition_data]
    rules = record_rules(asked.image.configs, context.settings, topic.name, context.requester.asked_broker_id)
    return [_write(asked, topic, rules, partition) for partition in wanted.partition_data]


def _write(asked: _Asked, topic: Topic, rules: RecordRules, wanted: PartitionProduceData) -> PartitionProduceResponse:
    context = asked.context
    hosted = find_partition(asked.image, asked.data, topic, wanted.index)
    if hosted is None:
        return refused(wanted.index, ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    data = find_records(wanted.records, context.api_version)
    if isinstance(data, RefusedBatch):
        if data.code is ErrorCode.UNKNOWN_SERVER_ERROR:
            asked.whole = data
        return asked.refused(topic, wanted, data)
    refusal = _refuse_request(asked, topic, hosted)
    if refusal:
        answer = refused(wanted.index, ApiError(refusal))
        if refusal is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            _tell_leader(answer, hosted, asked.leaders, context.api_version)
        return answer
    if asked.request.acks == ACKS_OF_ALL and _too_few_in_sync(asked.image, topic, wanted.index, hosted, rules):
        error = ApiError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{len(hosted.isr)} replicas are in sync, min.insync.replicas is {rules.min_insync_replicas}.",
        )
        return asked.refused(topic, wanted, error, log_of(hosted).log_start_offset)
    if not data:
        return PartitionProduceResponse(index=wanted.index, base_offset=NO_OFFSET)
    batch = _read_batch(asked, topic, rules, wanted, data)
    if isinstance(batch, RefusedBatch):
        return asked.refused(topic, wanted, batch, log_of(hosted).log_start_offset if batch.by_log else NO_OFFSET)
    answer = PartitionProduceResponse(index=wanted.index)
    asked.batches.append(Accepted(answer, topic, batch, rules.log_append_time))
    return answer


def _refuse_request(asked: _Asked, topic: Topic, hosted: Hosted) -> ErrorCode | None:
    if asked.request.acks not in VALID_ACKS:
        return ErrorCode.INVALID_REQUIRED_ACKS
    if topic.is_internal and asked.context.requester.client_id != ADMIN_CLIENT_ID:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return validate_hosted(hosted, asked.context.requester.asked_broker_id) or None


def _tell_leader(answer: PartitionProduceResponse, hosted: Hosted, leaders: list[int], api_version: int) -> None:
    if api_version >= FIRST_VERSION_WITH_LEADERS:
        leaders.append(hosted.leader)
        answer.current_leader = LeaderIdAndEpoch(leader_id=hosted.leader, leader_epoch=hosted.leader_epoch)


def _too_few_in_sync(
    image: MetadataImage, topic: Topic, partition_index: int, hosted: Hosted, rules: RecordRules
) -> bool:
    """Whether acks=all must be refused. A partition with fewer replicas than the minimum ISR needs all of them."""
    if len(hosted.isr) >= rules.min_insync_replicas:
        return False
    # Placeholders count (KIP-409): missing replicas do not lower the requirement.
    return len(hosted.isr) < len(image.partitions.read(topic.row, partition_index).replicas)


def _read_batch(
    asked: _Asked, topic: Topic, rules: RecordRules, wanted: PartitionProduceData, data: bytes
) -> ProducedBatch | RefusedBatch:
    """The batch as it is written. If a thread has to read its records, an error that no client gets."""
    batch = data if is_message_set(data) else check_batch(data, rules.max_message_bytes)
    if isinstance(batch, RefusedBatch):
        return batch
    readings = asked.context.readings
    if readings and isinstance(found := readings.get((id(wanted), rules)), (ProducedBatch, RefusedBatch)):
        return found
    partition_name, now_ms = f"{topic.name}-{wanted.index}", asked.context.now_ms
    try:
        return validated(batch, rules, partition_name, now_ms, asked.room)
    except NoRoom:
        if readings is None:
            return _TOO_MUCH
        room = asked.room_in_thread = asked.room_in_thread or Room.at_most()
        asked.unread.append(
            Reading((id(wanted), rules), lambda: _read_in_thread(batch, rules, partition_name, now_ms, room))
        )
        return _TOO_MUCH


def _read_in_thread(
    batch: ProducedBatch | bytes, rules: RecordRules, partition_name: str, now_ms: int, room: Room
) -> ProducedBatch | RefusedBatch:
    try:
        return validated(batch, rules, partition_name, now_ms, room)
    except NoRoom:
        return _TOO_MUCH


class DelayedProduce:
    """The response. It is complete when the batches are written and, with acks=all, when all in-sync replicas have them
    or the timeout of the request is over."""

    __slots__ = (
        "_api_version",
        "_data",
        "_deadline_ms",
        "_decided_ms",
        "_leaders",
        "_requester",
        "_response",
        "_settings",
        "_timeout_ms",
        "_unacknowledged",
        "_written",
        "keys",
        "retry_at_ms",
    )

    def __init__(
        self,
        data: DataPlane,
        response: ProduceResponse,
        context: RequestContext,
        written: BatchesWritten,
        leaders: list[int],
        deadline_ms: int,
    ) -> None:
        self.keys: Collection[LogKey] = ()
        self.retry_at_ms = self._deadline_ms = deadline_ms
        self._data = data
        self._response = response
        self._requester = context.requester
        self._api_version = context.api_version
        self._settings = context.settings
        self._decided_ms = context.now_ms
        self._timeout_ms = deadline_ms - context.now_ms
        self._written = written
        self._unacknowledged: list[Unacknowledged] | None = None
        self._leaders = leaders

    @property
    def client_waits_ms(self) -> int:
        """How long the client said that the answer may wait."""
        return self._timeout_ms

    def expire(self, now_ms: int) -> None:
        """The client has waited so long."""
        self._deadline_ms = now_ms

    def try_complete(self, image: MetadataImage, now_ms: int) -> ProduceResponse | None:
        """The answer, if each batch is acknowledged, lost or late; None: it waits on."""
        if self._unacknowledged is None:
            waits = self._written.wait(image, now_ms)
            if waits is not None and now_ms < self._deadline_ms:
                self.keys, due_ms = waits
                self.retry_at_ms = min(due_ms, self._deadline_ms)
                return None
            if waits is not None:
                self._written.give_up()
            self._unacknowledged = self._written.unacknowledged
        waiting: list[Unacknowledged] = []
        self.retry_at_ms = self._deadline_ms
        for one in self._unacknowledged:
            code = self._acknowledge(image, one, now_ms)
            if code is None and now_ms >= self._deadline_ms:
                code = ErrorCode.REQUEST_TIMED_OUT
            if code is None:
                waiting.append(one)
            else:
                one.answer.error_code = code
        self._unacknowledged = waiting
        if waiting:
            self.keys = [one.key for one in waiting]
            return None
        asked_at = self._requester.listener_name
        self._response.node_endpoints = end_points(image, self._leaders, asked_at, NodeEndpoint)
        return self._response

    def _acknowledge(self, image: MetadataImage, one: Unacknowledged, now_ms: int) -> ErrorCode | None:
        """NONE if all replicas in sync have the batch, another code if they never will; None: not yet."""
        found = self._data.find(*one.key)
        if found is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if found.leader != self._requester.asked_broker_id or not _still_holds(found, one):
            _tell_leader(one.answer, found, self._leaders, self._api_version)
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if found.high_watermark(now_ms) < one.end_offset:
            due_ms = found.reaches_at_ms(one.end_offset, now_ms)
            if due_ms is not None:
                self.retry_at_ms = min(self.retry_at_ms, due_ms)
            return None
        if found.isr is one.isr and now_ms == self._decided_ms:
            return ErrorCode.NONE  # the partition has not changed since the ISR was compared with the minimum
        rules = record_rules(image.configs, self._settings, one.topic.name, self._requester.asked_broker_id)
        if _too_few_in_sync(image, one.topic, one.answer.index, found, rules):
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE


def _still_holds(found: ReplicatedLog, one: Unacknowledged) -> bool:
    """Whether the batch is still at its offset: changes of leader may have truncated the log."""
    if found.leader_epoch == one.leader_epoch:
        return True
    return found.log.epochs.epoch_at(one.end_offset - 1) == one.leader_epoch
