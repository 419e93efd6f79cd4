"""OffsetCommit (8): a group, or a consumer without group membership, commits offsets."""

from collections.abc import Sequence

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.groups.offset_protocol import Commit, Committed, Committer
from klamm.broker.handlers.groups.first_offsets import commit_first_offsets
from klamm.broker.handlers.groups.submission import submit_one
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.offsets.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from klamm.protocol.uuid import ZERO_UUID

VERSION_OF_ZOOKEEPER = 0
VERSION_WITH_TIMESTAMPS = 1
FIRST_VERSION_BY_ID = 10


def handle_offset_commit(
    brokers: SimulatedBrokers, image: MetadataImage, request: OffsetCommitRequest, context: RequestContext
) -> Outcome:
    """For each partition whether its offset is committed. Partitions that do not exist, or that the requester may not
    read, do not keep the others from being committed."""
    if context.api_version == VERSION_OF_ZOOKEEPER:
        return commit_first_offsets(brokers, image, request, context)
    asked = [topic for topic in request.topics if topic.partitions]
    response = OffsetCommitResponse(topics=[_answer_of(topic) for topic in asked])
    if not context.authorize(AclOperation.READ, AclResourceType.GROUP, request.group_id):
        return Outcome(_with_code(response, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    answers: dict[tuple[str, int], list[OffsetCommitResponsePartition]] = {}
    commits: list[Commit] = []
    for topic, answer in zip(asked, response.topics, strict=True):
        _check_topic(image, context, topic, answer.partitions, commits, answers)
    if not commits:
        return Outcome(response)

    def finish(outcome: Committed | ErrorCode) -> OffsetCommitResponse:
        for place, partitions in answers.items():
            for partition in partitions:
                partition.error_code = outcome if isinstance(outcome, ErrorCode) else outcome.codes[place]
        return response

    committer = Committer(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id_or_member_epoch
    )
    return submit_one(
        brokers,
        context,
        request.group_id,
        lambda groups, waiter, now_ms: groups.offset_protocol.commit(
            committer,
            commits,
            waiter,
            now_ms,
            api_version=context.api_version,
            retention_ms=request.retention_time_ms,
        ),
        error=lambda code: code,
        finish=finish,
    )


def _answer_of(topic: OffsetCommitRequestTopic) -> OffsetCommitResponseTopic:
    partitions = [OffsetCommitResponsePartition(partition_index=one.partition_index) for one in topic.partitions]
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _with_code(response: OffsetCommitResponse, code: ErrorCode) -> OffsetCommitResponse:
    for topic in response.topics:
        for partition in topic.partitions:
            partition.error_code = code
    return response


def _check_topic(
    image: MetadataImage,
    context: RequestContext,
    asked: OffsetCommitRequestTopic,
    answers: Sequence[OffsetCommitResponsePartition],
    commits: list[Commit],
    places: dict[tuple[str, int], list[OffsetCommitResponsePartition]],
) -> None:
    """Add the commits of one topic, with their places in the response; or set the error codes."""
    by_id = context.api_version >= FIRST_VERSION_BY_ID
    topic = image.topics_by_id.get(asked.topic_id) if by_id else image.topics_by_name.get(asked.name)
    code, count = ErrorCode.NONE, 0
    if topic is None and by_id:
        code = ErrorCode.UNKNOWN_TOPIC_ID
    elif not context.authorize(AclOperation.READ, AclResourceType.TOPIC, asked.name if topic is None else topic.name):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif topic is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        count = image.partition_count(topic)
    for one, answer in zip(asked.partitions, answers, strict=True):
        if topic is None or code:
            answer.error_code = code
        elif not 0 <= one.partition_index < count:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            places.setdefault((topic.name, one.partition_index), []).append(answer)
            commits.append(
                Commit(
                    topic.name,
                    topic.topic_id if by_id else ZERO_UUID,
                    one.partition_index,
                    one.committed_offset,
                    one.committed_leader_epoch,
                    one.committed_metadata or "",
                    _timestamp_ms(one, context),
                )
            )


def _timestamp_ms(one: OffsetCommitRequestPartition, context: RequestContext) -> int | None:
    """When the client says that it commits; None: now. Only version 1 has that time."""
    if context.api_version != VERSION_WITH_TIMESTAMPS or one.commit_timestamp < 0:
        return None
    return one.commit_timestamp
