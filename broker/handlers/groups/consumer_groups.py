"""ConsumerGroupHeartbeat (68) and ConsumerGroupDescribe (69): groups of KIP-848."""

from collections.abc import Sequence

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.groups.consumer.heartbeat import check_request, refused
from klamm.broker.groups.consumer.hosted import Client
from klamm.broker.groups.consumer.in_cluster import assignors_of
from klamm.broker.handlers.groups.join_group import client_host
from klamm.broker.handlers.groups.rebalance_protocols import CONSUMER, serves
from klamm.broker.handlers.groups.submission import submit_each, submit_one
from klamm.controller.answer_room import NO_ROOM, AnswerRoom, encoded_at_most
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.groups.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from klamm.protocol.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

GROUP_VERSION = "group.version"
"""The feature without which there are no groups of this protocol."""


def handle_consumer_group_heartbeat(
    brokers: SimulatedBrokers, image: MetadataImage, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> Outcome:
    """The member's epoch, and its partitions where they have changed.

    A member must be allowed to describe the topics that it names; those that its regular expression matches and that it
    may not describe are left out.
    """
    if not image.features.get(GROUP_VERSION) or not serves(CONSUMER, context):
        return Outcome(refused(ApiError(ErrorCode.UNSUPPORTED_VERSION)))
    if not context.authorize(AclOperation.READ, AclResourceType.GROUP, request.group_id):
        return Outcome(refused(ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)))
    names = list(dict.fromkeys(request.subscribed_topic_names or ()))
    if context.denied(AclOperation.DESCRIBE, AclResourceType.TOPIC, names):
        return Outcome(refused(ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
    assignors = assignors_of(context.settings, context.requester.asked_broker_id)
    refusal = check_request(request, context.api_version, assignors)
    if refusal is not None:
        return Outcome(refused(refusal))
    client = Client(
        client_id=context.requester.client_id or "",
        client_host=client_host(context),
        api_version=context.api_version,
        may_describe=context.permits(AclOperation.DESCRIBE, AclResourceType.TOPIC),
    )
    return submit_one(
        brokers,
        context,
        request.group_id,
        lambda groups, waiter, now_ms: groups.consumer_heartbeat(request, client, waiter, now_ms),
        error=lambda code: refused(ApiError(code)),
    )


def handle_consumer_group_describe(
    brokers: SimulatedBrokers, image: MetadataImage, request: ConsumerGroupDescribeRequest, context: RequestContext
) -> Outcome:
    """State and members of each group. A group with a topic that the requester may not describe is not shown. A group
    is described once, and returned as often as it is named, as long as the answer has room."""
    group_ids = list(request.group_ids)
    if not image.features.get(GROUP_VERSION) or not serves(CONSUMER, context):
        code = ErrorCode.UNSUPPORTED_VERSION
        return Outcome(
            ConsumerGroupDescribeResponse(groups=[DescribedGroup(group_id=one, error_code=code) for one in group_ids])
        )
    denied = context.denied(AclOperation.DESCRIBE, AclResourceType.GROUP, group_ids)
    not_asked = dict.fromkeys(denied, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if "" not in denied:
        not_asked[""] = ErrorCode.INVALID_GROUP_ID
    refused_groups = [
        DescribedGroup(group_id=group_id, error_code=not_asked[group_id])
        for group_id in group_ids
        if group_id in not_asked
    ]
    may_describe = context.permits(AclOperation.DESCRIBE, AclResourceType.TOPIC)
    asked = [group_id for group_id in group_ids if group_id not in not_asked]
    distinct = list(dict.fromkeys(asked))

    def finish(found: Sequence[DescribedGroup]) -> ConsumerGroupDescribeResponse:
        shown = [group for group in found if not group.error_code]
        if request.include_authorized_operations and shown:
            operations = context.authorized_operations(AclResourceType.GROUP, [group.group_id for group in shown])
            for group, bits in zip(shown, operations, strict=True):
                group.authorized_operations = bits
        seen = [group if all(map(may_describe, _topics_of(group))) else _hidden(group) for group in found]
        by_id = {group_id: (group, encoded_at_most(group)) for group_id, group in zip(distinct, seen, strict=True)}
        room = AnswerRoom()
        told = [by_id[name][0] if room.take(name, by_id[name][1]) else _without_room(name) for name in asked]
        return ConsumerGroupDescribeResponse(groups=[*refused_groups, *told])

    parts = [
        (
            group_id,
            lambda groups, waiter, _now_ms, group_id=group_id: groups.consumer_describe(group_id, waiter),
            lambda code, group_id=group_id: DescribedGroup(group_id=group_id, error_code=code),
        )
        for group_id in distinct
    ]
    return submit_each(brokers, context, parts, finish)


def _topics_of(group: DescribedGroup) -> set[str]:
    assignments = (each for member in group.members for each in (member.assignment, member.target_assignment))
    return {topic.topic_name for assignment in assignments for topic in assignment.topic_partitions}


def _without_room(group_id: str) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=NO_ROOM.code, error_message=NO_ROOM.message)


def _hidden(group: DescribedGroup) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="The group has described topic(s) that the client is not authorized to describe.",
    )
