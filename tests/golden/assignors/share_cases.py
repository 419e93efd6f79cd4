"""Random share groups for `AssignGroups.java` (README.md): as `cases.py`, with the assignor `simple`.

python -m tests.golden.assignors.share_cases SEED COUNT     writes cases
python -m tests.golden.assignors.share_cases --compare      reads cases with Kafka's answers
"""

import sys
from random import Random

from klamm.broker.groups.assignors import Assignment, GroupSpec, MemberSpec
from klamm.broker.groups.assignors.simple import assign_simple
from klamm.protocol.uuid import Uuid
from tests.golden.assignors.cases import Groups, read, written, written_answer, written_assignment

ShareCase = tuple[GroupSpec, Assignment]
"""A group, and the partitions that may be assigned."""


def assigned(group: GroupSpec, assignable: Assignment) -> dict[str, Assignment]:
    return assign_simple(group, lambda topic_id, partition: partition in assignable.get(topic_id, ()))


def written_case(group: GroupSpec, assignable: Assignment) -> str:
    return f"{written('simple', group)}|{written_assignment(assignable, list(group.partition_counts))}"


def read_case(text: str) -> ShareCase:
    case, shown = text.rsplit("|", 1)
    _, group = read(case)
    topics = list(group.partition_counts)
    pairs = (part.split(":") for part in shown.split("+") if part)
    return group, {topics[int(number)]: tuple(map(int, partitions.split("."))) for number, partitions in pairs}


class ShareGroups(Groups):
    """A share group that goes through changes: members join, leave and subscribe anew, topics grow, and the state of
    partitions is initialized bit by bit."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._mixed = chance.random() < 0.5
        largest = chance.choice((2, 8, 60))
        self._counts = {Uuid(chance.randbytes(16)): chance.randint(1, largest) for _ in range(chance.choice((1, 2, 6)))}
        self._ready = {topic_id: self._some(count) for topic_id, count in self._counts.items()}
        self._members: dict[str, MemberSpec] = {}
        for _ in range(chance.choice((1, 2, 5, 30))):
            self._join()

    def _some(self, count: int) -> int:
        return count if self._chance.random() < 0.8 else self._chance.randint(0, count)

    def share_steps(self, count: int) -> list[ShareCase]:
        cases: list[ShareCase] = []
        for _ in range(count):
            group = GroupSpec(dict(self._members), dict(self._counts), homogeneous=not self._mixed)
            assignable = {topic_id: tuple(range(ready)) for topic_id, ready in self._ready.items() if ready}
            cases.append((group, assignable))
            self._take(assigned(group, assignable))
            for _ in range(self._chance.randint(1, 4)):
                self._chance.choice((self._join, self._join, self._leave, self._leave, self._grow, self._subscribe))()
        return cases

    def _join(self) -> None:
        kinds = (str(Uuid(self._chance.randbytes(16))), f"member-{self._chance.randint(0, 10**6)}")
        self._members[self._chance.choice(kinds)] = MemberSpec(self._subscription())

    def _grow(self) -> None:
        topic_id = self._chance.choice(list(self._counts))
        self._counts[topic_id] += self._chance.randint(0, 4)
        self._ready[topic_id] = max(self._ready[topic_id], self._some(self._counts[topic_id]))


def main(arguments: list[str]) -> int:
    if arguments == ["--compare"]:
        return _compare()
    seed, count = map(int, arguments)
    for number in range(count // 10):
        for group, assignable in ShareGroups(Random(f"{seed}/{number}")).share_steps(10):
            print(written_case(group, assignable))
    return 0


def _compare() -> int:
    compared = different = 0
    for line in sys.stdin:
        case, answer = line.rstrip("\n").split("#")
        group, assignable = read_case(case)
        compared += 1
        if written_answer(group, assigned(group, assignable)) != answer:
            different += 1
            print(f"differs: {case}", file=sys.stderr)
    print(f"{compared} groups compared, {different} differ")
    return different > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
