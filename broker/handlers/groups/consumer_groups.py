"""ConsumerGroupHeartbeat (68) and ConsumerGroupDescribe (69): groups of KIP-848."""

from typing import Final

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.groups.consumer.heartbeat import check_request, refused
from klamm.broker.groups.consumer.hosted import Client
from klamm.broker.groups.consumer.in_cluster import assignors_of
from klamm.broker.groups.groups_with_streams import GroupsWithStreams
from klamm.broker.handlers.groups.describing import HIDDEN, Describing
from klamm.broker.handlers.groups.join_group import client_host
from klamm.broker.handlers.groups.rebalance_protocols import CONSUMER, serves
from klamm.broker.handlers.groups.submission import submit_one
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
    """State and members of each group."""
    if not image.features.get(GROUP_VERSION) or not serves(CONSUMER, context):
        return _DESCRIBING.all_refused(request.group_ids, ErrorCode.UNSUPPORTED_VERSION)
    with_operations = request.include_authorized_operations
    return _DESCRIBING.ask(brokers, context, request.group_ids, with_operations=with_operations)


def _topics_of(group: DescribedGroup) -> set[str]:
    assignments = (each for member in group.members for each in (member.assignment, member.target_assignment))
    return {topic.topic_name for assignment in assignments for topic in assignment.topic_partitions}


_DESCRIBING: Final = Describing(
    described=DescribedGroup,
    response=ConsumerGroupDescribeResponse,
    operation=GroupsWithStreams.consumer_describe,
    topics_of=_topics_of,
    hidden_text=HIDDEN,
)
