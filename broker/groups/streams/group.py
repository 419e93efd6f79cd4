"""A streams group: what its records say, and the counts that decisions need of them.

Only `klamm.broker.groups.streams.replay` changes a group, by the methods here; `soft` is what no record says.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from klamm.broker.groups.streams.internal_topics import ConfiguredTopology
from klamm.broker.groups.streams.member import Member
from klamm.broker.groups.streams.tasks import AssignedTasks, Tasks, task_count
from klamm.broker.groups.streams.topology import Topology
from klamm.controller.config_definitions.hash_order import java_hash

FIRST_EPOCH: Final = 1
NO_TASKS: Final = Tasks()
_KNUTH: Final = -7046029254386353131
_NOBODY: Final[frozenset[str]] = frozenset()


@dataclass(slots=True)
class SoftState:
    """What a coordinator forgets when the partition moves."""

    configured: ConfiguredTopology | None = None
    """The topology beside the topics, as the last heartbeat that looked saw them."""
    compared: tuple[int, int] | None = None
    """The count of topic changes, and the metadata hash that was computed then."""
    endpoint_epoch: int = 0
    """Grows when a member with an end point gets other tasks."""
    shutdown_by: str | None = None
    """The member that asked for a shutdown of the whole application."""


@dataclass(slots=True)
class _Processes:
    """The processes that have a task: of active ones the last that got it."""

    active: dict[tuple[str, int], str] = field(default_factory=dict)
    standby: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    warmup: dict[tuple[str, int], set[str]] = field(default_factory=dict)


class StreamsGroup:
    """The members by id, in the order in which they came, and the target assignment by member id."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.validated_topology_epoch = 0
        """The epoch of the topology for which all topics were there; -1: topics are missing."""
        self.assignment_configs: Mapping[str, str] = {}
        """What the assignor was told at the last group epoch."""
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        self.topology: Topology | None = None
        self.members: dict[str, Member] = {}
        self.target: dict[str, Tasks] = {}
        self.target_tasks = 0
        """How many tasks the target assignment has."""
        self.soft = SoftState()
        self._processes = _Processes()
        self._most_members = 0

    @property
    def state(self) -> str:
        """Kafka's name of the state."""
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return "NotReady"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def target_of(self, member_id: str) -> Tasks:
        return self.target.get(member_id, NO_TASKS)

    def is_subscribed(self, topic_name: str) -> bool:
        """Whether tasks of the members read the topic."""
        return bool(self.members) and self.topology is not None and topic_name in self.topology.reader_of

    def active_process(self, subtopology: str, partition: int) -> str | None:
        """The process whose member has the active task, or has still to give it up."""
        return self._processes.active.get((subtopology, partition))

    def follows(self, subtopology: str, partition: int, process_id: str) -> bool:
        """Whether a member of the process has the task as a standby or warm-up task."""
        task = subtopology, partition
        return process_id in self._processes.standby.get(task, _NOBODY) or process_id in self._processes.warmup.get(
            task, _NOBODY
        )

    def in_table_order(self) -> list[Member]:
        """The members in the order of Kafka's TimelineHashMap, in which its coordinator visits them: by the highest
        bits of the hash code times a constant, of one slot the last that came first. The table grows with the most
        members that there were, and never shrinks."""
        bits = 1
        while (self._most_members + 1) * 3 > 4 << bits:
            bits += 1
        newest_first = reversed(self.members.values())
        return sorted(newest_first, key=lambda member: (java_hash(member.member_id) * _KNUTH) % 2**64 >> (64 - bits))

    def put_member(self, member: Member) -> None:
        self._most_members = max(self._most_members, len(self.members))
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if old is not None:
            self._release(old)
        self._take(member)

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        if not self.members:
            self.soft.shutdown_by = None

    def put_target(self, member_id: str, tasks: Tasks | None) -> None:
        old = self.target.pop(member_id, None)
        for changed, step in ((old, -1), (tasks, 1)):
            if changed is not None:
                self.target_tasks += step * (task_count(changed.active) + task_count(changed.standby))
        if tasks is not None:
            self.target[member_id] = tasks

    def _take(self, member: Member) -> None:
        processes = self._processes
        for tasks in _held(member):
            for task in _tasks_of(tasks.active):
                processes.active[task] = member.process_id
            for owners, sets in ((processes.standby, tasks.standby), (processes.warmup, tasks.warmup)):
                for task in _tasks_of(sets):
                    owners.setdefault(task, set()).add(member.process_id)

    def _release(self, member: Member) -> None:
        processes = self._processes
        for tasks in _held(member):
            for task in _tasks_of(tasks.active):
                if processes.active.get(task) == member.process_id:
                    del processes.active[task]
            for owners, sets in ((processes.standby, tasks.standby), (processes.warmup, tasks.warmup)):
                for task in _tasks_of(sets):
                    owned = owners.get(task, set())
                    owned.discard(member.process_id)
                    if not owned:
                        owners.pop(task, None)


def _held(member: Member) -> Iterable[AssignedTasks]:
    return member.assigned, member.pending_revocation


def _tasks_of(tasks: Mapping[str, Iterable[int]]) -> Iterable[tuple[str, int]]:
    return ((subtopology, partition) for subtopology, partitions in tasks.items() for partition in partitions)
