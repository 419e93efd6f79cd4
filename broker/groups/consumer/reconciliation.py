"""A member's way from the partitions that it has to those of the target assignment.

It first gives up what the target no longer has, at its old epoch; then it moves to the target's epoch and gets what
other members have released. Source: KIP-848, section on the reconciliation of a group, and Kafka 4.3's answers.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from klamm.broker.groups.assignors import Assignment
from klamm.broker.groups.consumer.member import Member, MemberState, PartitionEpochs
from klamm.protocol.error_codes import ErrorCode
from klamm.protocol.errors import ApiError
from klamm.protocol.uuid import Uuid

Owned = Mapping[Uuid, Collection[int]]


@dataclass(frozen=True, slots=True)
class Target:
    """Where a member is to get."""

    epoch: int
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What a step of a member depends on beside the member."""

    target: Target
    topic_ids: Collection[Uuid]
    """The topics that the member is subscribed to and that exist."""
    owned: Owned | None
    """The partitions that the member says it owns. None: it did not say."""
    is_owned: Callable[[Uuid, int], bool]
    """Whether any member has a partition, or has still to give it up."""
    subscription_changed: bool = False

    def step(self, member: Member) -> Member | ApiError:
        """The member after this heartbeat; itself if nothing changes."""
        if not self.subscription_changed and member.is_reconciled_to(self.target.epoch):
            return member
        if member.state is MemberState.STABLE and member.member_epoch == self.target.epoch:
            return self._without_unsubscribed(member)
        if member.state is MemberState.UNREVOKED_PARTITIONS and self._still_owns(member.pending_revocation):
            return self._without_unsubscribed(member) if self.subscription_changed else member
        if member.state is MemberState.UNKNOWN:
            if self.owned is None or self.owned:
                return ApiError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The consumer group member is in a unknown state. The member must abandon all its partitions and "
                    "rejoin.",
                )
            return self._next(replace(member, member_epoch=self.target.epoch), member)
        return self._next(member, member)

    def _still_owns(self, partitions: PartitionEpochs) -> bool:
        if self.owned is None:
            return True
        return any(
            partition in partitions.get(topic_id, ())
            for topic_id, indexes in self.owned.items()
            for partition in indexes
        )

    def _without_unsubscribed(self, member: Member) -> Member:
        """The member without topics that it is no longer subscribed to; the target will follow."""
        kept = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id in self.topic_ids}
        if len(kept) == len(member.assigned):
            return member
        revoked = {topic_id: dict(epochs) for topic_id, epochs in member.pending_revocation.items()}
        for topic_id in member.assigned.keys() - kept.keys():
            revoked.setdefault(topic_id, {}).update(member.assigned[topic_id])
        if self._still_owns(revoked):
            return _moved(member, member.member_epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
        return _moved(member, member.member_epoch, member.state, kept, member.pending_revocation)

    def _next(self, member: Member, before: Member) -> Member:
        """The member with what it keeps, gives up and gets."""
        wanted = {
            topic_id: frozenset(partitions)
            for topic_id, partitions in self.target.assignment.items()
            if topic_id in self.topic_ids
        }
        kept = _intersection(member.assigned, wanted)
        revoked = _difference(member.assigned, wanted)
        if revoked and self._still_owns(revoked):
            return _moved(before, member.member_epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
        assigned = {topic_id: dict(epochs) for topic_id, epochs in kept.items()}
        state = MemberState.STABLE
        for topic_id, partitions in wanted.items():
            for partition in partitions:
                if partition in kept.get(topic_id, ()):
                    continue
                if self._is_anothers(topic_id, partition, member):
                    state = MemberState.UNRELEASED_PARTITIONS
                else:
                    assigned.setdefault(topic_id, {})[partition] = self.target.epoch
        return _moved(before, self.target.epoch, state, assigned, {})

    def _is_anothers(self, topic_id: Uuid, partition: int, member: Member) -> bool:
        return self.is_owned(topic_id, partition) and partition not in member.pending_revocation.get(topic_id, ())


def _moved(
    member: Member, epoch: int, state: MemberState, assigned: PartitionEpochs, revoked: PartitionEpochs
) -> Member:
    return replace(
        member,
        previous_member_epoch=member.member_epoch,
        member_epoch=epoch,
        state=state,
        assigned=assigned,
        pending_revocation=revoked,
    )


def _intersection(epochs: PartitionEpochs, wanted: Mapping[Uuid, Collection[int]]) -> dict[Uuid, dict[int, int]]:
    return _filtered(epochs, lambda topic_id, partition: partition in wanted.get(topic_id, ()))


def _difference(epochs: PartitionEpochs, wanted: Mapping[Uuid, Collection[int]]) -> dict[Uuid, dict[int, int]]:
    return _filtered(epochs, lambda topic_id, partition: partition not in wanted.get(topic_id, ()))


def _filtered(epochs: PartitionEpochs, keep: Callable[[Uuid, int], bool]) -> dict[Uuid, dict[int, int]]:
    kept = {
        topic_id: {partition: epoch for partition, epoch in partitions.items() if keep(topic_id, partition)}
        for topic_id, partitions in epochs.items()
    }
    return {topic_id: partitions for topic_id, partitions in kept.items() if partitions}
