"""The response of a heartbeat that is accepted: epochs, tasks where they changed, statuses, end points."""

from collections.abc import Iterable, Mapping

from klamm.broker.groups.streams.checks import JOINING_EPOCH
from klamm.broker.groups.streams.endpoints import partitions_by_endpoint
from klamm.broker.groups.streams.internal_topics import StatusCode
from klamm.broker.groups.streams.member import Member
from klamm.broker.groups.streams.topology import TopologyFault
from klamm.broker.groups.streams.work import Work
from klamm.controller.config_definitions.hash_order import in_hash_order
from klamm.controller.configs import shortened
from klamm.protocol.error_codes import ErrorCode
from klamm.protocol.messages.streams.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)


def full_response(
    work: Work, before: Member, member: Member, request: StreamsGroupHeartbeatRequest, *, is_known: bool
) -> StreamsGroupHeartbeatResponse:
    """The response to `member`, which was `before`. `is_known`: a group of this id was there before the request."""
    response = StreamsGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        heartbeat_interval_ms=work.context.settings.heartbeat_interval_ms,
    )
    soft, configured = work.soft, work.configured
    assert configured is not None
    if request.member_epoch == JOINING_EPOCH or member.assigned != before.assigned:
        response.active_tasks = _listed(member.assigned.active)
        response.standby_tasks = _listed(member.assigned.standby)
        response.warmup_tasks = _listed(member.assigned.warmup)
        soft.endpoint_epoch += member.user_endpoint is not None
    if soft.endpoint_epoch != request.endpoint_information_epoch:
        _refuse_end_points_without_tasks(work, member)
        response.partitions_by_user_endpoint = partitions_by_endpoint(
            work.group, member, configured, work.context.topics
        )
    if is_known:
        # A group that this request makes does not remember its end points, as in Kafka.
        response.endpoint_information_epoch = soft.endpoint_epoch
    if configured.fault is not None:
        code, detail = configured.fault
        work.note(code, detail + (work.context.creation_remark if configured.missing else ""))
    if soft.shutdown_by is not None:
        work.note(
            StatusCode.SHUTDOWN_APPLICATION,
            shortened(
                f"Streams group member {soft.shutdown_by} encountered a fatal error and requested a shutdown for the "
                "entire application."
            ),
        )
    response.status = work.statuses
    return response


def _refuse_end_points_without_tasks(work: Work, member: Member) -> None:
    """Kafka's coordinator fails where a member has an end point and the tasks of the topology cannot be counted."""
    assert work.configured is not None
    if work.configured.subtopologies is None and any(
        each.user_endpoint is not None for each in (member, *work.group.members.values())
    ):
        raise TopologyFault(ErrorCode.UNKNOWN_SERVER_ERROR)


def _listed(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=sorted(tasks[name])) for name in in_hash_order(tasks)]
