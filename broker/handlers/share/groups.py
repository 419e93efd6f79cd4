"""ShareGroupHeartbeat (76) and ShareGroupDescribe (77). Order of the checks: KafkaApis."""

from typing import Final

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.groups.groups_with_streams import GroupsWithStreams
from klamm.broker.groups.share.heartbeat import MAX_MEMBER_ID_CHARACTERS, check_request, refused
from klamm.broker.handlers.groups.describing import HIDDEN, Describing
from klamm.broker.handlers.groups.join_group import client_host
from klamm.broker.handlers.groups.submission import submit_one
from klamm.broker.handlers.share.share_version import records_of_state_topic, share_groups_are_enabled
from klamm.broker.handlers.share.texts import text_of
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.shares.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from klamm.protocol.messages.shares.share_group_heartbeat import ShareGroupHeartbeatRequest


def member_id_is_valid(member_id: str | None) -> bool:
    """A member id has at most as many characters as a UUID in hexadecimal."""
    return member_id is not None and 0 < len(member_id) <= MAX_MEMBER_ID_CHARACTERS


def handle_share_group_heartbeat(
    brokers: SimulatedBrokers, image: MetadataImage, request: ShareGroupHeartbeatRequest, context: RequestContext
) -> Outcome:
    """The member's epoch, and its partitions where they have changed."""
    if not share_groups_are_enabled(image):
        return Outcome(refused(ApiError(ErrorCode.UNSUPPORTED_VERSION)))
    if not context.authorize(AclOperation.READ, AclResourceType.GROUP, request.group_id):
        return Outcome(refused(ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)))
    if not member_id_is_valid(request.member_id):
        return Outcome(refused(ApiError(ErrorCode.INVALID_REQUEST)))
    names = list(dict.fromkeys(request.subscribed_topic_names or ()))
    if context.denied(AclOperation.DESCRIBE, AclResourceType.TOPIC, names):
        return Outcome(refused(ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
    refusal = check_request(request)
    if refusal is not None:
        return Outcome(refused(refusal))
    client_id, host = context.requester.client_id or "", client_host(context)
    outcome = submit_one(
        brokers,
        context,
        request.group_id,
        lambda groups, waiter, now_ms: groups.share_heartbeat(request, client_id, host, waiter, now_ms),
        error=lambda code: refused(ApiError(code)),
    )
    return Outcome(outcome.response, records_of_state_topic(image, context), outcome.effects)


def handle_share_group_describe(
    brokers: SimulatedBrokers, image: MetadataImage, request: ShareGroupDescribeRequest, context: RequestContext
) -> Outcome:
    """State and members of each group."""
    if not share_groups_are_enabled(image):
        return _DESCRIBING.all_refused(request.group_ids, ErrorCode.UNSUPPORTED_VERSION)
    with_operations = request.include_authorized_operations
    return _DESCRIBING.ask(brokers, context, request.group_ids, with_operations=with_operations)


def _topics_of(group: DescribedGroup) -> set[str]:
    return {topic.topic_name for member in group.members for topic in member.assignment.topic_partitions}


_DESCRIBING: Final = Describing(
    described=DescribedGroup,
    response=ShareGroupDescribeResponse,
    operation=GroupsWithStreams.share_describe,
    topics_of=_topics_of,
    hidden_text=HIDDEN,
    text_of=text_of,
)
