"""JoinGroup and SyncGroup as the coordinator of a classic group sees them, and their responses."""

from collections.abc import Mapping
from dataclasses import dataclass

from klamm.broker.coordinator.outbox import Waiter
from klamm.broker.groups.classic_group import ClassicGroup, Member
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.groups.join_group import JoinGroupResponse, JoinGroupResponseMember
from klamm.protocol.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse


@dataclass(frozen=True, slots=True)
class Join:
    """A JoinGroup request with what the coordinator knows of its client."""

    waiter: Waiter
    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: Mapping[str, bytes]
    """The metadata by protocol name, in the order of the request."""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_id: str
    client_host: str
    requires_known_member_id: bool
    """Whether a new dynamic member gets its id first, and joins with a second request (JoinGroup v4 and later)."""
    can_skip_assignment: bool
    """Whether the response has `skip_assignment` (v9 and later)."""


def joined(group: ClassicGroup, member: Member) -> JoinGroupResponse:
    """The response to JoinGroup in the group's present generation. The leader gets all members."""
    members = []
    if group.leader_id == member.member_id:
        members = [
            JoinGroupResponseMember(
                member_id=one.member_id,
                group_instance_id=one.instance_id,
                metadata=one.metadata(group.protocol_name),
            )
            for one in group.in_order()
        ]
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=members,
    )


def refuse_sync(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    """Why a SyncGroup request is refused in every state of the group; NONE if it is not."""
    code = group.validate_member(request.member_id, request.group_instance_id)
    if code:
        return code
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    given = (request.protocol_type, group.protocol_type), (request.protocol_name, group.protocol_name)
    if any(asked is not None and asked != known for asked, known in given):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def synced(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    """The response to SyncGroup: the member's assignment."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )
