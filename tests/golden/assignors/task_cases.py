"""Random streams groups for `AssignTasks.java`, and the form in which its cases and answers are written (README.md).

python -m tests.golden.assignors.task_cases SEED COUNT     writes cases
python -m tests.golden.assignors.task_cases --compare      reads cases with Kafka's answers
"""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random
from uuid import UUID

from klamm.broker.groups.assignors.sticky_tasks import (
    AssignedMember,
    StreamsSpec,
    SubtopologySize,
    TaskMember,
    assign_sticky,
)

Sets = Mapping[str, Iterable[int]]


def written(spec: StreamsSpec) -> str:
    subtopologies = ",".join(
        f"{each.name}:{each.tasks}:{'stateful' if each.is_stateful else 'stateless'}" for each in spec.subtopologies
    )
    members = ",".join(
        f"{member_id}/{member.process_id}/{written_tasks(member.active)}/{written_tasks(member.standby)}"
        for member_id, member in spec.members.items()
    )
    return f"{spec.standby_replicas}|{subtopologies}|{members}"


def written_tasks(tasks: Sets) -> str:
    return "+".join(f"{name}:{'.'.join(map(str, sorted(tasks[name])))}" for name in sorted(tasks))


def written_answer(spec: StreamsSpec, answer: Mapping[str, AssignedMember]) -> str:
    return ",".join(
        f"{written_tasks(answer[member_id].active)}/{written_tasks(answer[member_id].standby)}"
        for member_id in spec.members
    )


def read(case: str) -> StreamsSpec:
    replicas, shown_subtopologies, shown_members = case.split("|")
    sizes = [
        SubtopologySize(name, int(tasks), kind == "stateful")
        for name, tasks, kind in (part.split(":") for part in shown_subtopologies.split(","))
    ]
    members = {}
    for shown in shown_members.split(","):
        member_id, process_id, active, standby = shown.split("/")
        members[member_id] = TaskMember(process_id, _tasks(active), _tasks(standby))
    return StreamsSpec(members, sizes, int(replicas))


def _tasks(text: str) -> dict[str, frozenset[int]]:
    pairs = (part.split(":") for part in text.split("+") if part)
    return {name: frozenset(map(int, partitions.split("."))) for name, partitions in pairs}


class StreamsGroups:
    """A group that goes through changes. Each step is a case, in which members have what the one before assigned."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        most = chance.choice((2, 8, 40))
        count = chance.choice((1, 2, 5, 12))
        self._sizes = [SubtopologySize(str(at), chance.randint(1, most), chance.random() < 0.6) for at in range(count)]
        self._sizes.sort(key=lambda each: each.name)
        self._replicas = chance.choice((0, 0, 1, 1, 2, 3))
        self._processes = [self._id("process") for _ in range(chance.choice((1, 2, 5, 20)))]
        self._members: dict[str, TaskMember] = {}
        for _ in range(chance.choice((1, 2, 5, 15, 40))):
            self._join()

    def steps(self, count: int) -> list[StreamsSpec]:
        cases = []
        for _ in range(count):
            spec = StreamsSpec(dict(self._members), list(self._sizes), self._replicas)
            cases.append(spec)
            answer = assign_sticky(spec)
            self._members = {
                member_id: replace(member, active=_frozen(given.active), standby=_frozen(given.standby))
                for member_id, member in self._members.items()
                for given in (answer[member_id],)
            }
            for _ in range(self._chance.randint(1, 4)):
                self._chance.choice((self._join, self._join, self._leave, self._resize, self._lose, self._replicate))()
        return cases

    def _id(self, kind: str) -> str:
        return self._chance.choice(
            (str(UUID(bytes=self._chance.randbytes(16))), f"{kind}-{self._chance.randint(0, 10**6)}")
        )

    def _join(self) -> None:
        self._members[self._id("member")] = TaskMember(self._chance.choice(self._processes))

    def _leave(self) -> None:
        if len(self._members) > 1:
            del self._members[self._chance.choice(list(self._members))]

    def _resize(self) -> None:
        at = self._chance.randrange(len(self._sizes))
        tasks = max(1, self._sizes[at].tasks + self._chance.randint(-2, 8))
        self._sizes[at] = replace(self._sizes[at], tasks=tasks)

    def _lose(self) -> None:
        """One member has a part of what it had, or another process."""
        member_id = self._chance.choice(list(self._members))
        member = self._members[member_id]
        if self._chance.random() < 0.3:
            self._members[member_id] = replace(member, process_id=self._chance.choice(self._processes))
            return
        kept = {
            name: frozenset(self._chance.sample(sorted(tasks), self._chance.randint(1, len(tasks))))
            for name, tasks in member.active.items()
            if self._chance.random() < 0.7
        }
        self._members[member_id] = replace(member, active=kept)

    def _replicate(self) -> None:
        self._replicas = self._chance.randint(0, 3)


def _frozen(sets: Mapping[str, set[int]]) -> dict[str, frozenset[int]]:
    return {name: frozenset(partitions) for name, partitions in sets.items()}


def main(arguments: list[str]) -> int:
    if arguments == ["--compare"]:
        return _compare()
    seed, count = map(int, arguments)
    for number in range(count // 10):
        for spec in StreamsGroups(Random(f"{seed}/{number}")).steps(10):
            print(written(spec))
    return 0


def _compare() -> int:
    compared = different = 0
    for line in sys.stdin:
        case, answer = line.rstrip("\n").split("#")
        spec = read(case)
        compared += 1
        if written_answer(spec, assign_sticky(spec)) != answer:
            different += 1
            print(f"differs: {case}", file=sys.stderr)
    print(f"{compared} groups compared, {different} differ")
    return different > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
