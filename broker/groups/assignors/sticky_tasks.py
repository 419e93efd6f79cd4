"""The assignor `sticky` of streams groups: tasks stay where they are, as long as no member has more than its share.

Active tasks go to the members that had them, then to those that had them as standby tasks, then to the process with
the least load. Standby tasks go to members that had the task before, then to the processes with the least load that do
not have it. A process has a task at most once. Source: KIP-1071, section on the assignor; compared with Apache Kafka's
StickyTaskAssignor 4.3.0 (tests/golden/assignors).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from klamm.assignment.kafka.java_hash_map import bins_for_capacity, hash_order, string_hash_code
from klamm.assignment.kafka.java_priority_queue import JavaPriorityQueue
from klamm.assignment.kafka.rack_order import utf16_units


class Task(NamedTuple):
    """A partition of a subtopology."""

    subtopology: str
    partition: int


@dataclass(frozen=True, slots=True)
class TaskMember:
    """A member as the assignor sees it: its process, and what the last target assignment gave it."""

    process_id: str
    active: Mapping[str, frozenset[int]] = field(default_factory=dict)
    standby: Mapping[str, frozenset[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SubtopologySize:
    """A subtopology, its number of tasks, and whether these have state that standby tasks can follow."""

    name: str
    tasks: int
    is_stateful: bool


@dataclass(frozen=True, slots=True)
class StreamsSpec:
    """What the assignor is asked: the members in the order in which Kafka puts them into a HashMap, the subtopologies
    in the order of their names."""

    members: Mapping[str, TaskMember]
    subtopologies: Sequence[SubtopologySize]
    standby_replicas: int = 0


@dataclass(slots=True)
class AssignedMember:
    """What a member gets."""

    active: dict[str, set[int]] = field(default_factory=dict)
    standby: dict[str, set[int]] = field(default_factory=dict)


_FIRST: Final = 0


@dataclass(slots=True)
class _Load:
    """How many tasks a member has."""

    count: int
    member_id: str


class _Process:
    """A process, its members, and the tasks that they have been given so far."""

    def __init__(self) -> None:
        self.load = 0.0
        self.counts: dict[str, int] = {}
        """Tasks by member id."""
        self.active: dict[str, list[Task]] = {}
        self.standby: dict[str, list[Task]] = {}
        self._tasks: set[Task] = set()
        self._given = 0
        self._by_load: JavaPriorityQueue[_Load] | None = None

    def has(self, task: Task) -> bool:
        return task in self._tasks

    def add_member(self, member_id: str) -> None:
        self.counts[member_id] = 0

    def give(self, member_id: str, task: Task, *, active: bool) -> int:
        """Give a task to this member; how many it has then."""
        self._by_load = None
        return self._give(member_id, task, active=active)

    def give_to_least_loaded(self, task: Task, *, active: bool) -> int:
        """Give a task to the member that has the fewest; how many it has then."""
        if len(self.counts) == 1:
            return self._give(next(iter(self.counts)), task, active=active)
        if self._by_load is None:
            self._by_load = JavaPriorityQueue(lambda entry: entry.count)
            for member_id in _in_hash_order(list(self.counts)):
                self._by_load.add(_Load(self.counts[member_id], member_id))
        entry = self._by_load.poll()
        entry.count = self._give(entry.member_id, task, active=active)
        self._by_load.add(entry)
        return entry.count

    def _give(self, member_id: str, task: Task, *, active: bool) -> int:
        self._given += 1
        self._tasks.add(task)
        (self.active if active else self.standby).setdefault(member_id, []).append(task)
        self.counts[member_id] += 1
        self.load = self._given / len(self.counts)
        return self.counts[member_id]


@dataclass(slots=True)
class _Quota:
    """The share of tasks that members may keep; it is computed anew when a member has reached it."""

    tasks: int
    members: int
    share: int = 0

    def __post_init__(self) -> None:
        self._divide()

    def reached(self, count: int) -> None:
        """A member has this many tasks now."""
        if count == self.share:
            self.members -= 1
            self.tasks -= count
            self._divide()

    def _divide(self) -> None:
        self.share = -(-self.tasks // self.members) if self.members else 0


def assign_sticky(spec: StreamsSpec) -> dict[str, AssignedMember]:
    """Tasks by member id. Every member is named."""
    return _Assignment(spec).run()


class _Assignment:
    """One run of the assignor."""

    def __init__(self, spec: StreamsSpec) -> None:
        self._spec = spec
        tasks = sum(each.tasks for each in spec.subtopologies)
        standby = sum(each.tasks * spec.standby_replicas for each in spec.subtopologies if each.is_stateful)
        self._active_quota = _Quota(tasks, len(spec.members))
        self._quota = _Quota(tasks + standby, len(spec.members))
        self._processes: dict[str, _Process] = {}
        self._was_active: dict[Task, str] = {}
        self._was_standby: dict[Task, list[str]] = {}
        for member_id in _in_hash_order(list(spec.members)):
            member = spec.members[member_id]
            self._processes.setdefault(member.process_id, _Process()).add_member(member_id)
            for task in _tasks_in(member.active):
                self._was_active[task] = member_id
            for task in _tasks_in(member.standby):
                self._was_standby.setdefault(task, []).append(member_id)

    def run(self) -> dict[str, AssignedMember]:
        self._assign_active()
        if self._spec.standby_replicas:
            self._assign_standby()
        assigned = {member_id: AssignedMember() for member_id in self._spec.members}
        for process in self._processes.values():
            for member_id in process.counts:
                for task in process.active.get(member_id, ()):
                    assigned[member_id].active.setdefault(task.subtopology, set()).add(task.partition)
                for task in process.standby.get(member_id, ()):
                    assigned[member_id].standby.setdefault(task.subtopology, set()).add(task.partition)
        return assigned

    def _process_of(self, member_id: str) -> _Process:
        return self._processes[self._spec.members[member_id].process_id]

    def _count_of(self, member_id: str) -> int:
        return self._process_of(member_id).counts[member_id]

    def _tasks(self, *, stateful_only: bool) -> list[Task]:
        return [
            Task(each.name, partition)
            for each in self._spec.subtopologies
            if each.is_stateful or not stateful_only
            for partition in range(each.tasks)
        ]

    # -- active tasks ----------------------------------------------------------------------------------------------

    def _assign_active(self) -> None:
        by_partition = sorted(self._tasks(stateful_only=False), key=_by_partition)
        left = self._give_back(by_partition, self._was_active.get)
        left = self._give_back(left, lambda task: self._least_loaded(self._was_standby.get(task, ()), None))
        queue = self._processes_by_load()
        for task in sorted(left, key=_by_subtopology):
            process = queue.poll()
            self._note_active(process.give_to_least_loaded(task, active=True))
            queue.add(process)

    def _give_back(self, tasks: Sequence[Task], former: Callable[[Task], str | None]) -> list[Task]:
        """Give tasks to the members that `former` names, up to their share; those that are left."""
        left = []
        for task in tasks:
            member_id = former(task)
            if member_id is not None and self._count_of(member_id) < self._active_quota.share:
                self._note_active(self._process_of(member_id).give(member_id, task, active=True))
            else:
                left.append(task)
        return left

    def _note_active(self, count: int) -> None:
        self._active_quota.reached(count)
        self._quota.reached(count)

    # -- standby tasks ---------------------------------------------------------------------------------------------

    def _assign_standby(self) -> None:
        replicas = self._spec.standby_replicas
        left: list[tuple[Task, int]] = []
        for task in sorted(self._tasks(stateful_only=True), key=_by_partition, reverse=True):
            for given in range(replicas):
                member_id = self._former_for_standby(task)
                if member_id is None:
                    left.append((task, replicas - given))
                    break
                self._quota.reached(self._process_of(member_id).give(member_id, task, active=False))
        queue = self._processes_by_load()
        for task, count in sorted(left, key=lambda each: _by_subtopology(each[_FIRST]), reverse=True):
            for _ in range(count):
                if not self._give_standby(queue, task):
                    break

    def _former_for_standby(self, task: Task) -> str | None:
        """The member that keeps state of the task and may have it as a standby task."""
        active = self._was_active.get(task)
        if active is not None and not self._process_of(active).has(task) and self._has_room(active):
            return active
        standby = self._least_loaded(self._was_standby.get(task, ()), task)
        return standby if standby is not None and self._has_room(standby) else None

    def _has_room(self, member_id: str) -> bool:
        return self._count_of(member_id) < self._quota.share

    def _least_loaded(self, member_ids: Sequence[str], task: Task | None) -> str | None:
        """Of these members one with little load. With `task`: none if the first one's process has it."""
        if not member_ids:
            return None
        first = found = member_ids[_FIRST]
        load, count = self._process_of(first).load, self._count_of(first)
        for member_id in member_ids[1:]:
            process = self._process_of(member_id)
            if process.load < load and (task is None or not process.has(task)) and self._count_of(member_id) < count:
                found, load, count = member_id, process.load, self._count_of(member_id)
        # Kafka asks this of the process of the first member, whichever was found.
        return None if task is not None and self._process_of(first).has(task) else found

    def _give_standby(self, queue: "JavaPriorityQueue[_Process]", task: Task) -> bool:
        """Give the task to the process with the least load that does not have it; False: all have it."""
        seen = []
        given = False
        while len(queue) and not given:
            process = queue.poll()
            seen.append(process)
            if not process.has(task):
                self._quota.reached(process.give_to_least_loaded(task, active=False))
                given = True
        for process in reversed(seen):
            queue.add(process)
        return given

    def _processes_by_load(self) -> "JavaPriorityQueue[_Process]":
        queue: JavaPriorityQueue[_Process] = JavaPriorityQueue(lambda process: process.load)
        names = list(self._processes)
        bins = bins_for_capacity(len(self._spec.members))
        for at in hash_order([string_hash_code(name) for name in names], bins=bins):
            queue.add(self._processes[names[at]])
        return queue


def _tasks_in(sets: Mapping[str, frozenset[int]]) -> list[Task]:
    return [Task(name, partition) for name, partitions in sets.items() for partition in partitions]


def _by_partition(task: Task) -> tuple[int, bytes]:
    return task.partition, utf16_units(task.subtopology)


def _by_subtopology(task: Task) -> tuple[bytes, int]:
    return utf16_units(task.subtopology), task.partition


def _in_hash_order(names: Sequence[str]) -> list[str]:
    return [names[at] for at in hash_order([string_hash_code(name) for name in names])]
