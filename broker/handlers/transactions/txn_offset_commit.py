"""TxnOffsetCommit (28): a producer commits offsets of a group in its transaction (KIP-98, KIP-447).

The offsets are pending until the marker of the transaction is written to the group's partition.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.coordinator.answer import Part
from klamm.broker.coordinator.outbox import Outbox
from klamm.broker.groups.all_groups import AllGroups
from klamm.broker.groups.offset_protocol import Commit, Committed, Committer
from klamm.broker.handlers.transactions.verification import Support, verify
from klamm.broker.transactions.transactions import Producer
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.effects import SoftState
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.internal_topics import CONSUMER_OFFSETS
from klamm.protocol.messages.offsets.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from klamm.protocol.uuid import ZERO_UUID

FIRST_VERSION_WITH_ABORTABLE = 4
FIRST_VERSION_THAT_ADDS = 5


def handle_txn_offset_commit(
    brokers: SimulatedBrokers, image: MetadataImage, request: TxnOffsetCommitRequest, context: RequestContext
) -> Outcome:
    """For each partition whether its offset is pending now. Partitions that do not exist, or that the requester may not
    read, do not keep the others from being committed."""
    response = TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=one.partition_index) for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    if not context.authorize(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return Outcome(_with_code(response, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    if not context.authorize(AclOperation.READ, AclResourceType.GROUP, request.group_id):
        return Outcome(_with_code(response, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    places: dict[tuple[str, int], list[TxnOffsetCommitResponsePartition]] = {}
    commits: list[Commit] = []
    for topic, answer in zip(request.topics, response.topics, strict=True):
        _check_topic(image, context, topic, answer.partitions, commits, places)
    if not commits:
        return Outcome(response)

    def finish(results: list[Committed | ErrorCode]) -> TxnOffsetCommitResponse:
        outcome = results[0]
        for place, partitions in places.items():
            for partition in partitions:
                code = outcome if isinstance(outcome, ErrorCode) else outcome.codes[place]
                partition.error_code = _for_client(code)
        return response

    answer_ = brokers.coordinators.new_answer(1, finish)
    part = Part(answer_, 0, lambda code: code)
    submission = OffsetsSubmission(
        brokers,
        context.requester.asked_broker_id,
        Producer(request.transactional_id, request.producer_id, request.producer_epoch),
        Committer(request.group_id, request.member_id, request.group_instance_id, request.generation_id),
        commits,
        _support(context.api_version),
        part,
    )
    return Outcome(answer_, effects=[submission])


@dataclass(frozen=True, slots=True)
class OffsetsSubmission:
    """An effect: verifies the transaction, then submits the offsets to the coordinator of the group."""

    brokers: SimulatedBrokers
    broker_id: int | None
    producer: Producer
    committer: Committer
    commits: Sequence[Commit]
    support: Support
    part: Part

    def apply(self, soft: SoftState, now_ms: int) -> None:
        image, producer, brokers = soft.image, self.producer, self.brokers
        where = CONSUMER_OFFSETS, self.committer.group_id, self.broker_id
        shard = brokers.coordinators.find(image, *where, now_ms)
        if isinstance(shard, ErrorCode):
            self.part.refuse(shard)
            return
        if not self.committer.group_id:
            self.part.refuse(ErrorCode.INVALID_GROUP_ID)
            return

        def commit(groups: AllGroups) -> Outbox:
            return groups.offset_protocol.commit_in_transaction(
                self.committer,
                self.commits,
                self.part,
                now_ms,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
            )

        def verified(codes: Sequence[ErrorCode]) -> None:
            if codes[0]:
                self.part.refuse(codes[0])
            else:
                brokers.coordinators.submit(image, where, self.part, commit, now_ms)

        log = brokers.data.find(*shard.key)
        is_open = log is not None and log.transactions.is_open(producer.producer_id)
        if log is not None and is_open and log.producers.epoch_of(producer.producer_id) == producer.producer_epoch:
            verified([ErrorCode.NONE])
            return
        verify(
            brokers,
            image,
            producer,
            [(CONSUMER_OFFSETS, shard.index)],
            self.support,
            then=verified,
            wait_on=self.part.wait_on,
            now_ms=now_ms,
        )


def _support(api_version: int) -> Support:
    if api_version >= FIRST_VERSION_THAT_ADDS:
        return Support.ADDS
    return Support.ABORTABLE if api_version >= FIRST_VERSION_WITH_ABORTABLE else Support.DEFAULT


def _for_client(code: ErrorCode) -> ErrorCode:
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if code is ErrorCode.NOT_ENOUGH_REPLICAS else code


def _with_code(response: TxnOffsetCommitResponse, code: ErrorCode) -> TxnOffsetCommitResponse:
    for topic in response.topics:
        for partition in topic.partitions:
            partition.error_code = code
    return response


def _check_topic(
    image: MetadataImage,
    context: RequestContext,
    asked: TxnOffsetCommitRequestTopic,
    answers: Sequence[TxnOffsetCommitResponsePartition],
    commits: list[Commit],
    places: dict[tuple[str, int], list[TxnOffsetCommitResponsePartition]],
) -> None:
    """Add the commits of one topic, with their places in the response; or set the error codes."""
    may_read = context.authorize(AclOperation.READ, AclResourceType.TOPIC, asked.name)
    topic = image.topics_by_name.get(asked.name)
    count = 0 if topic is None else image.partition_count(topic)
    for one, answer in zip(asked.partitions, answers, strict=True):
        if not may_read:
            answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif not 0 <= one.partition_index < count:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            places.setdefault((asked.name, one.partition_index), []).append(answer)
            commits.append(
                Commit(
                    asked.name,
                    ZERO_UUID,
                    one.partition_index,
                    one.committed_offset,
                    one.committed_leader_epoch,
                    one.committed_metadata or "",
                )
            )
