"""OffsetCommit v0 and OffsetFetch v0: offsets in ZooKeeper, which any broker up to Kafka 3.0 reads and writes.

Members and generations of groups do not matter to them. Brokers with KRaft answer UNSUPPORTED_VERSION. Order of the
checks: KafkaApis.handleOffsetCommitRequest and handleOffsetFetchRequestFromZookeeper.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.zookeeper_offsets import Key
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.effects import SoftState
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.controller.served_apis import release_of
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.offsets.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from klamm.protocol.messages.offsets.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

NO_OFFSET = -1


@dataclass(frozen=True, slots=True)
class FirstOffsetsKept:
    """An effect: keeps the offsets of a request."""

    brokers: SimulatedBrokers
    offsets: Iterable[tuple[Key, int]]

    def apply(self, soft: SoftState, now_ms: int) -> None:
        del soft, now_ms
        for key, offset in self.offsets:
            self.brokers.zookeeper_offsets.commit(key, offset)


def commit_first_offsets(
    brokers: SimulatedBrokers, image: MetadataImage, request: OffsetCommitRequest, context: RequestContext
) -> Outcome:
    """For each partition whether its offset is kept."""
    refusal = _refused(context, AclOperation.READ, request.group_id)
    commits: list[tuple[Key, int]] = []

    def answer(topic_name: str, one: OffsetCommitRequestPartition) -> ErrorCode:
        key = request.group_id, topic_name, one.partition_index
        code = refusal or _refused_partition(image, context, AclOperation.READ, topic_name, one.partition_index)
        most = context.settings.static_int("offset.metadata.max.bytes", context.requester.asked_broker_id)
        if not code and len(one.committed_metadata or "") > most:
            code = ErrorCode.OFFSET_METADATA_TOO_LARGE
        if not code and not brokers.zookeeper_offsets.has_room(key):
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not code:
            commits.append((key, one.committed_offset))
        return code

    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=answer(topic.name, one))
                for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return Outcome(OffsetCommitResponse(topics=topics), effects=[FirstOffsetsKept(brokers, commits)] if commits else [])


def fetch_first_offsets(
    brokers: SimulatedBrokers, image: MetadataImage, request: OffsetFetchRequest, context: RequestContext
) -> Outcome:
    """The offset of each partition; UNKNOWN_TOPIC_OR_PARTITION if it has none."""
    refusal = _refused(context, AclOperation.DESCRIBE, request.group_id)

    def answer(topic_name: str, index: int) -> OffsetFetchResponsePartition:
        code = refusal or _refused_partition(image, context, AclOperation.DESCRIBE, topic_name, index)
        offset = brokers.zookeeper_offsets.find((request.group_id, topic_name, index))
        if offset is None and not code:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        found = NO_OFFSET if code or offset is None else offset
        return OffsetFetchResponsePartition(partition_index=index, committed_offset=found, error_code=code)

    topics = [
        OffsetFetchResponseTopic(
            name=topic.name, partitions=[answer(topic.name, index) for index in topic.partition_indexes]
        )
        for topic in request.topics or ()
    ]
    return Outcome(OffsetFetchResponse(topics=topics))


def _refused(context: RequestContext, operation: AclOperation, group_id: str) -> ErrorCode:
    if not context.authorize(operation, AclResourceType.GROUP, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.NONE if release_of(context.served).has_zookeeper else ErrorCode.UNSUPPORTED_VERSION


def _refused_partition(
    image: MetadataImage, context: RequestContext, operation: AclOperation, topic_name: str, index: int
) -> ErrorCode:
    if not context.authorize(operation, AclResourceType.TOPIC, topic_name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = image.topics_by_name.get(topic_name)
    exists = topic is not None and 0 <= index < image.partition_count(topic)
    return ErrorCode.NONE if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
