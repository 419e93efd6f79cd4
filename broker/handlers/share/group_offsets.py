"""AlterShareGroupOffsets (91) and DeleteShareGroupOffsets (92).

The coordinator of the group decides, then the coordinators of its share partitions carry it out, then the former
writes down what became of it.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.coordinator.answer import Part, Step
from klamm.broker.coordinator.outbox import Outbox
from klamm.broker.groups.share.offsets import UNKNOWN_PARTITION, Alteration, StateDeletion
from klamm.broker.groups.share.shard import GroupsWithShare
from klamm.broker.handlers.share.share_version import Begin, records_of_state_topic, share_groups_are_enabled
from klamm.broker.handlers.share.texts import text_of
from klamm.broker.share_state.initializer import Initialized
from klamm.broker.share_state.offset import SharePartitionKey
from klamm.broker.share_state.questions import Delete
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.internal_topics import CONSUMER_OFFSETS
from klamm.protocol.messages.shares.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from klamm.protocol.messages.shares.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from klamm.protocol.uuid import ZERO_UUID, Uuid

MAX_PARTITIONS: Final = 10_000
"""Partitions of one alteration. Kafka has no such limit. A request with more gets POLICY_VIOLATION."""


class GroupFlow:
    """Operations on the coordinators of one group and its share partitions that follow each other, for one part of an
    answer."""

    def __init__(self, brokers: SimulatedBrokers, context: RequestContext, group_id: str, part: Part) -> None:
        self.brokers = brokers
        self.group_id = group_id
        self.part = part
        broker_id = context.requester.asked_broker_id
        self.broker_id = -1 if broker_id is None else broker_id

    def ask_group(
        self,
        image: MetadataImage,
        operation: Callable[[GroupsWithShare, Step], Outbox],
        replied: Callable[[Any], None],
        now_ms: int,
    ) -> None:
        """Run an operation on the group's shard. `replied` gets its response; without a shard the part is refused."""
        step = Step(replied, self.part.refuse, self.part.wait_on)
        where = CONSUMER_OFFSETS, self.group_id, self.broker_id
        self.brokers.coordinators.submit(image, where, step, lambda groups: operation(groups, step), now_ms)

    def delete_states(
        self,
        partitions: Iterable[tuple[Uuid, int]],
        finished: Callable[[MetadataImage, dict[Uuid, ApiError], int], None],
    ) -> None:
        """Delete the state of share partitions. `finished` gets the errors by topic."""
        keys = [SharePartitionKey(self.group_id, topic_id, partition) for topic_id, partition in partitions]

        def collected(image: MetadataImage, answers: dict[SharePartitionKey, object], now_ms: int) -> None:
            errors = {key.topic_id: answer for key, answer in answers.items() if isinstance(answer, ApiError)}
            finished(image, errors, now_ms)

        self.brokers.shares.persister.ask_all(dict.fromkeys(keys, Delete()), collected, self.part.wait_on)


def handle_alter_share_group_offsets(
    brokers: SimulatedBrokers, image: MetadataImage, request: AlterShareGroupOffsetsRequest, context: RequestContext
) -> Outcome:
    """An empty group begins anew at these offsets."""
    group_id = request.group_id
    refusal = _refusal(image, context, group_id, AclOperation.READ)
    if refusal is None and sum(len(topic.partitions) for topic in request.topics) > MAX_PARTITIONS:
        refusal = ApiError(ErrorCode.POLICY_VIOLATION, f"More than {MAX_PARTITIONS} partitions.")
    if refusal is not None:
        return Outcome(_alter_refused(refusal))
    topics = _by_name(request.topics)
    denied = context.denied(AclOperation.READ, AclResourceType.TOPIC, list(topics))
    not_altered = [
        _not_altered(topic, image, is_denied=name in denied)
        for name, topic in topics.items()
        if name in denied or name not in image.topics_by_name
    ]
    altered = [topic for name, topic in topics.items() if name not in denied and name in image.topics_by_name]

    def finish(found: Message) -> Message:
        assert isinstance(found, AlterShareGroupOffsetsResponse)
        if not found.error_code:
            found.responses = [*not_altered, *found.responses]
        return found

    answer = brokers.coordinators.new_answer(1, lambda results: finish(results[0]))
    flow = GroupFlow(brokers, context, group_id, Part(answer, 0, lambda code: _alter_refused(ApiError(code))))

    def replied(alteration: Alteration | ApiError) -> None:
        if isinstance(alteration, ApiError):
            flow.part.resolve(_alter_refused(alteration))
            return
        brokers.shares.initializer.carry_out(
            alteration.initialization,
            flow.broker_id,
            lambda done: flow.part.resolve(_altered(alteration, done)),
            flow.part.wait_on,
        )

    def begin(image: MetadataImage, now_ms: int) -> None:
        flow.ask_group(
            image,
            lambda groups, step: groups.alter_share_offsets(group_id, altered, step, now_ms),
            replied,
            now_ms,
        )

    return Outcome(answer, records_of_state_topic(image, context), [Begin(begin)])


