"""ConsumerGroupHeartbeat (KIP-848): a member joins, says what it has and wants, and learns what it gets; or leaves."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from klamm.broker.groups.consumer.conversion import ClassicView, open_group
from klamm.broker.groups.consumer.group import ConsumerGroup
from klamm.broker.groups.consumer.joining import Found, fenced_epoch, find_joining, find_present, full
from klamm.broker.groups.consumer.leaving import leave
from klamm.broker.groups.consumer.member import LEAVING_EPOCH, LEAVING_STATIC_EPOCH, Member, partitions_of
from klamm.broker.groups.consumer.outcome import Context, Outcome, Timer, TimerKind
from klamm.broker.groups.consumer.reconciliation import Owned
from klamm.broker.groups.consumer.work import Work
from klamm.protocol.error_codes import ErrorCode
from klamm.protocol.errors import ApiError
from klamm.protocol.messages.groups.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from klamm.protocol.uuid import Uuid

NOT_GIVEN = -1


def refused(error: ApiError) -> ConsumerGroupHeartbeatResponse:
    """The response of a refused heartbeat: member id null, epoch and interval 0."""
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)


def handle_heartbeat(
    group: ConsumerGroup | ClassicView | None, request: ConsumerGroupHeartbeatRequest, context: Context
) -> Outcome | ApiError:
    """Decide a heartbeat about `group`, which is what the coordinator has under the request's group id.

    The request has passed `check_request`, which needs no coordinator."""
    if request.member_epoch in (LEAVING_EPOCH, LEAVING_STATIC_EPOCH):
        return leave(group, request, context)
    joins = request.member_epoch == 0
    opened = open_group(group, request.group_id, context, joins=joins)
    if isinstance(opened, ApiError):
        return opened
    refusal = full(opened.group, request.member_id, context.settings)
    if refusal is not None:
        return refusal
    found = _find(opened.group, request, context)
    if isinstance(found, ApiError):
        return found
    work = Work(found.group, context, [*opened.records, *found.records], [*opened.timers, *found.timers])
    return _beat(work, found.member, request)


def check_request(
    request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: Sequence[str]
) -> ApiError | None:
    """What is wrong with the request whatever the group is, in Kafka's order. `assignors` are those of the broker."""
    epoch = request.member_epoch
    if (api_version >= 1 or epoch > 0 or epoch == LEAVING_EPOCH) and not request.member_id.strip():
        return _invalid("MemberId can't be empty.")
    for name, text in (("GroupId", request.group_id), ("InstanceId", request.instance_id), ("RackId", request.rack_id)):
        if text is not None and not text.strip():
            return _invalid(f"{name} can't be empty.")
    wrong = _wrong_epoch(request) if epoch < 0 else _wrong_join(request) if epoch == 0 else None
    if wrong is not None:
        return _invalid(wrong)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        return ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )
    return None


def _wrong_epoch(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.member_epoch < LEAVING_STATIC_EPOCH:
        return "MemberEpoch is invalid."
    if request.member_epoch == LEAVING_STATIC_EPOCH and request.instance_id is None:
        return "InstanceId can't be null."
    return None


def _wrong_join(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == NOT_GIVEN:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.topic_partitions is None or request.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def _find(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, context: Context) -> Found | ApiError:
    if request.member_epoch == 0:
        member_id = request.member_id or context.new_member_id()
        return find_joining(group, member_id, request.instance_id, classic=False)
    member = find_present(group, request.member_id, request.instance_id)
    if isinstance(member, ApiError):
        return member
    return fenced_epoch(member, request.member_epoch, owned_of(request.topic_partitions)) or Found(group, member)


def owned_of(topic_partitions: Iterable[TopicPartitions] | None) -> Owned | None:
    """The partitions of a request by topic id; None if it says nothing of them."""
    if topic_partitions is None:
        return None
    owned: dict[Uuid, set[int]] = {}
    for topic in topic_partitions:
        owned.setdefault(topic.topic_id, set()).update(topic.partitions)
    return owned


def _beat(work: Work, member: Member, request: ConsumerGroupHeartbeatRequest) -> Outcome | ApiError:
    context = work.context
    updated = _updated(member, request, context)
    settled = work.settle(member, updated, owned_of(request.topic_partitions))
    if isinstance(settled, ApiError):
        return settled
    work.timers.append(Timer(TimerKind.SESSION, settled.member_id, context.settings.session_timeout_ms))
    is_full = (
        request.rebalance_timeout_ms != NOT_GIVEN
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )
    shows_assignment = request.member_epoch == 0 or is_full or settled.assigned != member.assigned
    return work.outcome(
        ConsumerGroupHeartbeatResponse(
            member_id=settled.member_id,
            member_epoch=settled.member_epoch,
            heartbeat_interval_ms=context.settings.heartbeat_interval_ms,
            assignment=shown_assignment(settled) if shows_assignment else None,
        )
    )


def _updated(member: Member, request: ConsumerGroupHeartbeatRequest, context: Context) -> Member:
    """The member with what the request says; what it leaves out (null, -1) stays."""
    names, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=request.instance_id if request.instance_id is not None else member.instance_id,
        rack_id=request.rack_id if request.rack_id is not None else member.rack_id,
        rebalance_timeout_ms=timeout_ms if timeout_ms != NOT_GIVEN else member.rebalance_timeout_ms,
        server_assignor=request.server_assignor if request.server_assignor is not None else member.server_assignor,
        subscribed_topic_names=frozenset(names) if names is not None else member.subscribed_topic_names,
        subscribed_topic_regex=(
            request.subscribed_topic_regex
            if request.subscribed_topic_regex is not None
            else member.subscribed_topic_regex
        ),
        client_id=context.client_id,
        client_host=context.client_host,
        classic=None,
    )


def shown_assignment(member: Member) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in partitions_of(member.assigned).items()
        ]
    )
