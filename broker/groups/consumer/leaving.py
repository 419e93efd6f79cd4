"""Members leave or are removed: by a request, or because a timer expired."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from klamm.broker.groups.consumer import records
from klamm.broker.groups.consumer.conversion import ClassicView, downgrade, downgrades_without, opened_consumer_group
from klamm.broker.groups.consumer.group import ConsumerGroup
from klamm.broker.groups.consumer.joining import find_present, stopped_timers
from klamm.broker.groups.consumer.member import LEAVING_STATIC_EPOCH, Member, at_epoch, partitions_of
from klamm.broker.groups.consumer.outcome import Context, Outcome, Timer, TimerKind
from klamm.broker.groups.consumer.subscriptions import metadata_hash, subscriptions_after
from klamm.protocol.errors import ApiError
from klamm.protocol.fields import Message
from klamm.protocol.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def leave(
    found: ConsumerGroup | ClassicView | None, request: ConsumerGroupHeartbeatRequest, context: Context
) -> Outcome | ApiError:
    """A member leaves for good (epoch -1), or a static one for a while (epoch -2)."""
    group = opened_consumer_group(found, request.group_id)
    if isinstance(group, ApiError):
        return group
    member = find_present(group, request.member_id, request.instance_id)
    if isinstance(member, ApiError):
        return member
    if request.instance_id is not None and request.member_epoch == LEAVING_STATIC_EPOCH:
        return _leave_for_a_while(group, member)
    response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    return remove(group, [member], context, response)


def _leave_for_a_while(group: ConsumerGroup, member: Member) -> Outcome:
    """The member keeps its partitions; who takes its place gets them at epoch 0, so that no older commit is refused."""
    away = replace(
        member,
        member_epoch=LEAVING_STATIC_EPOCH,
        assigned=at_epoch(partitions_of(member.assigned), 0),
        pending_revocation={},
    )
    return Outcome(
        ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=LEAVING_STATIC_EPOCH),
        [records.current(group.group_id, away)],
    )


def remove(
    group: ConsumerGroup, members: Sequence[Member], context: Context, response: Message | None = None
) -> Outcome:
    """Remove these members of the group; it becomes a classic group if those left all use the classic protocol."""
    if not members:
        return Outcome(response)
    if downgrades_without(group, members, context.settings):
        converted = downgrade(group, members, None, context, rebalance=True)
        if not isinstance(converted, ApiError):
            return replace(converted, response=response)
    group_id = group.group_id
    written = [record for member in members for record in records.no_member(group_id, member.member_id)]
    leaving = Counter(member.subscribed_topic_regex for member in members if member.subscribed_topic_regex)
    written += [
        records.no_regex(group_id, regex) for regex, count in leaving.items() if group.regex_counts[regex] == count
    ]
    after = subscriptions_after(group, members, [])
    new_hash = metadata_hash(after.all_topic_names(), context.topics)
    written.append(records.group_epoch(group_id, group.group_epoch + 1, new_hash))
    timers = [timer for member in members for timer in stopped_timers(member.member_id)]
    return Outcome(response, written, timers)


def expire(group: ConsumerGroup | None, timer: Timer, context: Context) -> Outcome:
    """What a timer does when it expires; nothing if the member is gone or has moved on."""
    member = group.members.get(timer.member_id) if group is not None else None
    if group is None or member is None:
        return Outcome()
    if timer.kind is TimerKind.REBALANCE and member.member_epoch != timer.member_epoch:
        return Outcome()
    return remove(group, [member], context)


def timers_when_loaded(group: ConsumerGroup, context: Context) -> list[Timer]:
    """The timers of all members when a coordinator has loaded the group: sessions start anew."""
    timers = []
    for member in group.members.values():
        timers.append(Timer(TimerKind.SESSION, member.member_id, context.settings.session_timeout_ms))
        if member.state.name == "UNREVOKED_PARTITIONS":
            timers.append(
                Timer(TimerKind.REBALANCE, member.member_id, member.rebalance_timeout_ms, member.member_epoch)
            )
    return timers
