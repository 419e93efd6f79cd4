"""JoinGroup (11): a member joins a classic group, and waits until all others have."""

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.coordinator.outbox import Outbox, Waiter
from klamm.broker.groups.classic_requests import Join
from klamm.broker.groups.groups import Groups
from klamm.broker.handlers.groups.submission import submit_one
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.groups.join_group import JoinGroupRequest, JoinGroupResponse

FIRST_VERSION_WITH_REBALANCE_TIMEOUT = 1
FIRST_VERSION_WITH_MEMBER_ID_REQUIRED = 4
FIRST_VERSION_WITH_NULL_PROTOCOL = 7
FIRST_VERSION_WITH_SKIP_ASSIGNMENT = 9


def handle_join_group(
    brokers: SimulatedBrokers, _image: MetadataImage, request: JoinGroupRequest, context: RequestContext
) -> Outcome:
    """The generation that the member is in once the rebalance is complete."""
    version = context.api_version

    def finish(response: JoinGroupResponse) -> JoinGroupResponse:
        if response.error_code and not response.protocol_name:
            response.protocol_name = None
        if version < FIRST_VERSION_WITH_NULL_PROTOCOL and response.protocol_name is None:
            response.protocol_name = ""
        return response

    def error(code: ErrorCode) -> JoinGroupResponse:
        return JoinGroupResponse(error_code=code, member_id=request.member_id)

    def join(groups: Groups, waiter: Waiter, now_ms: int) -> Outbox:
        return groups.join(request.group_id, _join_of(request, context, waiter), now_ms)

    code = _refuse(request, context)
    if code:
        return Outcome(finish(error(code)))
    return submit_one(brokers, context, request.group_id, join, error=error, finish=finish)


def _refuse(request: JoinGroupRequest, context: RequestContext) -> ErrorCode:
    if not context.authorize(AclOperation.READ, AclResourceType.GROUP, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    settings, broker_id = context.settings, context.requester.asked_broker_id
    shortest = settings.static_int("group.min.session.timeout.ms", broker_id)
    longest = settings.static_int("group.max.session.timeout.ms", broker_id)
    if not shortest <= request.session_timeout_ms <= longest:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return ErrorCode.NONE


def _join_of(request: JoinGroupRequest, context: RequestContext, waiter: Waiter) -> Join:
    has_rebalance_timeout = context.api_version >= FIRST_VERSION_WITH_REBALANCE_TIMEOUT
    return Join(
        waiter=waiter,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocols={protocol.name: bytes(protocol.metadata) for protocol in request.protocols},
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms if has_rebalance_timeout else request.session_timeout_ms,
        client_id=context.requester.client_id or "",
        client_host=client_host(context),
        requires_known_member_id=context.api_version >= FIRST_VERSION_WITH_MEMBER_ID_REQUIRED,
        can_skip_assignment=context.api_version >= FIRST_VERSION_WITH_SKIP_ASSIGNMENT,
    )


def client_host(context: RequestContext) -> str:
    """The client's address as groups show it: as Java prints an InetAddress without a name."""
    return f"/{context.requester.host}"
