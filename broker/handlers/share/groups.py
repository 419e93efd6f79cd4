"""ShareGroupHeartbeat (76) and ShareGroupDescribe (77). Order of the checks: KafkaApis."""

from collections.abc import Sequence

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.groups.share.heartbeat import MAX_MEMBER_ID_CHARACTERS, check_request, refused
from klamm.broker.handlers.groups.join_group import client_host
from klamm.broker.handlers.groups.submission import submit_each, submit_one
from klamm.broker.handlers.share.share_version import records_of_state_topic, share_groups_are_enabled
from klamm.broker.handlers.share.texts import text_of
from klamm.controller.answer_room import NO_ROOM, AnswerRoom, encoded_at_most
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
    """State and members of each group. A group with a topic that the requester may not describe is not shown. A group
    is described once, and returned as often as it is named, as long as the answer has room."""
    group_ids = list(request.group_ids)
    if not share_groups_are_enabled(image):
        code = ErrorCode.UNSUPPORTED_VERSION
        return Outcome(ShareGroupDescribeResponse(groups=[_error(group_id, code) for group_id in group_ids]))
    denied = context.denied(AclOperation.DESCRIBE, AclResourceType.GROUP, group_ids)
    not_asked = dict.fromkeys(denied, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if "" not in denied:
        not_asked[""] = ErrorCode.INVALID_GROUP_ID
    refused_groups = [_error(group_id, not_asked[group_id]) for group_id in group_ids if group_id in not_asked]
    may_describe = context.permits(AclOperation.DESCRIBE, AclResourceType.TOPIC)
    asked = [group_id for group_id in group_ids if group_id not in not_asked]
    distinct = list(dict.fromkeys(asked))

    def finish(found: Sequence[DescribedGroup]) -> ShareGroupDescribeResponse:
        shown = [group for group in found if not group.error_code]
        if request.include_authorized_operations and shown:
            operations = context.authorized_operations(AclResourceType.GROUP, [group.group_id for group in shown])
            for group, bits in zip(shown, operations, strict=True):
                group.authorized_operations = bits
        seen = [group if all(map(may_describe, _topics_of(group))) else _hidden(group) for group in found]
        by_id = {group_id: (group, encoded_at_most(group)) for group_id, group in zip(distinct, seen, strict=True)}
        room = AnswerRoom()
        told = [by_id[name][0] if room.take(name, by_id[name][1]) else _without_room(name) for name in asked]
        return ShareGroupDescribeResponse(groups=[*refused_groups, *told])

    parts = [
        (
            group_id,
            lambda groups, waiter, _now_ms, group_id=group_id: groups.share_describe(group_id, waiter),
            lambda code, group_id=group_id: _error(group_id, code, text_of(code)),
        )
        for group_id in distinct
    ]
    return submit_each(brokers, context, parts, finish)


def _topics_of(group: DescribedGroup) -> set[str]:
    return {topic.topic_name for member in group.members for topic in member.assignment.topic_partitions}


def _error(group_id: str, code: ErrorCode, text: str | None = None) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=code, error_message=text)


def _without_room(group_id: str) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=NO_ROOM.code, error_message=NO_ROOM.message)


def _hidden(group: DescribedGroup) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="The group has described topic(s) that the client is not authorized to describe.",
    )
