"""What a heartbeat does to a streams group: its topology, its epoch, its target, the member.

Each step sees the group as it was before the request, and what the steps before it have decided.
"""

from dataclasses import dataclass, field, replace

from klamm.broker.groups.consumer.records import Record
from klamm.broker.groups.consumer.subscriptions import metadata_hash
from klamm.broker.groups.streams import records
from klamm.broker.groups.streams.group import NO_TASKS, SoftState, StreamsGroup
from klamm.broker.groups.streams.internal_topics import ConfiguredTopology, StatusCode, configure
from klamm.broker.groups.streams.member import Member, MemberState
from klamm.broker.groups.streams.outcome import Context, Timer, TimerKind
from klamm.broker.groups.streams.reconciliation import Target, reconcile
from klamm.broker.groups.streams.target import compute_target, may_compute
from klamm.broker.groups.streams.tasks import Tasks
from klamm.broker.groups.streams.topology import Topology
from klamm.protocol.errors import ApiError
from klamm.protocol.messages.streams.streams_group_heartbeat import Status

NOT_VALIDATED = -1


@dataclass(slots=True)
class Work:
    """What has been decided so far about `group`."""

    group: StreamsGroup
    context: Context
    records: list[Record]
    timers: list[Timer] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)
    bump: bool = False
    """The group gets a new epoch."""
    topology: Topology | None = None
    configured: ConfiguredTopology | None = None
    metadata_hash: int = 0
    group_epoch: int = 0
    soft: SoftState = field(default_factory=SoftState)

    def __post_init__(self) -> None:
        self.soft = replace(self.group.soft)

    def note(self, code: StatusCode, detail: str) -> None:
        self.statuses.append(Status(status_code=code, status_detail=detail))

    def note_stale_topology(self, member: Member) -> None:
        known = self.group.topology
        if known is not None and member.topology_epoch < known.epoch:
            self.note(
                StatusCode.STALE_TOPOLOGY,
                f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch "
                f"{known.epoch}.",
            )

    def configure(self) -> ConfiguredTopology:
        """The topology beside the topics, looked at anew if either may have changed. Raises TopologyFault."""
        group, context, topology = self.group, self.context, self.topology
        assert topology is not None
        configured = self.soft.configured if group.topology is not None else None
        self.metadata_hash = group.metadata_hash
        if configured is None or self.soft.compared != (context.topic_changes, group.metadata_hash):
            self.metadata_hash = metadata_hash(topology.required_topics(), context.topics)
            self.soft.compared = context.topic_changes, self.metadata_hash
            if configured is None or self.metadata_hash != group.metadata_hash:
                configured = configure(topology, context.topics)
        self.bump |= self.metadata_hash != group.metadata_hash
        self.configured = self.soft.configured = configured
        return configured

    def advance_epoch(self) -> None:
        """Writes the next group epoch if the member, the topology, the topics or the assignor's configs changed."""
        group, configured = self.group, self.configured
        assert configured is not None
        validated = configured.epoch if configured.is_ready else NOT_VALIDATED
        configs = self.context.settings.assignment_configs
        self.group_epoch = group.group_epoch
        if self.bump or validated != group.validated_topology_epoch or configs != group.assignment_configs:
            self.group_epoch += 1
            self.records.append(
                records.group_epoch(group.group_id, self.group_epoch, self.metadata_hash, validated, configs)
            )

    def target(self, updated: Member) -> Target | ApiError:
        """The target of the member: a new one for all if the group's epoch is ahead and it may be computed yet."""
        group, context = self.group, self.context
        delay_ms = context.settings.initial_rebalance_delay_ms
        begins_delay = not group.members and delay_ms > 0
        if begins_delay:
            self.timers.append(Timer(TimerKind.INITIAL, "", delay_ms, keeps_running=True))
        if begins_delay or context.delays_assignment:
            self._note_delay("initial rebalance delay")
            return Target(group.assignment_epoch, NO_TASKS)
        known = Target(group.assignment_epoch, group.target_of(updated.member_id))
        if group.assignment_epoch >= self.group_epoch:
            return known
        if not may_compute(group, context):
            self._note_delay("assignment interval")
            return known
        assert self.configured is not None
        standby_replicas = context.settings.standby_replicas
        computed = compute_target(group, self.group_epoch, updated, self.configured, standby_replicas, context)
        if isinstance(computed, ApiError):
            return computed
        written, target = computed
        self.records.extend(written)
        return Target(self.group_epoch, target[updated.member_id])

    def _note_delay(self, config: str) -> None:
        self.note(StatusCode.ASSIGNMENT_DELAYED, f"Assignment delayed due to the configured {config}.")

    def reconcile(self, member: Member, target: Target, owned: Tasks | None) -> Member | ApiError:
        """The member after its next step to the target, with its timer for giving up tasks."""
        after = reconcile(self.group, member, target, owned)
        if isinstance(after, ApiError) or after == member:
            return after
        self.records.append(records.current(self.group.group_id, after))
        revokes = after.state is MemberState.UNREVOKED_TASKS
        delay_ms = after.rebalance_timeout_ms if revokes else None
        self.timers.append(Timer(TimerKind.REBALANCE, after.member_id, delay_ms, after.member_epoch))
        return after
