"""What ShareFetch and ShareAcknowledge have in common: the first checks, and how answers that wait are tried again."""

from collections.abc import Collection, Iterable
from typing import Any

from klamm.broker.coordinator.shard import Shard
from klamm.broker.handlers.hosted import find_partition
from klamm.broker.handlers.share.groups import member_id_is_valid
from klamm.broker.handlers.share.share_version import share_groups_are_enabled
from klamm.broker.share_partitions.leaders import Around, ShareLeaders
from klamm.broker.share_state.offset import SharePartitionKey
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import LogKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.uuid import Uuid

TELL_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""Errors that come with the partition's leader."""


def refuse(image: MetadataImage, context: RequestContext, group_id: str | None, member_id: str | None) -> ErrorCode:
    """Why a request is refused as a whole, before its session is examined."""
    if not share_groups_are_enabled(image):
        return ErrorCode.UNSUPPORTED_VERSION
    if group_id is None:
        return ErrorCode.INVALID_REQUEST
    if not context.authorize(AclOperation.READ, AclResourceType.GROUP, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.NONE if member_id_is_valid(member_id) else ErrorCode.INVALID_REQUEST


def denied_topics(image: MetadataImage, context: RequestContext, topic_ids: Iterable[Uuid]) -> Collection[str]:
    """The names of the topics that the requester may not read."""
    known = (image.topics_by_id.get(topic_id) for topic_id in dict.fromkeys(topic_ids))
    return context.denied(
        AclOperation.READ, AclResourceType.TOPIC, [topic.name for topic in known if topic is not None]
    )


def places_of(topics: Iterable[Any]) -> list[LogKey]:
    """The partitions of a request, each once."""
    return list(dict.fromkeys((topic.topic_id, one.partition_index) for topic in topics for one in topic.partitions))


def advance(
    leaders: ShareLeaders, broker_id: int, group_id: str, places: Iterable[LogKey], image: MetadataImage, now_ms: int
) -> int | None:
    """Let the share coordinators of these partitions deliver what is replicated by now. When to do so again, in ms;
    None: nothing is known."""
    leaders.expire_locks()
    leaders.persister.tick()
    due_ms = [leaders.persister.next_due_ms, leaders.next_due_ms]
    shards: dict[int, Shard] = {}
    for place in places:
        partition = leaders.loaded(broker_id, SharePartitionKey(group_id, *place))
        around = partition.around if partition is not None else None
        if isinstance(around, Around) and around.shard is not None:
            shards[id(around.shard)] = around.shard
    for shard in shards.values():
        shard.advance(image, now_ms)
        due_ms.append(shard.next_due_ms(now_ms))
    return min((one for one in due_ms if one is not None), default=None)


def leader_of(leaders: ShareLeaders, image: MetadataImage, place: LogKey) -> tuple[int, int] | None:
    """The leader of a partition and its epoch."""
    topic = image.topics_by_id.get(place[0])
    hosted = find_partition(image, leaders.data, topic, place[1]) if topic is not None else None
    return None if hosted is None else (hosted.leader, hosted.leader_epoch)
