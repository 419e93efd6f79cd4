"""The assignor `uniform`: members get equally many partitions, and keep what they have as far as that allows.

This file has the case of members that are all subscribed to the same topics; uniform_mixed.py has the other.
Source: KIP-848, section on assignors; compared with Apache Kafka's UniformAssignor 4.3.0 (tests/golden/assignors).
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from klamm.broker.groups.assignors.spec import (
    NOTHING,
    Assignment,
    GroupSpec,
    members_in_hash_order,
    partitions_in_hash_order,
    topics_in_hash_order,
)
from klamm.broker.groups.assignors.uniform_mixed import assign_mixed
from klamm.protocol.uuid import Uuid


def assign_uniform(group: GroupSpec) -> dict[str, Assignment]:
    """Partitions by member id."""
    subscribed = {topic_id for member in group.members.values() for topic_id in member.topic_ids}
    if not subscribed:
        return dict.fromkeys(group.members, NOTHING)
    return _assign_equal(group, subscribed) if group.homogeneous else assign_mixed(group)


@dataclass(slots=True)
class _Member:
    """A member while partitions are given out: what it keeps, and how many more it may take."""

    kept: dict[Uuid, list[int]]
    room: int


def _assign_equal(group: GroupSpec, subscribed: set[Uuid]) -> dict[str, Assignment]:
    """First every member gives up what is more than its share, then the free partitions fill those with room.

    The free ones are those without an owner, in the order of topics and partitions, then those given up. The remainder
    of the division (`larger` members get one more) goes to the members that come first, but a member that does not
    fill its larger share leaves it to a later one, as long as enough members follow.
    """
    order = members_in_hash_order(group.members)
    share, larger = divmod(sum(group.partition_counts[topic_id] for topic_id in subscribed), len(order))
    free = deque(_without_owner(group, subscribed))
    members: dict[str, _Member] = {}
    for position, member_id in enumerate(order):
        has_larger_share = larger > 0
        member, given_up = _keep(group.members[member_id].assignment, subscribed, share + has_larger_share)
        if member.room > 0 and has_larger_share and len(order) - position > larger:
            member.room -= 1
            has_larger_share = False
        larger -= has_larger_share
        free.extend(given_up)
        members[member_id] = member
    for member in members.values():
        for _ in range(min(member.room, len(free))):
            topic_id, partition = free.popleft()
            member.kept.setdefault(topic_id, []).append(partition)
    return {member_id: _in_order(member.kept) for member_id, member in members.items()}


def _without_owner(group: GroupSpec, subscribed: set[Uuid]) -> list[tuple[Uuid, int]]:
    owned = {
        (topic_id, partition)
        for member in group.members.values()
        for topic_id, partitions in member.assignment.items()
        for partition in partitions
    }
    return [
        (topic_id, partition)
        for topic_id in topics_in_hash_order(subscribed, presized=True)
        for partition in range(group.partition_counts[topic_id])
        if (topic_id, partition) not in owned
    ]


def _keep(assignment: Assignment, subscribed: set[Uuid], share: int) -> tuple[_Member, list[tuple[Uuid, int]]]:
    """What a member keeps of its assignment, and what it gives up because it is more than its share."""
    kept: dict[Uuid, list[int]] = {}
    given_up: list[tuple[Uuid, int]] = []
    for topic_id in topics_in_hash_order(assignment, presized=False):
        if topic_id not in subscribed:
            continue
        partitions = partitions_in_hash_order(assignment[topic_id])
        if partitions[:share]:
            kept[topic_id] = partitions[:share]
        given_up.extend((topic_id, partition) for partition in partitions[share:])
        share -= min(share, len(partitions))
    return _Member(kept, share), given_up


def _in_order(partitions: Mapping[Uuid, list[int]]) -> Assignment:
    return {topic_id: tuple(sorted(partitions[topic_id])) for topic_id in sorted(partitions)}
