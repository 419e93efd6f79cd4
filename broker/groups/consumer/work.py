"""What a heartbeat, or a join by the classic protocol, does to a group: its epoch, its target, the member.

Each step sees the group as it was before the request, and what the steps before it have decided.
"""

from dataclasses import dataclass, field

from klamm.broker.groups.consumer import records, regexes
from klamm.broker.groups.consumer.group import ConsumerGroup
from klamm.broker.groups.consumer.member import Member, MemberState
from klamm.broker.groups.consumer.outcome import Context, Outcome, Timer, TimerKind
from klamm.broker.groups.consumer.reconciliation import Owned, Reconciliation, Target
from klamm.broker.groups.consumer.records import Record
from klamm.broker.groups.consumer.regexes import RegexChange
from klamm.broker.groups.consumer.subscriptions import (
    Subscriptions,
    metadata_hash,
    subscribed_topics,
    subscriptions_after,
)
from klamm.broker.groups.consumer.target import compute_target, may_compute
from klamm.protocol.errors import ApiError
from klamm.protocol.fields import Message


@dataclass(slots=True)
class Work:
    """What has been decided so far about `group`; the steps of `settle` in turn fill it."""

    group: ConsumerGroup
    context: Context
    records: list[Record]
    timers: list[Timer]
    refreshed_at: int | None = None
    to_resolve: frozenset[str] = field(default_factory=frozenset)
    group_epoch: int = 0
    subscription_changed: bool = False

    def settle(self, member: Member, updated: Member, owned: Owned | None) -> Member | ApiError:
        """Subscription, group epoch, target and current assignment of the member, as far as they change."""
        refusal = self.subscribe(member, updated)
        if refusal is not None:
            return refusal
        return self.reconcile(updated, self.target(member, updated), owned)

    def subscribe(self, member: Member, updated: Member) -> ApiError | None:
        """Writes the subscription if it changed, and the next group epoch if it or the topics' metadata did."""
        group = self.group
        if updated != member or updated.member_id not in group.members:
            self.records.append(records.subscription(group.group_id, updated))
        names_changed = updated.subscribed_topic_names != member.subscribed_topic_names
        decided = regexes.decide(group, member, updated, self.context)
        if isinstance(decided, ApiError):
            return decided
        self.records.extend(decided.records)
        self.to_resolve = decided.to_resolve
        self.subscription_changed = names_changed or decided.change is not RegexChange.NONE
        bump = names_changed or decided.change is RegexChange.CHANGED_AND_RESOLVED
        if updated.classic is not None:
            bump = self.subscription_changed
        self._refresh(member, updated, bump=bump)
        return None

    def _refresh(self, member: Member, updated: Member, *, bump: bool) -> None:
        group = self.group
        self.group_epoch = group.group_epoch
        if not bump and not group.metadata_are_stale:
            return
        names = self._subscriptions(member, updated).all_topic_names()
        new_hash = metadata_hash(names, self.context.topics)
        if bump or new_hash != group.metadata_hash:
            self.group_epoch += 1
            self.records.append(records.group_epoch(group.group_id, self.group_epoch, new_hash))
        self.refreshed_at = self.group_epoch
        if group.has_partition_metadata_record:
            self.records.append(records.no_partition_metadata(group.group_id))

    def _subscriptions(self, member: Member, updated: Member) -> Subscriptions:
        present = [member] if member.member_id in self.group.members else []
        return subscriptions_after(self.group, present, [updated])

    def target(self, member: Member, updated: Member) -> Target:
        """The target of the member: a new one for all if the group's epoch is ahead and it may be computed yet."""
        group = self.group
        if group.assignment_epoch >= self.group_epoch or not may_compute(group, self.context):
            return Target(group.assignment_epoch, group.target_of(updated.member_id))
        size = len(group.members) + (member.member_id not in group.members)
        homogeneous = self._subscriptions(member, updated).homogeneous(size)
        written, assignment = compute_target(
            group, self.group_epoch, (member, updated), homogeneous=homogeneous, context=self.context
        )
        self.records.extend(written)
        return Target(self.group_epoch, assignment)

    def reconcile(self, member: Member, target: Target, owned: Owned | None) -> Member | ApiError:
        """The member after its next step to the target, with its timer for giving up partitions."""
        group = self.group
        if not self.subscription_changed and member.is_reconciled_to(target.epoch):
            return member
        topic_ids = subscribed_topics(member, group.resolved, self.context.topics)
        after = Reconciliation(target, topic_ids, owned, group.is_owned, self.subscription_changed).step(member)
        if isinstance(after, ApiError) or after == member:
            return after
        self.records.append(records.current(group.group_id, after))
        if after.classic is None:
            revokes = after.state is MemberState.UNREVOKED_PARTITIONS
            delay_ms = after.rebalance_timeout_ms if revokes else None
            self.timers.append(Timer(TimerKind.REBALANCE, after.member_id, delay_ms, after.member_epoch))
        return after

    def outcome(self, response: Message) -> Outcome:
        return Outcome(response, self.records, self.timers, self.refreshed_at, self.to_resolve)
