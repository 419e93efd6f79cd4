"""AlterTopics (17901), KIP-179: changes partition counts, replication factors or replicas of existing topics.

An API that only Klamm has: docs/alter-topics.md. One result per topic in request order; the topics of one request are
decided in order. A topic's codes, in the order of the checks: CLUSTER_AUTHORIZATION_FAILED, INVALID_REQUEST for a name
given twice, REQUEST_TIMED_OUT, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR,
UNKNOWN_MEMBER_ID, INVALID_REQUEST, INVALID_REPLICA_ASSIGNMENT, REASSIGNMENT_IN_PROGRESS, POLICY_VIOLATION for more than
one request may change; then, if there is not enough room, INVALID_REPLICATION_FACTOR or POLICY_VIOLATION.
"""

from collections import Counter
from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from klamm.assignment.wording import counted
from klamm.controller.authorizer import AclOperation
from klamm.controller.context import RequestContext
from klamm.controller.log_records import Record
from klamm.controller.metadata.columns import PADDING
from klamm.controller.metadata.image import TOPIC_RESOURCE, MetadataImage, Topic
from klamm.controller.outcome import Outcome
from klamm.controller.topic_policy import RequestedTopic
from klamm.controller.transitions.broker_kinds import refuse_move_to_other_kind
from klamm.controller.transitions.limits import validate_limits
from klamm.controller.transitions.manual_assignment import validate_manual_replicas
from klamm.controller.transitions.new_topic_policy import verdict_on
from klamm.controller.transitions.placement import max_partitions_per_request
from klamm.controller.transitions.resized_topic import (
    Alteration,
    Resizing,
    TopicRows,
    resize_topic,
    take_replicas,
    topic_rows,
)
from klamm.controller.transitions.topic_alteration import added_replicas, plan_alteration
from klamm.controller.transitions.topic_names import quoted
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.topics.alter_topics import (
    AlterTopicRequest,
    AlterTopicsRequest,
    AlterTopicsResponse,
    PartitionAssignment,
    TopicError,
)

NO_CHANGE: Final = -1


def handle_alter_topics(image: MetadataImage, request: AlterTopicsRequest, context: RequestContext) -> Outcome:
    """One result per name, in request order; without an error the alteration has begun."""
    denied = context.refuse_cluster(AclOperation.CLUSTER_ACTION)
    times = Counter(wanted.topic for wanted in request.alter_topic_requests)
    results: dict[str, TopicError] = {}
    records: list[Record] = []
    most = max_partitions_per_request(context)
    for wanted in request.alter_topic_requests:
        known = image.topics_by_name.get(wanted.topic)
        refusal = denied or _refuse_name(wanted.topic, times[wanted.topic], request.timeout, known)
        results[wanted.topic] = result = TopicError(topic=wanted.topic)
        if refusal is None and known is not None:
            rows = topic_rows(image, known)
            alteration = _decide(image, context, known, rows, wanted, most)
            if isinstance(alteration, ApiError):
                refusal = alteration
            elif changes := len(alteration.partition_indexes) + len(alteration.new):
                records += plan_alteration(image, context, known, rows, alteration)
                most -= changes
        if refusal:
            result.error_code, result.error_message = refusal.code, refusal.message
    quota = context.mutations
    response = AlterTopicsResponse(topic_errors=list(results.values()), throttle_time_ms=quota.throttle_time_ms)
    return Outcome(response, () if request.validate_only else records, quota.effects)


def _refuse_name(topic_name: str, times: int, timeout_ms: int, known: Topic | None) -> ApiError | None:
    if times > 1:
        return ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    if timeout_ms <= 0:
        return ApiError(ErrorCode.REQUEST_TIMED_OUT)
    if known is None:
        return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"There is no topic {quoted(topic_name)}.")
    return None


def _decide(
    image: MetadataImage, context: RequestContext, known: Topic, rows: TopicRows, wanted: AlterTopicRequest, most: int
) -> Alteration | ApiError:
    """The alteration of one topic, with at most `most` partitions that are new or change; or why it is refused."""
    moves = image.partitions.is_reassigning(known.row)
    refusal = _refuse_counts(known, rows, wanted) or _refuse_assignment(image, rows, wanted, moves=moves)
    if refusal:
        return refusal
    if moves:
        return ApiError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS, f"A reassignment of topic '{known.name}' is in progress (KIP-179)."
        )
    by_hand = bool(wanted.partition_assignment)
    placed = (
        _by_hand(image, context, known, rows, wanted.partition_assignment, most)
        if by_hand
        else _by_counts(image, context, known, rows, wanted, most)
    )
    if isinstance(placed, ApiError) or not (len(placed.partition_indexes) or len(placed.new)):
        return placed
    refusal = _refuse_by_policy(image, context, known, rows, wanted, placed)
    return refusal or context.mutations.take(len(placed.new), strict=True) or placed


def _refuse_counts(known: Topic, rows: TopicRows, wanted: AlterTopicRequest) -> ApiError | None:
    present = len(rows.replicas)
    if wanted.num_partitions != NO_CHANGE and wanted.num_partitions < present:
        return ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {known.name} currently has {present} partition(s); {wanted.num_partitions} would be fewer.",
        )
    if wanted.replication_factor != NO_CHANGE and wanted.replication_factor < 1:
        return ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to leave it as it is.",
        )
    return None


