"""Which commits and reads of offsets a consumer group allows (KIP-848; relaxed by KIP-1251 for older epochs)."""

from collections.abc import Callable
from dataclasses import dataclass

from klamm.broker.groups.consumer.group import ConsumerGroup
from klamm.broker.groups.consumer.joining import unknown_member
from klamm.broker.groups.consumer.member import Member
from klamm.protocol.error_codes import ErrorCode
from klamm.protocol.errors import ApiError
from klamm.protocol.uuid import Uuid

FIRST_COMMIT_VERSION = 9
"""Of OffsetCommit: older ones do not know STALE_MEMBER_EPOCH."""

PartitionCheck = Callable[[Uuid, int], ApiError | None]


@dataclass(frozen=True, slots=True)
class Committer:
    """Who commits, as the request says."""

    member_id: str
    instance_id: str | None
    epoch: int
    """Or generation; -1: none."""
    api_version: int
    transactional: bool = False


def check_commit(group: ConsumerGroup, committer: Committer) -> ApiError | PartitionCheck | None:
    """None: all partitions may be committed. A function: it has to be asked about each partition."""
    if committer.epoch < 0 and not group.members:
        return None
    anonymous = committer.epoch == -1 and not committer.member_id and committer.instance_id is None
    if committer.transactional and anonymous:
        return None
    member = group.members.get(committer.member_id)
    if member is None:
        return unknown_member(group, committer.member_id)
    if not committer.transactional and member.classic is None and committer.api_version < FIRST_COMMIT_VERSION:
        return ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the consumer group protocol",
        )
    if committer.epoch == member.member_epoch:
        return None
    if committer.epoch > member.member_epoch:
        return _stale(member, f"{committer.epoch} is newer than current member epoch {member.member_epoch}.")
    return lambda topic_id, partition: _older_epoch(member, committer.epoch, topic_id, partition)


def _older_epoch(member: Member, epoch: int, topic_id: Uuid, partition: int) -> ApiError | None:
    """An older epoch may commit what the member has owned without interruption since then."""
    since = member.assigned.get(topic_id, {}).get(partition)
    if since is None:
        since = member.pending_revocation.get(topic_id, {}).get(partition)
    if since is None:
        return _stale(member, "does not have the partition.")
    return _stale(member, f"{epoch} is older than assignment epoch {since}.") if epoch < since else None


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> ApiError | None:
    """OffsetFetch v9 and later: a member id and epoch, if given, have to be a member's."""
    if member_id is None and epoch < 0:
        return None
    member = group.members.get(member_id or "")
    if member is None:
        return unknown_member(group, member_id or "")
    if epoch == member.member_epoch:
        return None
    return _stale(member, f"{epoch} does not match the expected member epoch {member.member_epoch}.")


def _stale(member: Member, why: str) -> ApiError:
    if member.classic is not None:
        return ApiError(ErrorCode.ILLEGAL_GENERATION, f"Generation id: {why}")
    return ApiError(ErrorCode.STALE_MEMBER_EPOCH, f"Member epoch: {why}")
