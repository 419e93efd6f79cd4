"""ListPartitionReassignments (46), KIP-455: the partitions that are in reassignment, and their replicas.

Topics and partitions that do not exist or are not in reassignment are omitted (Apache Kafka 4.3 as recorded). Topics
are in the order of the request, or in the order of creation if it asks for all.
"""

from collections.abc import Iterable, Iterator

from klamm.controller.authorizer import AclOperation
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition_table import PartitionKey
from klamm.controller.outcome import Outcome
from klamm.protocol.messages.partitions.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle_list_partition_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> Outcome:
    """The reassignments asked for that are in progress."""
    denied = context.refuse_cluster(AclOperation.DESCRIBE)
    if denied:
        return Outcome(ListPartitionReassignmentsResponse(error_code=denied.code, error_message=denied.message))
    topics = [
        OngoingTopicReassignment(name=name, partitions=partitions)
        for name, keys in (_all(image) if request.topics is None else _asked_for(image, request))
        if (partitions := _in_progress(image, keys))
    ]
    return Outcome(ListPartitionReassignmentsResponse(error_message=None, topics=topics))


def _all(image: MetadataImage) -> Iterator[tuple[str, list[PartitionKey]]]:
    by_topic: dict[int, list[PartitionKey]] = {}
    for key in sorted(image.partitions.reassigning):
        by_topic.setdefault(key.topic_row, []).append(key)
    return ((image.topics_by_row[row].name, keys) for row, keys in by_topic.items())


def _asked_for(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> Iterator[tuple[str, list[PartitionKey]]]:
    for wanted in request.topics or ():
        topic = image.topics_by_name.get(wanted.name)
        if topic is not None:
            yield topic.name, [PartitionKey(topic.row, index) for index in wanted.partition_indexes]


def _in_progress(image: MetadataImage, keys: Iterable[PartitionKey]) -> list[OngoingPartitionReassignment]:
    moving = [key for key in keys if key in image.partitions.reassigning]
    replicas: dict[PartitionKey, list[int]] = {}
    for table, found, rows in image.partitions.locate_many(moving):
        lists = zip(table.replicas[rows].tolist(), table.replica_count[rows].tolist(), strict=True)
        replicas.update(zip(found, (ids[:count] for ids, count in lists), strict=True))
    return [
        OngoingPartitionReassignment(
            partition_index=key.partition_index,
            replicas=replicas[key],
            adding_replicas=adding,
            removing_replicas=removing,
        )
        for key in moving
        for adding, removing in (image.partitions.reassigning[key],)
    ]
