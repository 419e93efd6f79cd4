"""SyncGroup (14), Heartbeat (12) and LeaveGroup (13): what a member of a classic group sends after it has joined."""

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.handlers.groups.submission import submit_one
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from klamm.protocol.messages.groups.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from klamm.protocol.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse

FIRST_SYNC_VERSION_WITH_PROTOCOL = 5
FIRST_LEAVE_VERSION_WITH_MEMBERS = 3


def handle_sync_group(
    brokers: SimulatedBrokers, _image: MetadataImage, request: SyncGroupRequest, context: RequestContext
) -> Outcome:
    """The member's assignment, once the leader has sent it."""

    def error(code: ErrorCode) -> SyncGroupResponse:
        return SyncGroupResponse(error_code=code)

    code = _refuse_group(request.group_id, context)
    lacks_protocol = request.protocol_type is None or request.protocol_name is None
    if (
        context.api_version >= FIRST_SYNC_VERSION_WITH_PROTOCOL
        and lacks_protocol
        and code is not (ErrorCode.GROUP_AUTHORIZATION_FAILED)
    ):
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if code:
        return Outcome(error(code))
    return submit_one(
        brokers,
        context,
        request.group_id,
        lambda groups, waiter, now_ms: groups.sync(request, waiter, now_ms),
        error=error,
    )


def handle_heartbeat(
    brokers: SimulatedBrokers, _image: MetadataImage, request: HeartbeatRequest, context: RequestContext
) -> Outcome:
    """Whether the member is still in the generation, and whether it has to join again."""

    def error(code: ErrorCode) -> HeartbeatResponse:
        return HeartbeatResponse(error_code=code)

    code = _refuse_group(request.group_id, context)
    if code:
        return Outcome(error(code))
    return submit_one(
        brokers,
        context,
        request.group_id,
        lambda groups, waiter, now_ms: groups.heartbeat(request, waiter, now_ms),
        error=error,
    )


def handle_leave_group(
    brokers: SimulatedBrokers, _image: MetadataImage, request: LeaveGroupRequest, context: RequestContext
) -> Outcome:
    """Whether each member was in the group. Until version 2 a request is about one member."""
    has_members = context.api_version >= FIRST_LEAVE_VERSION_WITH_MEMBERS
    members = request.members if has_members else [MemberIdentity(member_id=request.member_id)]
    asked = LeaveGroupRequest(group_id=request.group_id, members=members)

    def finish(response: LeaveGroupResponse) -> LeaveGroupResponse:
        if not has_members and response.members:
            response.error_code, response.members = response.error_code or response.members[0].error_code, ()
        return response

    def error(code: ErrorCode) -> LeaveGroupResponse:
        return LeaveGroupResponse(error_code=code)

    code = _refuse_group(request.group_id, context)
    if code:
        return Outcome(error(code))
    return submit_one(
        brokers,
        context,
        request.group_id,
        lambda groups, waiter, now_ms: groups.leave(asked, waiter, now_ms),
        error=error,
        finish=finish,
    )


def _refuse_group(group_id: str, context: RequestContext) -> ErrorCode:
    if not context.authorize(AclOperation.READ, AclResourceType.GROUP, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.NONE if group_id else ErrorCode.INVALID_GROUP_ID
