"""The assignor `uniform` where members are subscribed to different topics.

Topic by topic, the free partitions go to the subscribers that have the fewest; then topics are balanced in turn, until
a whole turn has moved nothing. A topic is balanced when its subscribers differ by one partition at most (counted over
all topics), or when those with more have none of its partitions to give.
"""

from collections import defaultdict
from typing import Final

from klamm.broker.groups.assignors.spec import (
    Assignment,
    GroupSpec,
    members_in_hash_order,
    uuid_sort_key,
)
from klamm.protocol.uuid import Uuid

_MOST_TURNS: Final = 16
"""Overlapping subscriptions may need many turns for little: Kafka ends after so many."""
_FREE: Final = -1


def assign_mixed(group: GroupSpec) -> dict[str, Assignment]:
    """Partitions by member id; at least one member is subscribed to a topic."""
    work = _Work(group)
    work.give_out_the_free()
    work.balance()
    return work.assignment()


class _Work:
    """Owners by topic and partition, members as numbers in the order in which Kafka visits them."""

    def __init__(self, group: GroupSpec) -> None:
        self._member_ids = members_in_hash_order(group.members)
        self._sizes = [0] * len(self._member_ids)
        self._subscribers: dict[Uuid, list[int]] = defaultdict(list)
        for number, member_id in enumerate(self._member_ids):
            for topic_id in group.members[member_id].topic_ids:
                self._subscribers[topic_id].append(number)
        self._owners = {topic_id: [_FREE] * group.partition_counts[topic_id] for topic_id in self._subscribers}
        for number, member_id in enumerate(self._member_ids):
            member = group.members[member_id]
            for topic_id in member.topic_ids & member.assignment.keys():
                for partition in member.assignment[topic_id]:
                    self._owners[topic_id][partition] = number
                self._sizes[number] += len(member.assignment[topic_id])
        self._topics = sorted(self._subscribers, key=self._rank)

    def _rank(self, topic_id: Uuid) -> tuple[float, int, tuple[int, int]]:
        """Most partitions for each subscriber first, then fewest subscribers, then by id."""
        subscribers = len(self._subscribers[topic_id])
        return -len(self._owners[topic_id]) / subscribers, subscribers, uuid_sort_key(topic_id)

    def give_out_the_free(self) -> None:
        for topic_id in self._topics:
            owners = self._owners[topic_id]
            levels = _Levels(self._subscribers[topic_id], self._sizes)
            for partition in [partition for partition, owner in enumerate(owners) if owner == _FREE]:
                self._give(owners, partition, levels.next_with_fewest())

    def balance(self) -> None:
        topics = [topic_id for topic_id in self._topics if len(self._subscribers[topic_id]) > 1]
        last_moved: Uuid | None = None
        for _ in range(_MOST_TURNS):
            for topic_id in topics:
                if topic_id == last_moved:
                    return
                if self._balance_topic(topic_id) or last_moved is None:
                    last_moved = topic_id

    def _balance_topic(self, topic_id: Uuid) -> bool:
        """Moves partitions from subscribers with most to those with fewest; says whether any moved."""
        subscribers, owners = self._subscribers[topic_id], self._owners[topic_id]
        sizes = [self._sizes[member] for member in subscribers]
        if max(sizes) - min(sizes) <= 1:
            return False
        to_give: dict[int, list[int]] = defaultdict(list)
        for partition, owner in enumerate(owners):
            to_give[owner].append(partition)
        levels, moved = _Levels(subscribers, self._sizes), False
        while True:
            giver = levels.next_with_most()
            while giver is not None and not to_give[giver]:
                levels.exclude_last_with_most()
                giver = levels.next_with_most()
            if giver is None:
                break
            taker = levels.next_with_fewest()
            if levels.are_balanced():
                break
            self._give(owners, to_give[giver].pop(), taker)
            moved = True
        return moved

    def _give(self, owners: list[int], partition: int, member: int) -> None:
        if owners[partition] != _FREE:
            self._sizes[owners[partition]] -= 1
        owners[partition] = member
        self._sizes[member] += 1

    def assignment(self) -> dict[str, Assignment]:
        found: dict[str, dict[Uuid, list[int]]] = {member_id: {} for member_id in self._member_ids}
        for topic_id in sorted(self._owners):
            for partition, owner in enumerate(self._owners[topic_id]):
                found[self._member_ids[owner]].setdefault(topic_id, []).append(partition)
        return {
            member_id: {topic_id: tuple(partitions) for topic_id, partitions in topics.items()}
            for member_id, topics in found.items()
        }


class _Levels:
    """The subscribers of a topic by size. Takers are chosen from below: those at the lowest level in turn, then, with
    all one higher, those that had that size join them. Givers are chosen from above, likewise.
    """

    def __init__(self, members: list[int], sizes: list[int]) -> None:
        self._sizes = sizes
        self._order = sorted(members, key=lambda member: (sizes[member], member))
        self._low_end = 0
        self._low_next = 0
        self._low_level = sizes[self._order[0]] - 1
        self._high_start = self._high_end = len(self._order)
        self._high_next = len(self._order) - 1
        self._high_level = sizes[self._order[-1]] + 1

    def are_balanced(self) -> bool:
        return self._high_level - self._low_level <= 1

    def next_with_fewest(self) -> int:
        """The next taker: supposed to have one more from now on."""
        if self._low_next >= self._low_end:
            self._low_level += 1
            while self._low_end < len(self._order) and self._sizes[self._order[self._low_end]] == self._low_level:
                self._low_end += 1
            self._low_next = 0
        self._low_next += 1
        return self._order[self._low_next - 1]

    def next_with_most(self) -> int | None:
        """The next giver: supposed to have one fewer from now on. None where all have been excluded."""
        if self._high_next < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                # All of this level were excluded: the next lower size that occurs.
                self._high_level = self._sizes[self._order[self._high_start - 1]]
            else:
                self._high_level -= 1
            while self._high_start > 0 and self._sizes[self._order[self._high_start - 1]] == self._high_level:
                self._high_start -= 1
            self._high_next = self._high_end - 1
        if self._high_next < 0:
            return None
        self._high_next -= 1
        return self._order[self._high_next + 1]

    def exclude_last_with_most(self) -> None:
        """The giver chosen last has nothing to give: it changes places with the last of the level."""
        last, end = self._high_next + 1, self._high_end - 1
        self._order[last], self._order[end] = self._order[end], self._order[last]
        self._high_end = end
