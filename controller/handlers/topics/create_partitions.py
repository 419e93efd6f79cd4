"""CreatePartitions (37), KIP-195: more partitions for topics that exist.

One result per topic in request order; the topics of one request are decided in order. Where KIP-195 and Apache Kafka
4.3 differ (unknown topic, number of assignments, reassignment in progress) the profile decides: docs/profiles.md.
"""

from collections import Counter

import numpy as np

from klamm.assignment.wording import counted
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.log_records import Record
from klamm.controller.metadata.columns import Ints
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.controller.settings import Settings
from klamm.controller.transitions.broker_kinds import refuse_other_kind
from klamm.controller.transitions.first_partition import replication_factor_of
from klamm.controller.transitions.limits import count_as_taken, validate_limits
from klamm.controller.transitions.manual_assignment import validate_manual_replicas, validate_some_live
from klamm.controller.transitions.new_partitions import new_partition_records
from klamm.controller.transitions.placement import Placer, PresentPartitions, Wanted, max_partitions_per_request
from klamm.controller.transitions.topic_names import quoted
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.topics.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

FIRST_VERSION_WITH_QUOTA = 3
"""From this version on, partitions beyond the quota of mutations are refused (KIP-599)."""


def handle_create_partitions(
    image: MetadataImage, request: CreatePartitionsRequest, context: RequestContext
) -> Outcome:
    """One result per name, in request order; one per entry if the timeout leaves no time."""
    times = Counter(topic.name for topic in request.topics)
    denied = context.denied(AclOperation.ALTER, AclResourceType.TOPIC, times)
    to_decide = [name for name, count in times.items() if count == 1 and name not in denied]
    if to_decide and request.timeout_ms <= 0:
        return Outcome(
            CreatePartitionsResponse(
                results=[
                    CreatePartitionsTopicResult(name=topic.name, error_code=ErrorCode.REQUEST_TIMED_OUT)
                    for topic in request.topics
                ]
            )
        )
    results: dict[str, CreatePartitionsTopicResult] = {}
    records: list[Record] = []
    left = max_partitions_per_request(context)
    placer = Placer(image, context)
    for topic in request.topics:
        if topic.name in results:
            continue
        if times[topic.name] > 1:
            planned: Ints | ApiError = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        elif topic.name in denied:
            planned = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        else:
            planned = _new_replicas(image, topic, context, placer, left)
        if isinstance(planned, ApiError):
            results[topic.name] = CreatePartitionsTopicResult(
                name=topic.name, error_code=planned.code, error_message=planned.message
            )
            continue
        known = image.topics_by_name[topic.name]
        results[topic.name] = CreatePartitionsTopicResult(name=topic.name)
        records += new_partition_records(image.brokers, known.topic_id, image.partition_count(known), planned)
        count_as_taken(context, topic.name, planned)
        left -= len(planned)
    quota = context.mutations
    response = CreatePartitionsResponse(results=list(results.values()), throttle_time_ms=quota.throttle_time_ms)
    return Outcome(response, () if request.validate_only else records, quota.effects)


def _new_replicas(
    image: MetadataImage, topic: CreatePartitionsTopic, context: RequestContext, placer: Placer, most: int
) -> Ints | ApiError:
    """Replicas of the partitions to add, or why they cannot be added."""
    known = image.topics_by_name.get(topic.name)
    kip = context.settings.profile == "kip"
    if known is None:
        if kip:
            return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"There is no topic {quoted(topic.name)}.")
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    present = image.partition_count(known)
    adding = topic.count - present
    if adding <= 0:
        return _no_increase(topic, present)
    if kip and image.partitions.is_reassigning(known.row):
        return ApiError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS, f"A reassignment of topic '{topic.name}' is in progress (KIP-195)."
        )
    if topic.assignments is not None and len(topic.assignments) != adding:
        return ApiError(
            ErrorCode.INVALID_REQUEST if kip else ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {adding} additional partition(s), but only {len(topic.assignments)} assignment(s) "
            "were specified.",
        )
    if adding > most:
        return ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"{counted(adding, 'new partition')} would exceed the {most} that this request may make.",
        )
    refusal = context.mutations.take(adding, strict=context.api_version >= FIRST_VERSION_WITH_QUOTA)
    if refusal:
        return refusal
    replication_factor = replication_factor_of(image, known, like_kafka=not kip)
    if topic.assignments is None:
        present_partitions = PresentPartitions(present, image.partitions.read(known.row, 0).replicas[0])
        return placer.place(Wanted(topic.name, adding, replication_factor, present=present_partitions))
    replicas = _manual_replicas(image, context.settings, topic, present, replication_factor)
    if isinstance(replicas, ApiError):
        return replicas
    return validate_limits(image, context, topic.name, replicas, len(replicas)) or replicas


def _no_increase(topic: CreatePartitionsTopic, present: int) -> ApiError:
    if topic.count == present:
        return ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    return ApiError(
        ErrorCode.INVALID_PARTITIONS,
        f"The topic {topic.name} currently has {present} partition(s); {topic.count} would not be an increase.",
    )


def _manual_replicas(
    image: MetadataImage, settings: Settings, topic: CreatePartitionsTopic, present: int, replication_factor: int
) -> Ints | ApiError:
    for position, assignment in enumerate(topic.assignments or ()):
        refusal = (
            validate_manual_replicas(image, assignment.broker_ids, replication_factor)
            or refuse_other_kind(image, settings, topic.name, assignment.broker_ids)
            or validate_some_live(image, present + position, assignment.broker_ids)
        )
        if refusal:
            return refusal
    return np.array([assignment.broker_ids for assignment in topic.assignments or ()], dtype=np.int32)
