"""A member's way from the tasks that it has to those of the target assignment.

It first gives up what the target no longer has, at its old epoch; then it moves to the target's epoch and gets what is
free. An active task is free when no member has it, a standby task when no member of the same process has it in any
role. Source: KIP-1071, section on the reconciliation of a group, and Kafka 4.3's answers.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from klamm.broker.groups.streams.group import StreamsGroup
from klamm.broker.groups.streams.member import Member, MemberState
from klamm.broker.groups.streams.tasks import AssignedTasks, Tasks, TaskSets
from klamm.protocol.error_codes import ErrorCode
from klamm.protocol.errors import ApiError

CurrentT = TypeVar("CurrentT", bound=Iterable[int])


@dataclass(frozen=True, slots=True)
class Target:
    """Where a member is to get."""

    epoch: int
    tasks: Tasks


def reconcile(group: StreamsGroup, member: Member, target: Target, owned: Tasks | None) -> Member | ApiError:
    """The member after this heartbeat; itself if nothing changes. `owned`: the tasks that it says it has; None: it did
    not say."""
    if member.is_reconciled_to(target.epoch):
        return member  # even if the target has no longer what it has
    if member.state is MemberState.STABLE or member.state is MemberState.UNRELEASED_TASKS:
        return _next(group, member, target, owned, member.member_epoch)
    if member.state is MemberState.UNREVOKED_TASKS:
        if owned is None or owned.overlaps(member.pending_revocation):
            return member
        return _next(group, member, target, owned, member.member_epoch + 1)
    if owned is None or not owned.is_empty:
        return ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.",
        )
    return _next(group, member, target, owned, target.epoch)


def _next(group: StreamsGroup, member: Member, target: Target, owned: Tasks | None, epoch: int) -> Member:
    """The member with what it keeps, gives up and gets. `epoch`: the one in which it gives tasks up."""
    process_id = member.process_id

    def is_anothers(subtopology: str, partition: int) -> bool:
        active = group.active_process(subtopology, partition)
        return active is not None or group.follows(subtopology, partition, process_id)

    def is_of_this_process(subtopology: str, partition: int) -> bool:
        active = group.active_process(subtopology, partition)
        return active == process_id or group.follows(subtopology, partition, process_id)

    has, wants = member.assigned, target.tasks
    active = _difference(has.active, wants.active, is_anothers)
    standby = _difference(has.standby, wants.standby, is_of_this_process)
    warmup = _difference(has.warmup, wants.warmup, is_of_this_process)
    active_epochs = {
        subtopology: {partition: has.active[subtopology][partition] for partition in partitions}
        for subtopology, partitions in active.kept.items()
    }
    revoked = AssignedTasks(
        {
            subtopology: {partition: has.active[subtopology][partition] for partition in partitions}
            for subtopology, partitions in active.revoked.items()
        },
        standby.revoked,
        warmup.revoked,
    )
    if not revoked.is_empty and (owned is None or owned.overlaps(revoked)):
        kept = AssignedTasks(active_epochs, standby.kept, warmup.kept)
        return _moved(member, epoch, MemberState.UNREVOKED_TASKS, kept, revoked)
    for subtopology, partitions in active.free.items():
        active_epochs.setdefault(subtopology, {}).update(dict.fromkeys(sorted(partitions), target.epoch))
    has_unreleased = active.is_incomplete or standby.is_incomplete or warmup.is_incomplete
    state = MemberState.UNRELEASED_TASKS if has_unreleased else MemberState.STABLE
    assigned = AssignedTasks(active_epochs, standby.with_free(), warmup.with_free())
    return _moved(member, target.epoch, state, assigned, AssignedTasks())


@dataclass(frozen=True, slots=True)
class _Difference:
    """The way from tasks of one role to others."""

    kept: dict[str, frozenset[int]]
    revoked: dict[str, frozenset[int]]
    free: dict[str, frozenset[int]]
    is_incomplete: bool
    """Tasks of the target are still at other members."""

    def with_free(self) -> dict[str, frozenset[int]]:
        merged = dict(self.kept)
        for subtopology, partitions in self.free.items():
            merged[subtopology] = merged.get(subtopology, frozenset()) | partitions
        return merged


def _difference(has: Mapping[str, CurrentT], wants: TaskSets, is_taken: Callable[[str, int], bool]) -> _Difference:
    kept: dict[str, frozenset[int]] = {}
    revoked: dict[str, frozenset[int]] = {}
    free: dict[str, frozenset[int]] = {}
    is_incomplete = False
    for subtopology in {**wants, **has}:
        current = frozenset(has.get(subtopology, ()))
        wanted = wants.get(subtopology, frozenset())
        new = wanted - current
        available = frozenset(partition for partition in new if not is_taken(subtopology, partition))
        is_incomplete |= len(available) < len(new)
        for found, partitions in ((kept, current & wanted), (revoked, current - wanted), (free, available)):
            if partitions:
                found[subtopology] = partitions
    return _Difference(kept, revoked, free, is_incomplete)


def _moved(member: Member, epoch: int, state: MemberState, assigned: AssignedTasks, revoked: AssignedTasks) -> Member:
    return replace(
        member,
        previous_member_epoch=member.member_epoch,
        member_epoch=epoch,
        state=state,
        assigned=assigned,
        pending_revocation=revoked,
    )
