"""AlterShareGroupOffsets and DeleteShareGroupOffsets: what they do to a group, before the share coordinator is asked.

Order of the checks and texts: Kafka's GroupMetadataManager. DescribeShareGroupOffsets asks the share coordinator alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from klamm.broker.groups.consumer.records import Record
from klamm.broker.groups.share import records
from klamm.broker.groups.share.group import ShareGroup, StatePartitions, StateTopics
from klamm.broker.groups.share.outcome import Initialization, ShareContext
from klamm.broker.groups.share.state_partitions import with_initializing
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.shares.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from klamm.protocol.messages.shares.delete_share_group_offsets import DeleteShareGroupOffsetsResponseTopic
from klamm.protocol.uuid import ZERO_UUID, Uuid

UNKNOWN_PARTITION = "This server does not host this topic-partition."
NO_OFFSETS = "There is no offset information to delete."


@dataclass(frozen=True, slots=True)
class Alteration:
    """The answer if the share coordinator agrees, and what it is asked."""

    topics: list[AlterShareGroupOffsetsResponseTopic]
    initialization: Initialization
    records: list[Record]


@dataclass(frozen=True, slots=True)
class StateDeletion:
    """What the share coordinator is to delete, by topic id; and what is answered about the other topics."""

    partitions: Mapping[Uuid, tuple[int, ...]]
    refused: list[DeleteShareGroupOffsetsResponseTopic]
    records: list[Record]


def alter_offsets(
    group: ShareGroup | None, group_id: str, topics: Sequence[AlterShareGroupOffsetsRequestTopic], context: ShareContext
) -> Alteration | ApiError:
    """The group begins anew at these offsets. A group that does not exist is made."""
    group = group or ShareGroup(group_id)
    if group.members:
        return ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    refusal = _impossible(group_id, topics, context)
    if refusal is not None:
        return refusal
    shown: list[AlterShareGroupOffsetsResponseTopic] = []
    offsets: dict[Uuid, dict[int, int]] = {}
    initializing: dict[Uuid, StatePartitions] = {}
    for asked in topics:
        topic = context.topics.named(asked.topic_name)
        count = topic.partitions if topic is not None else 0
        partitions = []
        for one in asked.partitions:
            is_known = topic is not None and 0 <= one.partition_index < count
            if topic is not None and is_known:
                offsets.setdefault(topic.topic_id, {})[one.partition_index] = one.start_offset
            partitions.append(_altered(one.partition_index, is_known=is_known))
        topic_id = topic.topic_id if topic is not None else ZERO_UUID
        if topic is not None:
            found = frozenset(offsets.get(topic_id, {}))
            initializing[topic_id] = StatePartitions(topic.name, found, context.now_ms)
        shown.append(
            AlterShareGroupOffsetsResponseTopic(topic_name=asked.topic_name, topic_id=topic_id, partitions=partitions)
        )
    written = []
    if initializing:
        written.append(records.state_topics(group_id, with_initializing(group.state_topics, initializing)))
    return Alteration(shown, Initialization(group_id, group.group_epoch, offsets), written)


def _impossible(
    group_id: str, topics: Iterable[AlterShareGroupOffsetsRequestTopic], context: ShareContext
) -> ApiError | None:
    """Kafka finds a negative partition when it asks the share coordinator, and refuses all of the request."""
    for asked in topics:
        topic = context.topics.named(asked.topic_name)
        for one in asked.partitions:
            if topic is not None and one.partition_index < 0:
                place = f"{group_id} {topic.topic_id} {one.partition_index}"
                return ApiError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"Initialize share group parameters has invalid partitionId - {place}",
                )
    return None


def _altered(partition: int, *, is_known: bool) -> AlterShareGroupOffsetsResponsePartition:
    if is_known:
        return AlterShareGroupOffsetsResponsePartition(partition_index=partition)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return AlterShareGroupOffsetsResponsePartition(
        partition_index=partition, error_code=code, error_message=UNKNOWN_PARTITION
    )


def delete_offsets(
    group: ShareGroup | None, group_id: str, topic_names: Iterable[str], context: ShareContext
) -> StateDeletion | ApiError:
    """The state of these topics is to be deleted."""
    if group is None:
        return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if group.members:
        return ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    known = group.state_topics
    if known is None:
        return StateDeletion({}, [], [])
    initialized, deleting = dict(known.initialized), dict(known.deleting)
    partitions: dict[Uuid, tuple[int, ...]] = {}
    refused = []
    for name in topic_names:
        topic = context.topics.named(name)
        if topic is None:
            refused.append(_not_deleted(name, UNKNOWN_PARTITION))
        elif topic.topic_id in initialized:
            partitions[topic.topic_id] = tuple(sorted(initialized.pop(topic.topic_id).partitions))
            deleting[topic.topic_id] = name
        elif topic.topic_id in deleting:
            partitions[topic.topic_id] = tuple(range(topic.partitions))
        else:
            refused.append(_not_deleted(name, NO_OFFSETS))
    becomes = StateTopics(known.initializing, initialized, deleting)
    return StateDeletion(partitions, refused, [records.state_topics(group_id, becomes)])


def _not_deleted(name: str, text: str) -> DeleteShareGroupOffsetsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DeleteShareGroupOffsetsResponseTopic(topic_name=name, error_code=code, error_message=text)


def state_to_delete(group: ShareGroup, context: ShareContext) -> StateDeletion:
    """All state of a group that is about to be deleted."""
    known = group.state_topics
    if known is None:
        return StateDeletion({}, [], [])
    partitions: dict[Uuid, set[int]] = {}
    names: dict[Uuid, str] = {}
    for topics in (known.initialized, known.initializing):
        for topic_id, found in topics.items():
            partitions.setdefault(topic_id, set()).update(found.partitions)
            names[topic_id] = found.topic_name
    for topic_id in known.deleting:
        topic = context.topics.with_id(topic_id)
        if topic is not None:
            partitions.setdefault(topic_id, set()).update(range(topic.partitions))
            names[topic_id] = topic.name
    written = [records.state_topics(group.group_id, StateTopics(deleting=names))]
    return StateDeletion({key: tuple(sorted(found)) for key, found in partitions.items()}, [], written)
