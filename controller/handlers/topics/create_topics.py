"""CreateTopics (19): KIP-464 defaults, manual and automatic placement, configs, validate_only.

The topics of one request are decided in order; the limits count the partitions of earlier ones. A refused topic changes
nothing. Order of checks and texts: Apache Kafka 4.3 as recorded; differences between profiles: docs/profiles.md.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.configs import (
    broker_configs,
    default_replication_factor,
    num_partitions,
    topic_config_list,
    validate_topic_configs,
)
from klamm.controller.context import RequestContext
from klamm.controller.log_records import Record, count_records
from klamm.controller.metadata.columns import Ints
from klamm.controller.metadata.image import TOPIC_RESOURCE, MetadataImage
from klamm.controller.outcome import Outcome
from klamm.controller.served_apis import release_of
from klamm.controller.settings import Settings
from klamm.controller.steps import COLUMNS_PER_ITEM, Steps
from klamm.controller.transitions.broker_kinds import refuse_other_kind
from klamm.controller.transitions.limits import count_as_taken, validate_limits
from klamm.controller.transitions.manual_assignment import validate_manual_replicas, validate_some_live
from klamm.controller.transitions.new_partitions import new_partition_records
from klamm.controller.transitions.new_topic_policy import refusal_by_policy
from klamm.controller.transitions.placement import Placer, Wanted, max_partitions_per_request
from klamm.controller.transitions.topic_names import validate_no_collision, validate_topic_name
from klamm.controller.transitions.topics_per_request import MAX_TOPICS_PER_REQUEST, too_many_topics
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.internal_topics import METADATA_TOPIC
from klamm.protocol.messages.topics.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.topics import TopicRecord

DEFAULT = -1
# KIP-464: a request of version 4 or later may leave both counts to the broker.
DEFAULTS_SINCE_VERSION = 4
FIRST_VERSION_WITH_CONFIGS = 5
FIRST_VERSION_WITH_QUOTA = 6
"""From this version on, topics beyond the quota of mutations are refused (KIP-599)."""
MAX_RECORDS_PER_REQUEST_KAFKA = 10_000


def handle_create_topics(image: MetadataImage, request: CreateTopicsRequest, context: RequestContext) -> Steps:
    """One result per name; the records of all topics that were accepted are one batch."""
    denied = denied_creations(context, (topic.name for topic in request.topics)) - {METADATA_TOPIC}
    times = Counter(topic.name for topic in request.topics)
    to_decide = [
        topic
        for topic in request.topics
        if times[topic.name] == 1 and topic.name not in denied and topic.name != METADATA_TOPIC
    ]
    refusal = _validate_request(to_decide, request.timeout_ms, context) if to_decide else None
    if refusal:
        return Outcome(CreateTopicsResponse(topics=[_refused(topic.name, refusal) for topic in request.topics]))
    planner = TopicPlanner(image, context)
    results: list[CreatableTopicResult] = []
    records: list[Record] = []
    answered: set[str] = set()
    spent = 0
    for topic in request.topics:
        if spent >= context.at_once:
            yield
            spent = 0
        spent += 1
        if topic.name in answered:
            continue
        answered.add(topic.name)
        if times[topic.name] > 1:
            results.append(_refused(topic.name, ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")))
            continue
        if topic.name in denied:
            results.append(
                _refused(topic.name, ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."))
            )
            continue
        result, made = planner.plan(topic)
        results.append(result)
        records += made
        spent += count_records(made) // COLUMNS_PER_ITEM
    quota = context.mutations
    response = CreateTopicsResponse(topics=results, throttle_time_ms=quota.throttle_time_ms)
    if context.settings.profile == "kafka" and count_records(records) > MAX_RECORDS_PER_REQUEST_KAFKA:
        refusal = ApiError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
        response.topics = [_refused(topic.name, refusal) for topic in request.topics]
        return Outcome(response, effects=quota.effects)
    return Outcome(response, () if request.validate_only else records, quota.effects)


def denied_creations(context: RequestContext, topic_names: Iterable[str]) -> frozenset[str]:
    """The names that the requester may not create, because it has the right neither on the cluster nor on the topic."""
    if context.authorize_cluster(AclOperation.CREATE):
        return frozenset()
    return context.denied(AclOperation.CREATE, AclResourceType.TOPIC, topic_names)


def _validate_request(topics: Sequence[CreatableTopic], timeout_ms: int, context: RequestContext) -> ApiError | None:
    """The error that refuses every topic of the request: the timeout leaves no time, or there are too many
    topics or partitions."""
    if timeout_ms <= 0:
        return ApiError(ErrorCode.REQUEST_TIMED_OUT)
    if len(topics) > MAX_TOPICS_PER_REQUEST:
        return too_many_topics(len(topics))
    most = max_partitions_per_request(context)
    wanted = sum(
        len(topic.assignments)
        or (
            num_partitions(context.settings, context.requester.asked_broker_id)
            if topic.num_partitions == DEFAULT
            else topic.num_partitions
        )
        for topic in topics
        if topic.assignments or topic.num_partitions >= DEFAULT
    )
    if wanted <= most:
        return None
    if context.settings.profile == "kafka":
        return ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    return ApiError(
        ErrorCode.POLICY_VIOLATION, f"The request asks for {wanted} partitions; one request may make at most {most}."
    )


class TopicPlanner:
    """Plans the new topics of one request; each plan takes into account what the earlier topics take."""

    def __init__(self, image: MetadataImage, context: RequestContext) -> None:
        self._image = image
        self._context = context
        self._placer = Placer(image, context)
        broker_id, release = context.requester.asked_broker_id, release_of(context.served).name
        self._inherited = broker_configs(image.configs, context.settings, broker_id, release)

    def plan(self, topic: CreatableTopic) -> tuple[CreatableTopicResult, list[Record]]:
        """The answer for one topic and the records that make it; none if it is refused."""
        image, context = self._image, self._context
        refusal = _validate_name(image, topic.name) or _validate_configs(image, topic, context)
        if refusal:
            return _refused(topic.name, refusal), []
        replicas = (
            _manual_replicas(image, topic, context)
            if topic.assignments
            else _automatic_replicas(topic, context, self._placer)
        )
        if isinstance(replicas, ApiError):
            return _refused(topic.name, replicas), []
        configs = {config.name: config.value or "" for config in topic.configs}
        refusal = refusal_by_policy(context, topic.name, replicas, configs, by_hand=bool(topic.assignments))
        strict = context.api_version >= FIRST_VERSION_WITH_QUOTA
        refusal = refusal or context.mutations.take(len(replicas), strict=strict)
        if refusal:
            return _refused(topic.name, refusal), []
        count_as_taken(context, topic.name, replicas)
        topic_id = context.new_uuid()
        records: list[Record] = [TopicRecord(name=topic.name, topic_id=topic_id)]
        records += [
            ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
            for name, value in configs.items()
        ]
        records += new_partition_records(image.brokers, topic_id, 0, replicas)
        result = CreatableTopicResult(name=topic.name, topic_id=topic_id, error_message=None)
        if not context.authorize(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, topic.name):
            result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif context.api_version >= FIRST_VERSION_WITH_CONFIGS:
            result.num_partitions, result.replication_factor = replicas.shape
            result.configs = topic_config_list(self._inherited, configs)
        return result, records


def _validate_name(image: MetadataImage, topic_name: str) -> ApiError | None:
    if topic_name == METADATA_TOPIC:
        return ApiError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
    refusal = validate_topic_name(topic_name) or validate_no_collision(image, topic_name)
    if refusal:
        return refusal
    if topic_name in image.topics_by_name:
        return ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic_name}' already exists.")
    return None


def _validate_configs(image: MetadataImage, topic: CreatableTopic, context: RequestContext) -> ApiError | None:
    given = [(config.name, config.value) for config in topic.configs]
    if not given:
        return None
    broker_id, release = context.requester.asked_broker_id, release_of(context.served).name
    return validate_topic_configs(given, image.configs, context.settings, broker_id, release)


def _automatic_replicas(topic: CreatableTopic, context: RequestContext, placer: Placer) -> Ints | ApiError:
    settings = context.settings
    if context.api_version < DEFAULTS_SINCE_VERSION and settings.profile == "kip":
        if topic.num_partitions == DEFAULT:
            return ApiError(
                ErrorCode.INVALID_PARTITIONS,
                "Leaving the number of partitions to the broker needs version 4 (KIP-464).",
            )
        if topic.replication_factor == DEFAULT:
            return ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Leaving the replication factor to the broker needs version 4 (KIP-464).",
            )
    if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
        return ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < DEFAULT or topic.num_partitions == 0:
        return ApiError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    partitions = (
        num_partitions(settings, context.requester.asked_broker_id)
        if topic.num_partitions == DEFAULT
        else topic.num_partitions
    )
    replication_factor = (
        default_replication_factor(settings, context.requester.asked_broker_id)
        if topic.replication_factor == DEFAULT
        else topic.replication_factor
    )
    return placer.place(Wanted(topic.name, partitions, replication_factor, _own_min_insync_replicas(topic)))


def _own_min_insync_replicas(topic: CreatableTopic) -> int | None:
    """The topic's min.insync.replicas, if the request sets it; its configs have been validated."""
    values = [config.value for config in topic.configs if config.name == "min.insync.replicas"]
    return int(values[-1]) if values and values[-1] is not None else None