def _by_name(topics: Iterable[AlterShareGroupOffsetsRequestTopic]) -> dict[str, AlterShareGroupOffsetsRequestTopic]:
    """Each topic once, with all of its partitions."""
    by_name: dict[str, AlterShareGroupOffsetsRequestTopic] = {}
    for topic in topics:
        known = by_name.get(topic.topic_name)
        partitions = [*(known.partitions if known is not None else ()), *topic.partitions]
        by_name[topic.topic_name] = AlterShareGroupOffsetsRequestTopic(
            topic_name=topic.topic_name, partitions=partitions
        )
    return by_name


def _refusal(image: MetadataImage, context: RequestContext, group_id: str, operation: AclOperation) -> ApiError | None:
    if not share_groups_are_enabled(image):
        return ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if not context.authorize(operation, AclResourceType.GROUP, group_id):
        return ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return None if group_id else ApiError(ErrorCode.INVALID_GROUP_ID)


def _alter_refused(error: ApiError) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=text_of(error))


def _not_altered(
    topic: AlterShareGroupOffsetsRequestTopic, image: MetadataImage, *, is_denied: bool
) -> AlterShareGroupOffsetsResponseTopic:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if is_denied else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    known = image.topics_by_name.get(topic.topic_name)
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=ZERO_UUID if known is None else known.topic_id,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(
                partition_index=one.partition_index,
                error_code=code,
                error_message=text_of(code) if is_denied else UNKNOWN_PARTITION,
            )
            for one in topic.partitions
        ],
    )


def _altered(alteration: Alteration, done: Initialized) -> AlterShareGroupOffsetsResponse:
    for topic in alteration.topics:
        for partition in topic.partitions:
            error = done.failed.get((topic.topic_id, partition.partition_index))
            if error is not None and not partition.error_code:
                partition.error_code, partition.error_message = error.code, text_of(error)
    return AlterShareGroupOffsetsResponse(responses=alteration.topics)


def handle_delete_share_group_offsets(
    brokers: SimulatedBrokers, image: MetadataImage, request: DeleteShareGroupOffsetsRequest, context: RequestContext
) -> Outcome:
    """The offsets of an empty group in these topics are forgotten."""
    group_id = request.group_id
    refusal = _refusal(image, context, group_id, AclOperation.DELETE)
    if refusal is not None:
        return Outcome(_delete_refused(refusal))
    names = list(dict.fromkeys(topic.topic_name for topic in request.topics))
    denied = context.denied(AclOperation.READ, AclResourceType.TOPIC, names)
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    refused = [
        DeleteShareGroupOffsetsResponseTopic(topic_name=name, error_code=code, error_message=text_of(code))
        for name in names
        if name in denied
    ]

    def finish(found: Message) -> Message:
        assert isinstance(found, DeleteShareGroupOffsetsResponse)
        if not found.error_code:
            found.responses = [*refused, *found.responses]
        return found

    answer = brokers.coordinators.new_answer(1, lambda results: finish(results[0]))
    flow = GroupFlow(brokers, context, group_id, Part(answer, 0, lambda code: _delete_refused(ApiError(code))))
    wanted = [name for name in names if name not in denied]

    def begin(image: MetadataImage, now_ms: int) -> None:
        flow.ask_group(
            image,
            lambda groups, step: groups.delete_share_offsets(group_id, wanted, step, now_ms),
            lambda decided: _delete_states(flow, image, decided),
            now_ms,
        )

    return Outcome(answer, records_of_state_topic(image, context), [Begin(begin)])


def _delete_refused(error: ApiError) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=text_of(error))


def _delete_states(flow: GroupFlow, image: MetadataImage, decided: StateDeletion | ApiError) -> None:
    if isinstance(decided, ApiError):
        flow.part.resolve(_delete_refused(decided))
        return
    if not decided.partitions:
        flow.part.resolve(DeleteShareGroupOffsetsResponse(responses=decided.refused))
        return

    def name_of(image: MetadataImage, topic_id: Uuid) -> str:
        topic = image.topics_by_id.get(topic_id)
        return topic.name if topic is not None else ""

    def deleted(image: MetadataImage, errors: dict[Uuid, ApiError], now_ms: int) -> None:
        failed = [
            DeleteShareGroupOffsetsResponseTopic(
                topic_id=topic_id,
                topic_name=name_of(image, topic_id),
                error_code=error.code,
                error_message=text_of(error.code),
            )
            for topic_id, error in errors.items()
        ]
        gone = [topic_id for topic_id in decided.partitions if topic_id not in errors]
        shown = [
            DeleteShareGroupOffsetsResponseTopic(topic_id=topic_id, topic_name=name_of(image, topic_id))
            for topic_id in gone
        ]
        response = DeleteShareGroupOffsetsResponse(responses=[*shown, *decided.refused, *failed])

        def complete(groups: GroupsWithShare, step: Step) -> Outbox:
            out = groups.share.deleted(flow.group_id, gone)
            out.reply(step, response)
            return out

        flow.ask_group(image, complete, flow.part.resolve, now_ms)

    places = [(topic_id, index) for topic_id, indexes in decided.partitions.items() for index in indexes]
    if not places:
        deleted(image, {}, flow.brokers.now_ms())
        return
    flow.delete_states(places, deleted)
