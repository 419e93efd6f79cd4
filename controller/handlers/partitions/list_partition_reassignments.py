"""ListPartitionReassignments (46), KIP-455: the partitions that are in reassignment, and their replicas.

Topics and partitions that do not exist or are not in reassignment are omitted (Apache Kafka 4.3 as recorded). Topics
are in the order of the request, or in the order of creation if it asks for all.
"""

from collections.abc import Iterable, Iterator

from klamm.controller.answer_room import NO_ROOM, AnswerRoom
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

BYTES_OF_PARTITION = 32
"""A partition in the response without its replicas, rounded up."""
BYTES_OF_REPLICA = 4


def handle_list_partition_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> Outcome:
    """The reassignments asked for that are in progress."""
    denied = context.refuse_cluster(AclOperation.DESCRIBE)
    if denied:
        return Outcome(ListPartitionReassignmentsResponse(error_code=denied.code, error_message=denied.message))
    room, topics = AnswerRoom(), []
    for name, keys in _all(image) if request.topics is None else _asked_for(image, request):
        partitions = _in_progress(image, keys, room)
        if partitions is None:
            return Outcome(ListPartitionReassignmentsResponse(error_code=NO_ROOM.code, error_message=NO_ROOM.message))
        if partitions:
            topics.append(OngoingTopicReassignment(name=name, partitions=partitions))
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


def _in_progress(
    image: MetadataImage, keys: Iterable[PartitionKey], room: AnswerRoom
) -> list[OngoingPartitionReassignment] | None:
    """Those of the partitions that are in reassignment. None: there is no room for them."""
    moving = [key for key in keys if key in image.partitions.reassigning]
    replicas: dict[PartitionKey, list[int]] = {}
    for table, found, rows in image.partitions.locate_many(moving):
        lists = zip(table.replicas[rows].tolist(), table.replica_count[rows].tolist(), strict=True)
        replicas.update(zip(found, (ids[:count] for ids, count in lists), strict=True))
    # No list of added or removed replicas is longer than that of all replicas.
    if not all(room.take(key, BYTES_OF_PARTITION + 3 * BYTES_OF_REPLICA * len(replicas[key])) for key in moving):
        return None
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
