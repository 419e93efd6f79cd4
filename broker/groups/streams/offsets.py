"""Which commits and reads of offsets a streams group allows (KIP-1071; relaxed by KIP-1251 for older epochs)."""

from klamm.broker.groups.consumer.offsets import FIRST_COMMIT_VERSION, Committer
from klamm.broker.groups.streams.group import StreamsGroup
from klamm.broker.groups.streams.member import Member
from klamm.protocol.error_codes import ErrorCode


def check_commit(group: StreamsGroup, committer: Committer) -> ErrorCode | Member | None:
    """None: all partitions may be committed. A member: its epoch is older, so `may_commit` has to be asked about
    each partition."""
    if committer.epoch < 0 and not group.members:
        return None
    anonymous = committer.epoch == -1 and not committer.member_id and committer.instance_id is None
    if committer.transactional and anonymous:
        return None
    member = group.members.get(committer.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not committer.transactional and committer.api_version < FIRST_COMMIT_VERSION:
        return ErrorCode.UNSUPPORTED_VERSION
    if committer.epoch == member.member_epoch:
        return None
    if committer.epoch > member.member_epoch or group.topology is None:
        return ErrorCode.STALE_MEMBER_EPOCH
    return member


def may_commit(group: StreamsGroup, member: Member, epoch: int, topic_name: str, partition: int) -> bool:
    """An older epoch may commit the input of active tasks that the member has had without interruption since then."""
    reader_of = group.topology.reader_of if group.topology is not None else {}
    if topic_name not in reader_of:
        return False
    subtopology = reader_of[topic_name]
    since = member.assigned.active.get(subtopology, {}).get(partition)
    if since is None:
        since = member.pending_revocation.active.get(subtopology, {}).get(partition)
    return since is not None and epoch >= since


def check_fetch(group: StreamsGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """OffsetFetch v9 and later: a member id and epoch, if given, have to be a member's."""
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.member_epoch else ErrorCode.STALE_MEMBER_EPOCH