def _refuse_assignment(
    image: MetadataImage, rows: TopicRows, wanted: AlterTopicRequest, *, moves: bool
) -> ApiError | None:
    """`moves`: partitions of the topic are being reassigned. They have replicas of two assignments, so their number is
    compared with nothing."""
    if not wanted.partition_assignment:
        return None
    for assignment in wanted.partition_assignment:
        for broker_id in assignment.brokers:
            if broker_id not in image.brokers:
                return ApiError(
                    ErrorCode.UNKNOWN_MEMBER_ID,
                    f"The assignment of partition {assignment.partition_id} includes broker {broker_id}, but no such "
                    "broker is registered.",
                )
    counts = rows.replica_counts
    if wanted.num_partitions not in (NO_CHANGE, len(counts)) or (
        not moves and wanted.replication_factor != NO_CHANGE and (counts != wanted.replication_factor).any()
    ):
        return ApiError(
            ErrorCode.INVALID_REQUEST,
            "A partition assignment was specified together with another number of partitions or replication factor.",
        )
    return _refuse_lists(image, wanted, rows, moves=moves)


def _refuse_lists(image: MetadataImage, topic: AlterTopicRequest, rows: TopicRows, *, moves: bool) -> ApiError | None:
    assignments, replica_counts = topic.partition_assignment or (), rows.replica_counts.tolist()
    present, named = len(replica_counts), set[int]()
    for assignment in assignments:
        index = assignment.partition_id
        if not 0 <= index < present:
            return ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"There is no partition {index}; the topic has {present}."
            )
        if index in named:
            return ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        named.add(index)
    # The replication factor can change only if the assignments name all partitions, and all to the same number of
    # brokers.
    replication_factor = None
    if not moves:
        replication_factor = len(assignments[0].brokers) if len(named) == present else replica_counts[0]
    refusals = (
        validate_manual_replicas(image, one.brokers, replication_factor)
        or refuse_move_to_other_kind(image, topic.topic, rows.replicas[0].tolist(), one.brokers)
        for one in assignments
    )
    return next(filter(None, refusals), None)


def _by_hand(
    image: MetadataImage,
    context: RequestContext,
    known: Topic,
    rows: TopicRows,
    assignments: Sequence[PartitionAssignment],
    most: int,
) -> Alteration | ApiError:
    replicas = np.array([assignment.brokers for assignment in assignments], dtype=np.int32)
    indexes = np.array([assignment.partition_id for assignment in assignments])
    present, factor = rows.replicas[indexes], replicas.shape[1]
    changed = np.ones(len(indexes), dtype=np.bool_)
    if factor <= present.shape[1]:
        changed = (present[:, :factor] != replicas).any(axis=1) | (present[:, factor:] != PADDING).any(axis=1)
    alteration = Alteration(indexes[changed], replicas[changed], replicas[:0])
    return (
        _refuse_many(int(changed.sum()), most, context)
        or validate_limits(image, context, known.name, added_replicas(rows, alteration), 0)
        or take_replicas(context, alteration.replicas)
        or alteration
    )


def _by_counts(
    image: MetadataImage,
    context: RequestContext,
    known: Topic,
    rows: TopicRows,
    wanted: AlterTopicRequest,
    most: int,
) -> Alteration | ApiError:
    counts = rows.replica_counts
    present_too = wanted.replication_factor != NO_CHANGE
    adding = 0 if wanted.num_partitions == NO_CHANGE else wanted.num_partitions - len(counts)
    factor = wanted.replication_factor if present_too else int(counts[0])
    changing = adding + (int(np.count_nonzero(counts != factor)) if present_too else 0)
    return _refuse_many(changing, most, context) or resize_topic(
        image, context, known.name, rows, Resizing(adding, factor, present_too)
    )


def _refuse_many(changing: int, most: int, context: RequestContext) -> ApiError | None:
    if changing <= most:
        return None
    return ApiError(
        ErrorCode.POLICY_VIOLATION,
        f"{counted(changing, 'partition')} to make or change would exceed the {most} that this request still may, of "
        f"{max_partitions_per_request(context)} in all.",
    )


def _refuse_by_policy(
    image: MetadataImage,
    context: RequestContext,
    known: Topic,
    rows: TopicRows,
    wanted: AlterTopicRequest,
    alteration: Alteration,
) -> ApiError | None:
    """The create-topic policy's reason to refuse the topic as it would be after the alteration; None if it accepts."""
    if context.ledger.verdicts is None:
        return None
    configs = MappingProxyType(dict(image.config(TOPIC_RESOURCE, known.name)))
    if not wanted.partition_assignment:
        factor = wanted.replication_factor
        topic = RequestedTopic(
            topic_name=known.name,
            num_partitions=len(rows.replicas) + len(alteration.new),
            replication_factor=int(rows.replica_counts[0]) if factor == NO_CHANGE else factor,
            configs=configs,
        )
        return verdict_on(context, topic)
    after = [tuple(replica for replica in row if replica != PADDING) for row in rows.replicas.tolist()]
    for index, replicas in zip(alteration.partition_indexes.tolist(), alteration.replicas.tolist(), strict=True):
        after[index] = tuple(replicas)
    assignments = MappingProxyType(dict(enumerate(after)))
    return verdict_on(context, RequestedTopic(topic_name=known.name, replica_assignments=assignments, configs=configs))