def _manual_replicas(image: MetadataImage, topic: CreatableTopic, context: RequestContext) -> Ints | ApiError:
    if topic.replication_factor != DEFAULT:
        return ApiError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if topic.num_partitions != DEFAULT:
        return ApiError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    refusal = _validate_assignments(image, context.settings, topic.name, topic.assignments)
    if refusal:
        return refusal
    ordered = sorted(topic.assignments, key=lambda assignment: assignment.partition_index)
    if [assignment.partition_index for assignment in ordered] != list(range(len(ordered))):
        return ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    replicas: Ints = np.array([assignment.broker_ids for assignment in ordered], dtype=np.int32)
    return validate_limits(image, context, topic.name, replicas, len(replicas)) or replicas


def _validate_assignments(
    image: MetadataImage, settings: Settings, topic_name: str, assignments: Sequence[CreatableReplicaAssignment]
) -> ApiError | None:
    seen: set[int] = set()
    replication_factor = None
    for assignment in assignments:
        index, broker_ids = assignment.partition_index, assignment.broker_ids
        if index in seen:
            return ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        seen.add(index)
        refusal = (
            validate_manual_replicas(image, broker_ids, replication_factor)
            or refuse_other_kind(image, settings, topic_name, broker_ids)
            or validate_some_live(image, index, broker_ids)
        )
        if refusal:
            return refusal
        replication_factor = len(broker_ids)
    return None


def _refused(topic_name: str, refusal: ApiError) -> CreatableTopicResult:
    return CreatableTopicResult(name=topic_name, error_code=refusal.code, error_message=refusal.message)
