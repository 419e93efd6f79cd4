"""What is wrong with a heartbeat whatever the group is, in Kafka's order, and what is wrong with it for a member."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from klamm.broker.groups.streams.internal_topics import ConfiguredSubtopology
from klamm.broker.groups.streams.member import LEAVING_STATIC_EPOCH, Member
from klamm.protocol.error_codes import ErrorCode
from klamm.protocol.errors import ApiError
from klamm.protocol.messages.streams.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskIds

JOINING_EPOCH: Final = 0
NOT_GIVEN: Final = -1
_JAVA_SPACE: Final = "".join(map(chr, range(ord(" ") + 1)))
_ALL_OR_NONE: Final = "If one task-type is non-null, all must be non-null."


def check_request(request: StreamsGroupHeartbeatRequest) -> ApiError | None:
    """Features that Kafka 4.3 does not support, then what does not fit together. Needs no coordinator."""
    for wrong in (_unsupported(request), _empty(request)):
        if wrong is not None:
            return _invalid(wrong)
    epoch = request.member_epoch
    if epoch == JOINING_EPOCH:
        refusal = _wrong_join(request)
        if refusal is not None:
            return refusal
    elif epoch <= LEAVING_STATIC_EPOCH:
        # Instance ids are refused above.
        is_static = epoch == LEAVING_STATIC_EPOCH
        text = f"MemberEpoch is {epoch}, but must be greater than or equal to -2."
        return _invalid("InstanceId can't be null." if is_static else text)
    given = [tasks is not None for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks)]
    if any(given) and not all(given):
        return _invalid(_ALL_OR_NONE)
    if epoch != JOINING_EPOCH and request.topology is not None:
        return _invalid("Topology can only be provided when (re-)joining.")
    return None


def _unsupported(request: StreamsGroupHeartbeatRequest) -> str | None:
    if request.instance_id is not None:
        return "Static membership is not yet supported."
    if request.task_offsets is not None:
        return "TaskOffsets are not supported yet."
    if request.task_end_offsets is not None:
        return "TaskEndOffsets are not supported yet."
    if request.warmup_tasks:
        return "WarmupTasks are not supported yet."
    if request.topology is not None and any(each.source_topic_regex for each in request.topology.subtopologies):
        return "Regular expressions for source topics are not supported yet."
    return None


def _empty(request: StreamsGroupHeartbeatRequest) -> str | None:
    for name, text in (("MemberId", request.member_id), ("GroupId", request.group_id), ("RackId", request.rack_id)):
        if text is not None and not text.strip(_JAVA_SPACE):
            return f"{name} can't be empty."
    return None


def _wrong_join(request: StreamsGroupHeartbeatRequest) -> ApiError | None:
    if request.rebalance_timeout_ms == NOT_GIVEN:
        return _invalid("RebalanceTimeoutMs must be provided in first request.")
    for name, tasks in (
        ("ActiveTasks", request.active_tasks),
        ("StandbyTasks", request.standby_tasks),
        ("WarmupTasks", request.warmup_tasks),
    ):
        if tasks is None or tasks:
            return _invalid(f"{name} must be empty when (re-)joining.")
    if request.topology is None:
        return _invalid("Topology must be non-null when (re-)joining.")
    for each in request.topology.subtopologies:
        for topic in each.state_changelog_topics:
            if topic.partitions:
                return ApiError(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}.",
                )
    return None


def fenced_epoch(member: Member, request: StreamsGroupHeartbeatRequest) -> ApiError | None:
    """Refuses epochs other than the member's. The one before is accepted from a member that has lost the answer with
    the new one: it has nothing but what it has been assigned."""
    epoch = request.member_epoch
    if epoch in (JOINING_EPOCH, member.member_epoch):
        return None
    assigned = member.assigned
    if epoch == member.previous_member_epoch < member.member_epoch and all(
        _is_within(tasks, known)
        for tasks, known in (
            (request.active_tasks, assigned.active),
            (request.standby_tasks, assigned.standby),
            (request.warmup_tasks, assigned.warmup),
        )
    ):
        return None
    relation = "greater" if epoch > member.member_epoch else "smaller"
    return ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {relation} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.member_epoch}). The member must abandon all its partitions and rejoin.",
    )


def _is_within(tasks: Sequence[TaskIds] | None, known: Mapping[str, Iterable[int]]) -> bool:
    return tasks is not None and all(
        each.subtopology_id in known and set(known[each.subtopology_id]).issuperset(each.partitions) for each in tasks
    )


def check_tasks(
    subtopologies: Mapping[str, ConfiguredSubtopology], request: StreamsGroupHeartbeatRequest
) -> ApiError | None:
    """Refuses tasks that the topology does not have."""
    for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
        for each in tasks or ():
            subtopology = subtopologies.get(each.subtopology_id)
            if subtopology is None:
                return _invalid(f"Subtopology {each.subtopology_id} does not exist in the topology.")
            for partition in each.partitions:
                if not 0 <= partition < subtopology.tasks:
                    return _invalid(
                        f"Task {partition} for subtopology {each.subtopology_id} is invalid. Number of tasks for this "
                        f"subtopology: {subtopology.tasks}"
                    )
    return None


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
