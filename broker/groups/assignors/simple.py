"""The assignor `simple` of share groups (KIP-932): several members may have the same partition.

Each partition is for as many members as are needed to give every member something, and members keep what they have as
far as that allows. Source: KIP-932, section on the assignor; compared with Apache Kafka's SimpleAssignor 4.3.0
(tests/golden/assignors). Where members are subscribed to different topics, each topic is assigned by itself.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from math import ceil
from typing import Generic, TypeAlias, TypeVar

from klamm.broker.groups.assignors.hash_table import DEFAULT_BINS, HashTable, bins_for
from klamm.broker.groups.assignors.spec import (
    NOTHING,
    Assignment,
    GroupSpec,
    members_in_hash_order,
    partitions_in_hash_order,
    topics_in_hash_order,
    uuid_hash_code,
    uuid_sort_key,
)
from klamm.protocol.uuid import Uuid

PartitionT = TypeVar("PartitionT", bound=Hashable)
Place: TypeAlias = tuple[Uuid, int]
IsAssignable: TypeAlias = Callable[[Uuid, int], bool]


def assign_simple(group: GroupSpec, is_assignable: IsAssignable) -> dict[str, Assignment]:
    """Partitions by member id. `is_assignable`: the share coordinator has the state of this partition."""
    order = members_in_hash_order(group.members)
    if not any(member.topic_ids for member in group.members.values()):
        return dict.fromkeys(order, NOTHING)
    assigned = [
        {topic_id: set(partitions) for topic_id, partitions in group.members[member_id].assignment.items()}
        for member_id in order
    ]
    if group.homogeneous:
        _assign_all_topics(group, order, assigned, is_assignable)
    else:
        for topic_id in sorted({topic_id for member in group.members.values() for topic_id in member.topic_ids}):
            _assign_topic(group, order, topic_id, assigned, is_assignable)
    return {
        member_id: {topic_id: tuple(sorted(mine[topic_id])) for topic_id in sorted(mine) if mine[topic_id]}
        for member_id, mine in zip(order, assigned, strict=True)
    }


def _assign_all_topics(
    group: GroupSpec, order: Sequence[str], assigned: list[dict[Uuid, set[int]]], is_assignable: IsAssignable
) -> None:
    subscribed = group.members[order[0]].topic_ids
    targets = [
        (topic_id, partition)
        for topic_id in sorted(subscribed, key=uuid_sort_key)
        for partition in range(group.partition_counts[topic_id])
        if is_assignable(topic_id, partition)
    ]
    round_ = _Round[Place](targets, _place_hash_code, range(len(order)), DEFAULT_BINS)
    for index, member_id in enumerate(order):
        assignment = group.members[member_id].assignment
        for topic_id in topics_in_hash_order(assignment, presized=False):
            if topic_id in subscribed:
                round_.has(index, ((topic_id, one) for one in partitions_in_hash_order(assignment[topic_id])))
            else:
                assigned[index].pop(topic_id)
    given_up, given = round_.share_out()
    for index, (topic_id, partition) in given_up:
        assigned[index][topic_id].remove(partition)
    for index, (topic_id, partition) in given:
        assigned[index].setdefault(topic_id, set()).add(partition)


def _assign_topic(
    group: GroupSpec,
    order: Sequence[str],
    topic_id: Uuid,
    assigned: list[dict[Uuid, set[int]]],
    is_assignable: IsAssignable,
) -> None:
    subscribers = [index for index, name in enumerate(order) if topic_id in group.members[name].topic_ids]
    targets = [one for one in range(group.partition_counts[topic_id]) if is_assignable(topic_id, one)]
    round_ = _Round[int](targets, lambda partition: partition, subscribers, bins_for(len(subscribers)), len(order))
    for index, member_id in enumerate(order):
        round_.has(index, partitions_in_hash_order(group.members[member_id].assignment.get(topic_id, ())))
    given_up, given = round_.share_out()
    for index, partition in given_up:
        assigned[index][topic_id].remove(partition)
    for index, partition in given:
        assigned[index].setdefault(topic_id, set()).add(partition)


class _Round(Generic[PartitionT]):
    """One distribution of partitions over members, which are numbers."""

    def __init__(
        self,
        targets: Sequence[PartitionT],
        hash_code: Callable[[PartitionT], int],
        members: Sequence[int],
        bins_of_new: int,
        all_members: int | None = None,
    ) -> None:
        """`bins_of_new`: the first size of the set of members of a partition that has none yet. `all_members`: how many
        members the group has; None: all take part."""
        self._targets = targets
        self._hash_code = hash_code
        self._group_size = len(members) if all_members is None else all_members
        self._bins_of_new = bins_of_new
        self._sharing = -(-len(members) // len(targets)) if targets else 0
        """How many members a partition is for."""
        self._wanted = dict.fromkeys(range(self._group_size), 0)
        """How many partitions each member is to have."""
        share = self._sharing * len(targets) / len(members)
        for position, index in enumerate(members):
            self._wanted[index] = ceil(share * (position + 1)) - ceil(share * position)
        self._by_partition = HashTable[PartitionT](hash_code, bins_for(len(targets)))
        self._members: dict[PartitionT, HashTable[int]] = {}
        self._by_member: dict[int, HashTable[PartitionT]] = {}

    def has(self, index: int, partitions: Iterable[PartitionT]) -> None:
        """A member has these partitions so far."""
        for partition in partitions:
            self._know(partition, DEFAULT_BINS).add(index)
            self._of_member(index).add(partition)

    def share_out(self) -> tuple[list[tuple[int, PartitionT]], list[tuple[int, PartitionT]]]:
        """What members give up, and what they get, each as members with one partition."""
        given_up = [*self._revoke_from_overfilled(), *self._revoke_from_overshared()]
        for partition in self._targets:
            self._know(partition, self._bins_of_new)
        return given_up, self._assign_remaining()

    def _know(self, partition: PartitionT, bins: int) -> HashTable[int]:
        if partition not in self._members:
            self._by_partition.add(partition, at_head=True)
            self._members[partition] = HashTable(lambda index: index, bins)
        return self._members[partition]

    def _of_member(self, index: int) -> HashTable[PartitionT]:
        if index not in self._by_member:
            self._by_member[index] = HashTable(self._hash_code)
        return self._by_member[index]

    def _take(self, index: int, partition: PartitionT) -> tuple[int, PartitionT]:
        self._members[partition].remove(index)
        self._by_member[index].remove(partition)
        return index, partition

    def _revoke_from_overfilled(self) -> list[tuple[int, PartitionT]]:
        return [
            self._take(index, partition)
            for index, mine in self._by_member.items()
            for partition in mine.in_order()[: max(0, len(mine) - self._wanted[index])]
        ]

    def _revoke_from_overshared(self) -> list[tuple[int, PartitionT]]:
        return [
            self._take(index, partition)
            for partition in self._by_partition.in_order()
            for index in self._members[partition].in_order()[: max(0, len(self._members[partition]) - self._sharing)]
        ]

    def _assign_remaining(self) -> list[tuple[int, PartitionT]]:
        """Give each partition to more members, in turn, until it has enough. Once no member of a whole turn could take
        a partition, nothing more is assigned. A member may get a partition twice and counts twice then, as in Kafka."""
        unfilled = HashTable[int](lambda index: index, bins_for(self._group_size))
        for index, wanted in self._wanted.items():
            if len(self._by_member.get(index, ())) < wanted:
                unfilled.add(index)
        given: list[tuple[int, PartitionT]] = []
        turn, gave_in_turn = iter(unfilled.in_order()), False
        for partition in self._by_partition.in_order():
            missing = self._sharing - len(self._members[partition])
            while len(unfilled) and missing > 0:
                taker = next(turn, None)
                if taker is None:
                    if not gave_in_turn:
                        return given
                    turn, gave_in_turn = iter(unfilled.in_order()), False
                elif taker not in self._members[partition]:
                    mine = self._of_member(taker)
                    mine.add(partition)
                    given.append((taker, partition))
                    gave_in_turn = True
                    missing -= 1
                    if len(mine) >= self._wanted[taker]:
                        unfilled.remove(taker)
        return given


def _place_hash_code(place: Place) -> int:
    return (31 * uuid_hash_code(place[0]) + place[1]) & 0xFFFFFFFF
