"""DescribeTopicPartitions (75): partitions page by page, with their eligible leader replicas (KIP-966).

Topics are sorted by name, unknown ones included; a cursor says where the page before ended. Topics that the requester
may not describe are at the end, if they were asked for by name. Checks of the cursor and limits are as recorded from
Apache Kafka 4.3.
"""

from collections.abc import Iterable

import numpy as np

from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.handlers.topics.described_topics import without_listener
from klamm.controller.handlers.topics.partition_columns import read_partitions
from klamm.controller.metadata.broker_set import BrokerSet
from klamm.controller.metadata.image import INTERNAL_TOPICS, MetadataImage, Topic
from klamm.controller.metadata.live_replicas import LiveReplicas
from klamm.controller.metadata.partition_table import PartitionKey
from klamm.controller.outcome import Outcome
from klamm.controller.transitions.topic_names import validate_topic_name
from klamm.protocol.columns import Columns, Ragged
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.topics.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

MAX_PARTITIONS_PER_RESPONSE = 2000


def handle_describe_topic_partitions(
    image: MetadataImage, request: DescribeTopicPartitionsRequest, context: RequestContext
) -> Outcome:
    """One page: at most `response_partition_limit` partitions, and where the next page starts."""
    names = {topic.name for topic in request.topics}
    cursor = request.cursor
    if cursor and (cursor.partition_index < 0 or (names and cursor.topic_name not in names)):
        return _all_refused(request, ErrorCode.INVALID_REQUEST)
    may_describe = context.permits(AclOperation.DESCRIBE, AclResourceType.TOPIC)
    if "" in names and may_describe(""):
        # Apache Kafka fails on an empty name, for all entries.
        return _all_refused(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    wanted = sorted(names or image.topics_by_name)
    if cursor:
        wanted = [name for name in wanted if name >= cursor.topic_name]
    response = DescribeTopicPartitionsResponse()
    left = max(1, min(request.response_partition_limit, MAX_PARTITIONS_PER_RESPONSE))
    unfenced = image.unfenced_brokers()
    elsewhere = without_listener(image, unfenced, context.requester.listener_name)
    online = LiveReplicas(image, unfenced if elsewhere is None else unfenced.without(*elsewhere.ids.tolist()))
    described: list[DescribeTopicPartitionsResponseTopic] = []
    denied: list[str] = []
    for name in wanted:
        if not may_describe(name):
            denied.append(name)
            continue
        first = cursor.partition_index if cursor and cursor.topic_name == name else 0
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=first)
            break
        topic = image.topics_by_name.get(name)
        if topic is None:
            described.append(_unknown(name))
            continue
        last = min(image.partition_count(topic), first + left)
        described.append(_page(image, topic, online, elsewhere, first, last))
        left -= max(0, last - first)
        if last < image.partition_count(topic):
            response.next_cursor = Cursor(topic_name=name, partition_index=last)
            break
    operations = context.authorized_operations(AclResourceType.TOPIC, [topic.name or "" for topic in described])
    for answer, bits in zip(described, operations, strict=True):
        answer.topic_authorized_operations = bits
    # A request for all topics does not reveal topics that the requester may not describe.
    response.topics = [*described, *_refused(denied if names else (), ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    return Outcome(response)


def _all_refused(request: DescribeTopicPartitionsRequest, code: ErrorCode) -> Outcome:
    return Outcome(DescribeTopicPartitionsResponse(topics=_refused((topic.name for topic in request.topics), code)))


def _refused(names: Iterable[str], code: ErrorCode) -> list[DescribeTopicPartitionsResponseTopic]:
    return [DescribeTopicPartitionsResponseTopic(name=name, error_code=code) for name in names]


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    refusal = validate_topic_name(name)
    return DescribeTopicPartitionsResponseTopic(
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        error_code=refusal.code if refusal else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )


def _page(
    image: MetadataImage, topic: Topic, online: LiveReplicas, elsewhere: BrokerSet | None, first: int, last: int
) -> DescribeTopicPartitionsResponseTopic:
    read = read_partitions(image, [topic], online, first=first, last=last)
    leader_id = read.leader_id
    if elsewhere is not None:  # as in Kafka: this API has no error where Metadata has LISTENER_NOT_FOUND
        leader_id = np.where(elsewhere.holds(leader_id), np.int32(-1), leader_id)
    elr, last_known_elr = (_elr_lists(image, topic, first, len(read.partition_index), which) for which in (0, 1))
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=Columns(
            DescribeTopicPartitionsResponsePartition,
            len(read.partition_index),
            {
                "partition_index": read.partition_index,
                "leader_id": leader_id,
                "leader_epoch": read.leader_epoch,
                "replica_nodes": read.replicas,
                "isr_nodes": read.isr,
                # Java clients iterate over these two lists, so they are empty and never null.
                "eligible_leader_replicas": elr,
                "last_known_elr": last_known_elr,
                "offline_replicas": read.offline_replicas,
            },
        ),
    )


def _elr_lists(image: MetadataImage, topic: Topic, first: int, count: int, which: int) -> Ragged | tuple[()]:
    """The eligible (0) or last known (1) leader replicas of consecutive partitions."""
    kept = image.partitions.elr
    if not kept:
        return ()
    lists = [kept.get(PartitionKey(topic.row, index), ((), ()))[which] for index in range(first, first + count)]
    lengths = np.array([len(one) for one in lists], dtype=np.int64)
    rows = np.zeros((count, int(lengths.max(initial=0))), dtype=np.int32)
    for row, one in zip(rows, lists, strict=True):
        row[: len(one)] = one
    return Ragged(rows, lengths)
