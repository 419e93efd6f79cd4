"""Draws the steps of a case at random, from what the cluster is at that time. About a third of the requests is refused.

A broker that is lost comes back at the end of the case at the latest, and one broker is always up.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from klamm import ConfigAlteration, ConfigResource, ElectionType, NewPartitions, NewTopic, TopicPartition
from tools.predictions.changes import State
from tools.predictions.steps import (
    AddPartitions,
    CreateTopic,
    DeleteTopic,
    Elect,
    Reassign,
    SetConfigs,
    StartBroker,
    Step,
    StopBroker,
)

MOST_TOPICS: Final = 10
MOST_PARTITIONS: Final = 6
NO_BROKER: Final = 9
MISSING: Final = "missing"
SHARE_OF_INVALID: Final = 0.25
_BAD_NAMES: Final = ("", ".", "a b", "x" * 250, "t_0", "t.0")
_WEIGHTS: Final = {
    "reassign": 6,
    "create": 4,
    "add": 2,
    "delete": 1,
    "configs": 3,
    "elect": 4,
    "stop": 4,
    "start": 3,
}


class Drawing:
    """Draws for one case. `brokers` are all brokers, `losable` are those that may be stopped."""

    def __init__(self, rng: Random, brokers: Sequence[int], losable: Sequence[int]) -> None:
        self._rng = rng
        self._brokers = tuple(brokers)
        self._losable = frozenset(losable)
        self.down: set[int] = set()

    def step(self, state: State) -> Step:
        """The next step."""
        kinds: dict[str, Callable[[State], Step | None]] = {
            "reassign": self._reassign,
            "create": self._create,
            "add": self._add,
            "delete": self._delete,
            "configs": self._configs,
            "elect": self._elect,
            "stop": self._stop,
            "start": self._start,
        }
        while True:
            (kind,) = self._rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
            step = kinds[kind](state)
            if step is not None:
                return step

    def _is_invalid(self) -> bool:
        return self._rng.random() < SHARE_OF_INVALID

    def _replicas(self) -> tuple[int, ...]:
        count = self._rng.choices((1, 2, 3), (1, 3, 4))[0]
        return tuple(self._rng.sample(self._brokers, count))

    def _bad_replicas(self) -> tuple[int, ...]:
        good = self._replicas()
        return self._rng.choice(((), (*good, good[0]), (NO_BROKER, *good), (*good, -1)))

    def _some(self, state: State, most: int) -> list[TopicPartition]:
        known = sorted(state.partitions)
        found = self._rng.sample(known, min(len(known), self._rng.randint(1, most)))
        if self._is_invalid():
            found.append(self._rng.choice((TopicPartition(MISSING, 0), TopicPartition(known[0].topic_name, 77))))
        return found

    def _reassign(self, state: State) -> Step | None:
        if not state.partitions:
            return None
        moving = [one for one, found in state.partitions.items() if found.reassigning]
        if moving and self._rng.random() < 0.5:
            return Reassign(dict.fromkeys(moving, None))
        targets: dict[TopicPartition, tuple[int, ...] | None] = {}
        for partition in self._some(state, 4):
            drawn = self._rng.random()
            targets[partition] = None if drawn < 0.05 else self._bad_replicas() if drawn < 0.2 else self._replicas()
        return Reassign(targets, self._rng.random() < 0.9)

    def _name(self, state: State) -> str | None:
        names = {one.topic_name for one in state.partitions}
        free = [name for number in range(MOST_TOPICS) if (name := f"t-{number}") not in names]
        return self._rng.choice(free) if free else None

    def _create(self, state: State) -> Step | None:
        name = self._name(state)
        if name is None:
            return None
        if self._is_invalid():
            return CreateTopic(self._bad_topic(name, state))
        configs: dict[str, str | None] = {}
        if self._rng.random() < 0.4:
            configs["min.insync.replicas"] = str(self._rng.randint(1, 3))
        if self._rng.random() < 0.3:
            configs["unclean.leader.election.enable"] = self._rng.choice(("true", "false"))
        count = self._rng.randint(1, MOST_PARTITIONS)
        if self._rng.random() < 0.4:
            factor = self._rng.choice((1, 2, 3, -1))
            return CreateTopic(NewTopic(name, count, factor, configs))
        factor = self._rng.randint(1, 3)
        assigned = {index: tuple(self._rng.sample(self._brokers, factor)) for index in range(count)}
        return CreateTopic(NewTopic(name, configs=configs, replica_assignments=assigned))

    def _bad_topic(self, name: str, state: State) -> NewTopic:
        taken = next(iter(state.partitions), TopicPartition("a b", 0)).topic_name
        return self._rng.choice(
            (
                NewTopic(self._rng.choice(_BAD_NAMES), 1, 1),
                NewTopic(taken, 1, 1),
                NewTopic(name, self._rng.choice((0, -2)), 1),
                NewTopic(name, 1, self._rng.choice((0, 4, -2))),
                NewTopic(name, 1, 1, {"min.insync.replicas": "0"}),
                NewTopic(name, 1, 1, {"no.such.config": "1"}),
                NewTopic(name, replica_assignments={0: self._bad_replicas()}),
                NewTopic(name, replica_assignments={0: self._replicas(), 2: self._replicas()}),
                NewTopic(name, replica_assignments={0: (1,), 1: (1, 2)}),
            )
        )

    def _add(self, state: State) -> Step | None:
        if not state.partitions:
            return None
        name = self._rng.choice(sorted({one.topic_name for one in state.partitions}))
        rows = [found for one, found in sorted(state.partitions.items()) if one.topic_name == name]
        if self._is_invalid():
            return AddPartitions(
                self._rng.choice(
                    (
                        NewPartitions(MISSING, 3),
                        NewPartitions(name, len(rows)),
                        NewPartitions(name, len(rows) - 1),
                        NewPartitions(name, len(rows) + 1, (self._bad_replicas(),)),
                        NewPartitions(name, len(rows) + 2, (self._replicas(),)),
                    )
                )
            )
        more = self._rng.randint(1, 3)
        if self._rng.random() < 0.4:
            return AddPartitions(NewPartitions(name, len(rows) + more))
        factor = len(rows[0].replicas)
        assigned = [tuple(self._rng.sample(self._brokers, factor)) for _ in range(more)]
        return AddPartitions(NewPartitions(name, len(rows) + more, assigned))

    def _delete(self, state: State) -> Step | None:
        names = sorted({one.topic_name for one in state.partitions})
        if self._is_invalid():
            return DeleteTopic(MISSING)
        return DeleteTopic(self._rng.choice(names)) if len(names) > MOST_TOPICS // 2 else None

    def _configs(self, state: State) -> Step:
        names = sorted({one.topic_name for one in state.partitions})
        resource = self._rng.choice(
            (
                *(ConfigResource.topic(name) for name in self._rng.sample(names, min(3, len(names)))),
                ConfigResource.broker(),
                ConfigResource.broker(self._rng.choice(self._brokers)),
                ConfigResource.topic(MISSING),
            )
        )
        name, values = self._rng.choice(
            (
                ("min.insync.replicas", ("1", "2", "3", "0", "x")),
                ("unclean.leader.election.enable", ("true", "false", "maybe")),
            )
        )
        value = self._rng.choice((*values[:3], *values))
        edit = ConfigAlteration.delete(name) if self._rng.random() < 0.25 else ConfigAlteration(name, value)
        return SetConfigs(resource, (edit,))

    def _elect(self, state: State) -> Step | None:
        if not state.partitions:
            return None
        kind = self._rng.choice((ElectionType.PREFERRED, ElectionType.UNCLEAN))
        return Elect(None if self._rng.random() < 0.3 else tuple(self._some(state, 6)), kind)

    def _stop(self, _state: State) -> Step | None:
        candidates = sorted(self._losable - self.down)
        if not candidates or len(self.down) + 1 >= len(self._brokers):
            return None
        broker_id = self._rng.choice(candidates)
        self.down.add(broker_id)
        return StopBroker(broker_id, self._rng.choice(("shutdown", "crash")))

    def _start(self, _state: State) -> Step | None:
        return self.start_one() if self.down else None

    def start_one(self) -> Step:
        """A lost broker comes back."""
        broker_id = self._rng.choice(sorted(self.down))
        self.down.discard(broker_id)
        return StartBroker(broker_id)
