"""Random members of a streams group, with named invariants after every step, as the coordinator sees the group: a task
is active at one member at most; a process has a task at most once, in whatever role; standby tasks belong to stateful
subtopologies; epochs never decrease; a replay of the records gives the same group. When nothing happens any more, the
group is stable, every task is active at one member, and standby tasks are as many as the processes allow."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from klamm.broker.groups.streams.group import StreamsGroup
from klamm.broker.groups.streams.replay import replay
from klamm.protocol.messages.streams.streams_group_heartbeat import (
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.broker.groups.streams_host import GROUP, SETTINGS, StreamsShard

TOPOLOGY = Topology(
    subtopologies=[
        Subtopology(subtopology_id="0", source_topics=["orders"]),
        Subtopology(
            subtopology_id="1", source_topics=["payments"], state_changelog_topics=[TopicInfo(name="store-changelog")]
        ),
    ]
)
Tasks = dict[str, set[int]]

member_ids = st.sampled_from(("a", "b", "c", "d", "e"))
process_ids = st.sampled_from(("p", "q", "r"))


@dataclass(slots=True)
class Thread:
    """What a member knows: its epoch and the tasks that it runs."""

    member_id: str
    epoch: int = 0
    active: Tasks = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)
    wanted: tuple[Tasks, Tasks] | None = None
    """The last assignment, as long as the member has not applied it."""

    def apply(self) -> None:
        if self.wanted is not None:
            self.active, self.standby = self.wanted
            self.wanted = None

    def hear(self, response: StreamsGroupHeartbeatResponse) -> None:
        self.epoch = response.member_epoch
        if response.active_tasks is not None:
            self.wanted = _sets(response.active_tasks), _sets(response.standby_tasks or ())


class StreamsGroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.shard = StreamsShard(SETTINGS)
        self.threads: dict[str, Thread] = {}
        self.epochs = (0, 0)

    @initialize(partitions=st.integers(1, 5), replicas=st.integers(0, 2))
    def topics(self, partitions: int, replicas: int) -> None:
        self.shard.create("orders", partitions)
        self.shard.create("payments", 3)
        self.shard.create("store-changelog", 3)
        self.shard.configure(standby_replicas=replicas)

    @rule(member_id=member_ids, process_id=process_ids)
    def join(self, member_id: str, process_id: str) -> None:
        response = self.shard.beat(member_id, topology=TOPOLOGY, process_id=process_id)
        assert not response.error_code
        self.threads[member_id] = Thread(member_id)
        self.threads[member_id].hear(response)

    @precondition(lambda self: self.threads)
    @rule(data=st.data(), applies=st.booleans(), says=st.booleans(), lost=st.booleans())
    def beat(self, data: st.DataObject, *, applies: bool, says: bool, lost: bool) -> None:
        thread = self._choose(data)
        if applies:
            thread.apply()
        self._beat(thread, says=says, lost=lost)

    @precondition(lambda self: self.threads)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        thread = self._choose(data)
        self.shard.beat(thread.member_id, -1)
        del self.threads[thread.member_id]

    @rule(duration_ms=st.sampled_from((10, 1_500, 2_100, 3_100)))
    def time_passes(self, duration_ms: int) -> None:
        self.shard.pass_time(duration_ms)

    @rule(partitions=st.integers(1, 6))
    def change_topic(self, partitions: int) -> None:
        topic = self.shard.topics.named("orders")
        if topic is None:
            self.shard.create("orders", partitions)
        elif partitions > topic.partitions:
            self.shard.grow("orders", partitions)
        elif partitions == 1:
            self.shard.remove("orders")

    @rule(replicas=st.integers(0, 2))
    def replicate(self, replicas: int) -> None:
        self.shard.configure(standby_replicas=replicas)

    @rule()
    def move(self) -> None:
        self.shard.reload()

    def _choose(self, data: st.DataObject) -> Thread:
        return self.threads[data.draw(st.sampled_from(sorted(self.threads)))]

    def _beat(self, thread: Thread, *, says: bool = True, lost: bool = False) -> None:
        tasks = (thread.active, thread.standby) if says else (None, None)
        response = self.shard.beat(thread.member_id, thread.epoch, active=tasks[0], standby=tasks[1], topology=None)
        if response.error_code:
            # Fenced, removed, or its tasks are none of the topology: it gives them up and joins again.
            del self.threads[thread.member_id]
        elif not lost:
            thread.hear(response)

    @property
    def group(self) -> StreamsGroup | None:
        return self.shard.state.streams.groups.get(GROUP)

    @invariant()
    def a_task_is_active_at_one_member_at_most(self) -> None:
        owners = Counter(
            (name, partition)
            for member in (self.group.members.values() if self.group is not None else ())
            for tasks in (member.assigned.active, member.pending_revocation.active)
            for name, partitions in tasks.items()
            for partition in partitions
        )
        assert all(count == 1 for count in owners.values())

    @invariant()
    def standby_tasks_have_state(self) -> None:
        for member in self.group.members.values() if self.group is not None else ():
            assert member.assigned.standby.keys() <= {"1"}

    @invariant()
    def epochs_never_decrease(self) -> None:
        epochs = (self.group.group_epoch, self.group.assignment_epoch) if self.group is not None else (0, 0)
        assert epochs >= self.epochs
        self.epochs = epochs

    @invariant()
    def a_replay_gives_the_same_group(self) -> None:
        groups: dict[str, StreamsGroup] = {}
        for key, value in self.shard.log:
            replay(groups, key, value)
        assert (GROUP in groups) == (self.group is not None)
        if self.group is None:
            return
        for name in ("members", "target", "group_epoch", "assignment_epoch", "metadata_hash", "topology", "state"):
            assert getattr(groups[GROUP], name) == getattr(self.group, name), name

    def teardown(self) -> None:
        """Every group becomes stable when its members only beat. A member that has lost the answer which told it to
        give tasks up is removed by the rebalance timeout, as in Kafka."""
        if self.shard.topics.named("orders") is None:
            self.shard.create("orders", 2)
        for _ in range(12):
            for thread in list(self.threads.values()):
                thread.apply()
                self._beat(thread)
            self.shard.pass_time(700)
        group = self.group
        if group is None or not self.threads:
            return
        assert group.members.keys() == self.threads.keys()
        assert group.state == "Stable"
        self._check_stable(group)

    def _check_stable(self, group: StreamsGroup) -> None:
        active = Counter(
            (name, partition)
            for thread in self.threads.values()
            for name, partitions in thread.active.items()
            for partition in partitions
        )
        orders = self.shard.topics.named("orders")
        assert orders is not None
        tasks = [("0", at) for at in range(orders.partitions)] + [("1", at) for at in range(3)]
        assert active == dict.fromkeys(tasks, 1)
        copies = Counter[tuple[str, int]]()
        for thread in self.threads.values():
            process_id = group.members[thread.member_id].process_id
            copies.update((process_id, at) for at in thread.standby.get("1", ()))
            copies.update((process_id, at) for at in thread.active.get("1", ()))
        assert all(count == 1 for count in copies.values()), "a process has a task twice"
        processes = {member.process_id for member in group.members.values()}
        wanted = 1 + min(self.shard.settings.standby_replicas, len(processes) - 1)
        assert Counter(partition for _, partition in copies) == dict.fromkeys(range(3), wanted)


def _sets(listed: Iterable[TaskIds]) -> Tasks:
    return {each.subtopology_id: set(each.partitions) for each in listed}


TestStreamsGroups = StreamsGroupMachine.TestCase
TestStreamsGroups.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
