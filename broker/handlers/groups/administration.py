"""DescribeGroups (15), ListGroups (16) and DeleteGroups (42)."""

from collections.abc import Sequence

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.coordinator.answer import Part
from klamm.broker.groups.classic_group import GroupState
from klamm.broker.handlers.groups.list_submission import ListSubmission
from klamm.broker.handlers.groups.submission import submit_each
from klamm.broker.handlers.share.deleted_groups import deletion_of
from klamm.controller.answer_room import NO_ROOM, AnswerRoom, encoded_at_most
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.groups.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from klamm.protocol.messages.groups.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from klamm.protocol.messages.groups.list_groups import ListGroupsRequest, ListGroupsResponse

FIRST_DESCRIBE_VERSION_WITH_NOT_FOUND = 6


def handle_describe_groups(
    brokers: SimulatedBrokers, _image: MetadataImage, request: DescribeGroupsRequest, context: RequestContext
) -> Outcome:
    """State and members of each group; of a group that does not exist, the state Dead. A group is described once, and
    returned as often as it is named, as long as the answer has room."""
    denied = context.denied(AclOperation.DESCRIBE, AclResourceType.GROUP, request.groups)
    refused = [
        DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for group_id in request.groups
        if group_id in denied
    ]
    asked = [group_id for group_id in request.groups if group_id not in denied]
    distinct = list(dict.fromkeys(asked))

    def finish(found: Sequence[DescribedGroup]) -> DescribeGroupsResponse:
        if context.api_version < FIRST_DESCRIBE_VERSION_WITH_NOT_FOUND:
            for group in found:
                group.error_message = None
                if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                    group.error_code, group.group_state = ErrorCode.NONE, GroupState.DEAD.value
        shown = [group for group in found if not group.error_code]
        if request.include_authorized_operations and shown:
            operations = context.authorized_operations(AclResourceType.GROUP, [group.group_id for group in shown])
            for group, bits in zip(shown, operations, strict=True):
                group.authorized_operations = bits
        by_id = {group_id: (group, encoded_at_most(group)) for group_id, group in zip(distinct, found, strict=True)}
        room = AnswerRoom()
        told = [by_id[name][0] if room.take(name, by_id[name][1]) else without_room(name) for name in asked]
        return DescribeGroupsResponse(groups=[*refused, *told])

    def without_room(group_id: str) -> DescribedGroup:
        text = NO_ROOM.message if context.api_version >= FIRST_DESCRIBE_VERSION_WITH_NOT_FOUND else None
        return DescribedGroup(group_id=group_id, error_code=NO_ROOM.code, error_message=text)

    parts = [
        (
            group_id,
            lambda groups, waiter, _now_ms, group_id=group_id: groups.describe(group_id, waiter),
            lambda code, group_id=group_id: DescribedGroup(group_id=group_id, error_code=code),
        )
        for group_id in distinct
    ]
    return submit_each(brokers, context, parts, finish)


def handle_delete_groups(
    brokers: SimulatedBrokers, _image: MetadataImage, request: DeleteGroupsRequest, context: RequestContext
) -> Outcome:
    """Deletes groups without members, with their offsets. A group that is named twice is answered once."""
    names = list(dict.fromkeys(request.groups_names))
    denied = context.denied(AclOperation.DELETE, AclResourceType.GROUP, names)
    refused = [
        DeletableGroupResult(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for group_id in names
        if group_id in denied
    ]
    asked = [group_id for group_id in names if group_id not in denied]

    def finish(found: Sequence[DeletableGroupResult]) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(results=[*found, *refused])

    answer = brokers.coordinators.new_answer(len(asked), finish)
    effects = [
        deletion_of(
            brokers,
            context,
            group_id,
            Part(answer, number, lambda code, name=group_id: DeletableGroupResult(group_id=name, error_code=code)),  # type: ignore[misc]
        )
        for number, group_id in enumerate(asked)
    ]
    return Outcome(answer, effects=effects)


def handle_list_groups(
    brokers: SimulatedBrokers, image: MetadataImage, request: ListGroupsRequest, context: RequestContext
) -> Outcome:
    """The groups that this broker coordinates."""
    sees_all = context.authorize_cluster(AclOperation.DESCRIBE)

    def finish(found: Sequence[ListGroupsResponse]) -> ListGroupsResponse:
        code = next((one.error_code for one in found if one.error_code), ErrorCode.NONE)
        if code:
            return ListGroupsResponse(error_code=code)
        may_see = context.permits(AclOperation.DESCRIBE, AclResourceType.GROUP)
        groups = [group for one in found for group in one.groups if sees_all or may_see(group.group_id)]
        return ListGroupsResponse(groups=groups)

    asked = context.requester.asked_broker_id
    indexes = brokers.coordinators.led_partitions(image, asked)
    answer = brokers.coordinators.new_answer(len(indexes), finish)
    effects = [
        ListSubmission(
            brokers,
            asked,
            index,
            tuple(request.states_filter),
            tuple(request.types_filter),
            Part(answer, number, lambda code: ListGroupsResponse(error_code=code)),
        )
        for number, index in enumerate(indexes)
    ]
    return Outcome(answer, effects=effects)
