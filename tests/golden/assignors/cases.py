"""Random groups for `AssignGroups.java`, and the form in which its cases and answers are written (README.md).

python -m tests.golden.assignors.cases SEED COUNT     writes cases
python -m tests.golden.assignors.cases --compare      reads cases with Kafka's answers
"""

import sys
from dataclasses import replace
from random import Random

from klamm.broker.groups.assignors import ASSIGNORS, Assignment, GroupSpec, MemberSpec
from klamm.protocol.uuid import Uuid

Case = tuple[str, GroupSpec]


def written(name: str, group: GroupSpec) -> str:
    topics = list(group.partition_counts)
    shown_topics = ",".join(f"{topic_id}:{count}" for topic_id, count in group.partition_counts.items())
    members = ",".join(
        "/".join(
            (
                member_id,
                member.instance_id or "",
                ".".join(str(topics.index(topic_id)) for topic_id in sorted(member.topic_ids, key=topics.index)),
                written_assignment(member.assignment, topics),
            )
        )
        for member_id, member in group.members.items()
    )
    return f"{name}|{'HOMOGENEOUS' if group.homogeneous else 'HETEROGENEOUS'}|{shown_topics}|{members}"


def written_assignment(assignment: Assignment, topics: list[Uuid]) -> str:
    by_number = sorted((topics.index(topic_id), partitions) for topic_id, partitions in assignment.items())
    return "+".join(f"{number}:{'.'.join(map(str, partitions))}" for number, partitions in by_number)


def written_answer(group: GroupSpec, answer: dict[str, Assignment]) -> str:
    topics = list(group.partition_counts)
    return ",".join(written_assignment(answer[member_id], topics) for member_id in group.members)


def read(case: str) -> Case:
    name, kind, shown_topics, shown_members = case.split("|")
    counts = {Uuid.from_text(text): int(count) for text, count in _pairs(shown_topics, ",")}
    topics = list(counts)
    members = {}
    for shown in shown_members.split(","):
        member_id, instance_id, subscribed, owned = shown.split("/")
        members[member_id] = MemberSpec(
            topic_ids=frozenset(topics[int(number)] for number in subscribed.split(".") if number),
            assignment={
                topics[int(number)]: tuple(map(int, partitions.split("."))) for number, partitions in _pairs(owned, "+")
            },
            instance_id=instance_id or None,
        )
    return name, GroupSpec(members, counts, kind == "HOMOGENEOUS")


def _pairs(text: str, separator: str) -> list[list[str]]:
    return [part.split(":") for part in text.split(separator) if part]


class Groups:
    """A group that goes through changes. Each step is a case, in which members have what the one before assigned."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._name = chance.choice(("uniform", "uniform", "uniform", "range"))
        self._mixed = chance.random() < 0.6
        largest = chance.choice((4, 20, 120))
        topics = chance.choice((1, 3, 10, 30))
        self._counts = {Uuid(chance.randbytes(16)): chance.randint(1, largest) for _ in range(topics)}
        self._members: dict[str, MemberSpec] = {}
        for _ in range(chance.choice((1, 3, 12, 40))):
            self._join()

    def steps(self, count: int) -> list[Case]:
        cases = []
        for _ in range(count):
            group = GroupSpec(dict(self._members), dict(self._counts), homogeneous=not self._mixed)
            cases.append((self._name, group))
            self._take(ASSIGNORS[self._name](group))
            for _ in range(self._chance.randint(1, 4)):
                self._chance.choice((self._join, self._join, self._leave, self._grow, self._subscribe, self._lose))()
        return cases

    def _take(self, answer: dict[str, Assignment]) -> None:
        """The members have what they were assigned."""
        self._members = {
            member_id: replace(member, assignment=answer[member_id]) for member_id, member in self._members.items()
        }

    def _subscription(self) -> frozenset[Uuid]:
        topics = list(self._counts)
        if not self._mixed:
            return next(iter(self._members.values())).topic_ids if self._members else frozenset(topics)
        return frozenset(
            self._chance.sample(topics, self._chance.randint(0 if self._chance.random() < 0.1 else 1, len(topics)))
        )

    def _join(self) -> None:
        kinds = (str(Uuid(self._chance.randbytes(16))), f"member-{self._chance.randint(0, 10**6)}")
        instance_id = f"i{self._chance.randint(0, 10**6)}" if self._chance.random() < 0.3 else None
        self._members[self._chance.choice(kinds)] = MemberSpec(self._subscription(), instance_id=instance_id)

    def _leave(self) -> None:
        if len(self._members) > 1:
            del self._members[self._chance.choice(list(self._members))]

    def _grow(self) -> None:
        topic_id = self._chance.choice(list(self._counts))
        self._counts[topic_id] += self._chance.randint(1, 8)

    def _subscribe(self) -> None:
        topics = list(self._counts)
        if self._mixed:
            member_id = self._chance.choice(list(self._members))
            self._members[member_id] = replace(self._members[member_id], topic_ids=self._subscription())
        else:
            some = frozenset(self._chance.sample(topics, self._chance.randint(1, len(topics))))
            self._members = {member_id: replace(member, topic_ids=some) for member_id, member in self._members.items()}

    def _lose(self) -> None:
        """One member has any part of what it had: the others' partitions stay, these are free."""
        member_id = self._chance.choice(list(self._members))
        member = self._members[member_id]
        kept = {
            topic_id: tuple(sorted(self._chance.sample(partitions, self._chance.randint(1, len(partitions)))))
            for topic_id, partitions in member.assignment.items()
            if self._chance.random() < 0.7
        }
        self._members[member_id] = replace(member, assignment=kept)


def main(arguments: list[str]) -> int:
    if arguments == ["--compare"]:
        return _compare()
    seed, count = map(int, arguments)
    for number in range(count // 10):
        for name, group in Groups(Random(f"{seed}/{number}")).steps(10):
            print(written(name, group))
    return 0


def _compare() -> int:
    compared = different = 0
    for line in sys.stdin:
        case, answer = line.rstrip("\n").split("#")
        name, group = read(case)
        compared += 1
        if written_answer(group, ASSIGNORS[name](group)) != answer:
            different += 1
            print(f"differs: {case}", file=sys.stderr)
    print(f"{compared} groups compared, {different} differ")
    return different > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
