"""Metadata (3): brokers and topics, which any broker answers, and automatic creation of topics.

Fenced brokers are hidden; their replicas are offline. As in Kafka, version 0 omits replicas on dead brokers. Automatic
creation is decided before the answer: a topic that is created is answered UNKNOWN_TOPIC_OR_PARTITION this once, a
refused one with its error (docs/profiles.md). Recorded details: if an entry has an id, entries with only a name are
dropped; versions 10 and 11 support neither ids nor topics without a name.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.configs import auto_create_topics_enabled, num_partitions
from klamm.controller.context import RequestContext
from klamm.controller.handlers.topics.create_topics import DEFAULT, TopicPlanner, denied_creations
from klamm.controller.handlers.topics.described_topics import Online, describe_all, describe_each
from klamm.controller.log_records import Record
from klamm.controller.metadata.image import INTERNAL_TOPICS, MetadataImage
from klamm.controller.outcome import Outcome
from klamm.controller.releases import Release
from klamm.controller.served_apis import release_of
from klamm.controller.transitions.placement import max_partitions_per_request
from klamm.controller.transitions.topic_names import validate_topic_name
from klamm.protocol.columns import Columns
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.topics.create_topics import CreatableTopic
from klamm.protocol.messages.topics.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from klamm.protocol.uuid import ZERO_UUID

FIRST_VERSION_BY_ID = 12
FIRST_VERSION_WITH_CREATION_FLAG = 4
# Creation follows the rules of this CreateTopics version: the broker may choose both counts.
CREATION_VERSION = 7
MAX_CREATIONS_PER_REQUEST = 1_000
"""Most creations that one request attempts, because other requests wait meanwhile. Clients retry for the others."""


def handle_metadata(image: MetadataImage, request: MetadataRequest, context: RequestContext) -> Outcome:
    """Brokers, and all topics or those asked for. Records come from automatic creation only."""
    asked = request.topics or ()
    if context.api_version < FIRST_VERSION_BY_ID and any(
        topic.name is None or topic.topic_id != ZERO_UUID for topic in asked
    ):
        return _all_refused(asked, ErrorCode.INVALID_REQUEST)
    by_id = any(topic.topic_id != ZERO_UUID for topic in asked)
    if not by_id and any(topic.name is None for topic in asked):
        return _all_refused(asked, ErrorCode.UNKNOWN_SERVER_ERROR)
    online = Online.of(image, context.requester.listener_name, context.api_version)
    response = MetadataResponse(
        brokers=list(_brokers(image, context.requester.listener_name)),
        cluster_id=context.cluster.cluster_id,
        controller_id=online.first_unfenced,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = context.cluster_authorized_operations()
    records: list[Record] = []
    log_only_errors: dict[str, str] = {}
    if request.topics is None or (context.api_version == 0 and not asked):
        hidden = context.denied(AclOperation.DESCRIBE, AclResourceType.TOPIC, image.topics_by_name)
        everything = list(image.topics_by_name.values())
        if hidden:
            everything = [topic for topic in everything if topic.name not in hidden]
        response.topics = describe_all(image, everything, online, drop_dead=context.api_version == 0)
    elif by_id:
        response.topics = _by_ids(image, asked, context, online)
    else:
        response.topics, records = _asked_for(image, request, context, online, log_only_errors)
    if request.include_topic_authorized_operations:
        response.topics = _with_operations(response.topics, context)
    return Outcome(response, records, context.mutations.effects, log_only_errors)


def _with_operations(
    topics: Sequence[MetadataResponseTopic], context: RequestContext
) -> Sequence[MetadataResponseTopic]:
    """The topics, with the operations that the requester may perform on those that it may describe."""
    if isinstance(topics, Columns):  # columns contain only topics that the requester may describe
        operations = context.authorized_operations(AclResourceType.TOPIC, topics.column("name").tolist())
        values = {**topics.values, "topic_authorized_operations": np.array(operations, np.int32)}
        return Columns(MetadataResponseTopic, len(topics), values)
    told = [
        topic for topic in topics if topic.name is not None and topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED
    ]
    operations = context.authorized_operations(AclResourceType.TOPIC, [topic.name or "" for topic in told])
    for topic, bits in zip(told, operations, strict=True):
        topic.topic_authorized_operations = bits
    return topics


def _all_refused(asked: Sequence[MetadataRequestTopic], code: ErrorCode) -> Outcome:
    """The answer to a request that fails as a whole in Apache Kafka: it contains no brokers either."""
    refused = [
        MetadataResponseTopic(
            name=topic.name or "", topic_id=topic.topic_id, is_internal=_is_internal(topic.name or ""), error_code=code
        )
        for topic in asked
    ]
    top_level = code if code is ErrorCode.UNKNOWN_SERVER_ERROR else ErrorCode.NONE
    return Outcome(MetadataResponse(topics=refused, error_code=top_level))


def _is_internal(topic_name: str) -> bool:
    return topic_name in INTERNAL_TOPICS


def _brokers(image: MetadataImage, listener_name: str | None) -> Iterable[MetadataResponseBroker]:
    for broker in sorted(image.brokers.values(), key=lambda broker: broker.broker_id):
        if not broker.fenced and (end_point := broker.end_point(listener_name)) is not None:
            yield MetadataResponseBroker(
                node_id=broker.broker_id, host=end_point.host, port=end_point.port, rack=broker.rack
            )


def _asked_for(
    image: MetadataImage,
    request: MetadataRequest,
    context: RequestContext,
    online: Online,
    log_only_errors: dict[str, str],
) -> tuple[Sequence[MetadataResponseTopic], list[Record]]:
    """The topics, and the records of those that are created. The reasons why others are not created go into
    `log_only_errors`."""
    asked = request.topics or ()
    may_create = (
        request.allow_auto_topic_creation or context.api_version < FIRST_VERSION_WITH_CREATION_FLAG
    ) and auto_create_topics_enabled(context.settings, context.requester.asked_broker_id)
    # One request may create as many partitions as a CreateTopics request.
    topics_left = max_partitions_per_request(context) // num_partitions(
        context.settings, context.requester.asked_broker_id
    )
    creations_left = MAX_CREATIONS_PER_REQUEST
    names = [entry.name or "" for entry in _distinct(asked)]
    hidden = context.denied(AclOperation.DESCRIBE, AclResourceType.TOPIC, names)
    known = [topic for name in names if name not in hidden and (topic := image.topics_by_name.get(name))]
    if len(known) == len(names):
        return describe_all(image, known, online, drop_dead=context.api_version == 0), []
    denied = denied_creations(context, names) if may_create else frozenset()
    # A request that creates topics causes other changes before its answer is encoded, so the answer must not share
    # columns.
    described = iter(describe_each(image, known, online, drop_dead=context.api_version == 0, copied=may_create))
    planner = TopicPlanner(image, context.for_version(CREATION_VERSION)) if may_create else None
    topics: list[MetadataResponseTopic] = []
    records: list[Record] = []
    for name in names:
        if name in hidden:
            topics.append(MetadataResponseTopic(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        if name in image.topics_by_name:
            topics.append(next(described))
            continue
        answer = MetadataResponseTopic(
            name=name, is_internal=_is_internal(name), error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        refusal = validate_topic_name(name)
        if name in denied:
            answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif refusal:
            answer.error_code = refusal.code
        elif planner and not topics_left:
            answer.error_code = ErrorCode.POLICY_VIOLATION
        elif planner and creations_left:
            answer.error_code, made = _create(planner, name, log_only_errors, release_of(context.served))
            creations_left -= 1
            topics_left -= bool(made)
            records += made
        topics.append(answer)
    return topics, records


def _create(
    planner: TopicPlanner, name: str, log_only_errors: dict[str, str], release: Release
) -> tuple[int, list[Record]]:
    result, records = planner.plan(CreatableTopic(name=name, num_partitions=DEFAULT, replication_factor=DEFAULT))
    if result.error_message:
        log_only_errors[name] = result.error_message
    # As in Kafka, a client does not learn that its quota of mutations is exceeded: it asks again.
    hidden = result.error_code in (ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    if not hidden:
        return result.error_code, records
    is_unknown = release.creates_in_background
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_unknown else ErrorCode.LEADER_NOT_AVAILABLE, records


def _distinct(asked: Sequence[MetadataRequestTopic]) -> Iterable[MetadataRequestTopic]:
    return {(topic.name if topic.topic_id == ZERO_UUID else None, topic.topic_id): topic for topic in asked}.values()


def _by_ids(
    image: MetadataImage, asked: Sequence[MetadataRequestTopic], context: RequestContext, online: Online
) -> Sequence[MetadataResponseTopic]:
    ids = [entry.topic_id for entry in _distinct(asked) if entry.topic_id != ZERO_UUID]
    known = [topic for topic_id in ids if (topic := image.topics_by_id.get(topic_id))]
    hidden = context.denied(AclOperation.DESCRIBE, AclResourceType.TOPIC, (topic.name for topic in known))
    told = [topic for topic in known if topic.name not in hidden]
    if len(told) == len(ids):
        return describe_all(image, told, online, drop_dead=False)
    answers = {
        topic.topic_id: MetadataResponseTopic(
            name=None, topic_id=topic.topic_id, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
        )
        for topic in known
        if topic.name in hidden
    }
    answers |= {answer.topic_id: answer for answer in describe_each(image, told, online, drop_dead=False)}
    return [
        answers.get(topic_id)
        or MetadataResponseTopic(name=None, topic_id=topic_id, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
        for topic_id in ids
    ]
