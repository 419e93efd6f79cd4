"""Metadata (3): brokers and topics, as any broker tells them, and automatic creation.

Fenced brokers are hidden; their replicas are offline. Version 0 drops replicas of dead brokers altogether, as it
always did. Automatic creation is decided before the answer: an accepted topic is answered UNKNOWN_TOPIC_OR_PARTITION
this once, a refused one with its reason (semantics.md). Recorded details: once an entry has an id, entries that only
have a name are dropped, and versions 10 and 11 know no ids.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from controller.configs import auto_create_topics_enabled, num_partitions
from controller.handlers.topics.create_topics import DEFAULT, plan_topic
from controller.handlers.topics.partition_columns import Lists, only, read_partitions
from controller.metadata.broker_set import BrokerSet
from controller.metadata.image import INTERNAL_TOPICS, MetadataImage, Topic
from controller.metadata.live_replicas import LiveReplicas
from controller.outcome import Outcome, Record, RequestContext
from controller.transitions.placement import max_partitions_per_request
from controller.transitions.topic_names import validate_topic_name
from protocol.columns import Columns, Ragged
from protocol.errors import ErrorCode
from protocol.messages.topics.create_topics import CreatableTopic
from protocol.messages.topics.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.uuid import ZERO_UUID

FIRST_VERSION_BY_ID = 12
FIRST_VERSION_WITH_CREATION_FLAG = 4
# A request of the newest kind of creation: both counts may be left to the broker.
CREATION_VERSION = 7
FEW_PARTITIONS = 4
"""Up to here partitions one by one are read and encoded faster than columns are."""


class _Online(NamedTuple):
    """The brokers that clients are told of, and the replicas on them whose log directories are there."""

    brokers: BrokerSet
    replicas: LiveReplicas


def handle_metadata(image: MetadataImage, request: MetadataRequest, context: RequestContext) -> Outcome:
    """Brokers, and all topics or those asked for. The only records are those of automatic creation."""
    asked = request.topics or ()
    if any(topic.name is None and topic.topic_id == ZERO_UUID for topic in asked):
        return _all_refused(asked, ErrorCode.UNKNOWN_SERVER_ERROR)
    if context.api_version < FIRST_VERSION_BY_ID and any(topic.topic_id != ZERO_UUID for topic in asked):
        return _all_refused(asked, ErrorCode.INVALID_REQUEST)
    unfenced = image.unfenced_brokers()
    online = _Online(unfenced, LiveReplicas(image, unfenced))
    response = MetadataResponse(
        brokers=list(_brokers(image)),
        cluster_id=context.cluster.cluster_id,
        controller_id=int(unfenced.ids[0]) if len(unfenced) else -1,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    records: list[Record] = []
    if request.topics is None or (context.api_version == 0 and not asked):
        response.topics = [_described(image, topic, online, context) for topic in image.topics_by_name.values()]
    else:
        response.topics, records = _asked_for(image, request, context, online)
    if request.include_topic_authorized_operations:
        for topic in response.topics:
            topic.topic_authorized_operations = TOPIC_OPERATIONS
    return Outcome(response, records)


def _all_refused(asked: Sequence[MetadataRequestTopic], code: ErrorCode) -> Outcome:
    """A request that the real broker fails on as a whole: it then tells nothing of the cluster either."""
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


def _brokers(image: MetadataImage) -> Iterable[MetadataResponseBroker]:
    for broker in sorted(image.brokers.values(), key=lambda broker: broker.broker_id):
        if not broker.fenced and broker.end_points:
            end_point = broker.end_points[0]
            yield MetadataResponseBroker(
                node_id=broker.broker_id, host=end_point.host, port=end_point.port, rack=broker.rack
            )


def _asked_for(
    image: MetadataImage, request: MetadataRequest, context: RequestContext, online: _Online
) -> tuple[list[MetadataResponseTopic], list[Record]]:
    asked = request.topics or ()
    if any(topic.topic_id != ZERO_UUID for topic in asked):
        return [_by_id(image, topic, context, online) for topic in _distinct(asked) if topic.topic_id != ZERO_UUID], []
    may_create = (
        request.allow_auto_topic_creation or context.api_version < FIRST_VERSION_WITH_CREATION_FLAG
    ) and auto_create_topics_enabled(context.settings, context.broker_id)
    # What one request may make is bounded, as it is for CreateTopics.
    topics_left = max_partitions_per_request(context) // num_partitions(context.settings, context.broker_id)
    topics: list[MetadataResponseTopic] = []
    records: list[Record] = []
    for entry in _distinct(asked):
        name = entry.name or ""
        known = image.topics_by_name.get(name)
        if known:
            topics.append(_described(image, known, online, context))
            continue
        answer = MetadataResponseTopic(
            name=name, is_internal=_is_internal(name), error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        refusal = validate_topic_name(name)
        if refusal:
            answer.error_code = refusal.code
        elif may_create and not topics_left:
            answer.error_code = ErrorCode.POLICY_VIOLATION
        elif may_create:
            answer.error_code, made = _create(image, name, context)
            topics_left -= bool(made)
            records += made
        topics.append(answer)
    return topics, records


def _create(image: MetadataImage, name: str, context: RequestContext) -> tuple[int, list[Record]]:
    wanted = CreatableTopic(name=name, num_partitions=DEFAULT, replication_factor=DEFAULT)
    result, records = plan_topic(image, wanted, context.for_version(CREATION_VERSION))
    return result.error_code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, records


def _distinct(asked: Sequence[MetadataRequestTopic]) -> Iterable[MetadataRequestTopic]:
    return {(topic.name if topic.topic_id == ZERO_UUID else None, topic.topic_id): topic for topic in asked}.values()


def _by_id(
    image: MetadataImage, entry: MetadataRequestTopic, context: RequestContext, online: _Online
) -> MetadataResponseTopic:
    topic = image.topics_by_id.get(entry.topic_id)
    if topic is None:
        return MetadataResponseTopic(name=None, topic_id=entry.topic_id, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    return _described(image, topic, online, context)


def _described(image: MetadataImage, topic: Topic, online: _Online, context: RequestContext) -> MetadataResponseTopic:
    few = image.partition_count(topic) <= FEW_PARTITIONS
    describe = _one_by_one if few else _as_columns
    partitions = describe(image, topic, online, context.api_version == 0)
    return MetadataResponseTopic(
        name=topic.name, topic_id=topic.topic_id, is_internal=topic.is_internal, partitions=partitions
    )


def _one_by_one(
    image: MetadataImage, topic: Topic, online: _Online, drop_dead: bool
) -> list[MetadataResponsePartition]:
    described = []
    for index in range(image.partition_count(topic)):
        partition = image.partitions.read(topic.row, index)
        dead = [replica for replica in partition.replicas if replica not in online.brokers]
        answer = MetadataResponsePartition(
            error_code=ErrorCode.NONE if partition.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=index,
            leader_id=partition.leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=partition.replicas,
            isr_nodes=partition.isr,
            offline_replicas=[
                replica
                for replica, directory in zip(partition.replicas, partition.directories, strict=True)
                if replica in dead or not image.brokers[replica].has_directory(directory)
            ],
        )
        if drop_dead and dead:
            answer.error_code = answer.error_code or ErrorCode.REPLICA_NOT_AVAILABLE
            answer.replica_nodes = [replica for replica in partition.replicas if replica not in dead]
            answer.isr_nodes = [replica for replica in partition.isr if replica not in dead]
        described.append(answer)
    return described


def _as_columns(
    image: MetadataImage, topic: Topic, online: _Online, drop_dead: bool
) -> Columns[MetadataResponsePartition]:
    read = read_partitions(image, topic, online.replicas)
    replicas, isr = read.replicas, read.isr
    error_code = np.where(read.leader_id < 0, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE).astype(np.int16)
    if drop_dead:
        replicas, isr = only(replicas, online.brokers), only(isr, online.brokers)
        any_dead = _lengths(replicas) < _lengths(read.replicas)
        error_code[(error_code == ErrorCode.NONE) & any_dead] = ErrorCode.REPLICA_NOT_AVAILABLE
    return Columns(
        MetadataResponsePartition,
        len(read.partition_index),
        {
            "error_code": error_code,
            "partition_index": read.partition_index,
            "leader_id": read.leader_id,
            "leader_epoch": read.leader_epoch,
            "replica_nodes": replicas,
            "isr_nodes": isr,
            "offline_replicas": read.offline_replicas,
        },
    )


def _lengths(lists: Lists) -> NDArray[np.integer]:
    return np.asarray(lists.lengths) if isinstance(lists, Ragged) else np.full(len(lists), lists.shape[1])
