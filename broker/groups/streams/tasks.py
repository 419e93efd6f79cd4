"""Tasks of a streams group: a subtopology and a partition, as active tasks, standby tasks and warm-up tasks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

TaskSets: TypeAlias = Mapping[str, frozenset[int]]
"""Partitions by subtopology id. A subtopology without tasks is not named."""
TaskEpochs: TypeAlias = Mapping[str, Mapping[int, int]]
"""The same; beside each partition the member epoch at which the task was assigned."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks that a member is to have, or says it has."""

    active: TaskSets = field(default_factory=dict)
    standby: TaskSets = field(default_factory=dict)
    warmup: TaskSets = field(default_factory=dict)

    def overlaps(self, others: "AssignedTasks") -> bool:
        """Whether a task is in both, in the same role."""
        return (
            _overlap(self.active, others.active)
            or _overlap(self.standby, others.standby)
            or _overlap(self.warmup, others.warmup)
        )

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


@dataclass(frozen=True, slots=True)
class AssignedTasks:
    """The tasks that a member has, or has still to give up. Active ones know since which epoch."""

    active: TaskEpochs = field(default_factory=dict)
    standby: TaskSets = field(default_factory=dict)
    warmup: TaskSets = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


class TaskIds(Protocol):
    """The form of tasks in messages and records."""

    @property
    def subtopology_id(self) -> str:
        """The subtopology of these tasks."""

    @property
    def partitions(self) -> Iterable[int]:
        """Their partitions."""


def task_sets(listed: Iterable[TaskIds]) -> dict[str, frozenset[int]]:
    """Tasks of a message or a record, in which each subtopology is named once."""
    return {each.subtopology_id: frozenset(each.partitions) for each in listed}


def task_count(tasks: TaskSets) -> int:
    return sum(map(len, tasks.values()))


def _overlap(some: TaskSets, others: Mapping[str, Iterable[int]]) -> bool:
    return any(not partitions.isdisjoint(others.get(subtopology, ())) for subtopology, partitions in some.items())
