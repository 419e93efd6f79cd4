"""What an assignor of KIP-848 is asked and what it answers: plain values, no group and no message."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from klamm.assignment.kafka.java_hash_map import hash_order, string_hash_code
from klamm.protocol.uuid import Uuid

Assignment: TypeAlias = Mapping[Uuid, tuple[int, ...]]
"""Partitions by topic id, in ascending order; a topic without partitions is not named."""

NOTHING: Final[Assignment] = {}


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member as its assignor sees it. Racks are left out: Apache Kafka 4.3's assignors ignore them."""

    topic_ids: frozenset[Uuid]
    """The topics that it is subscribed to and that exist."""
    assignment: Assignment = field(default_factory=dict)
    """What the last target assignment gave it."""
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """What an assignor is asked: the members in the order in which they became known, and the topics' sizes."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[Uuid, int]
    """At least the topics that members are subscribed to."""
    homogeneous: bool
    """All members are subscribed to the same topic names, those that do not exist included."""


def members_in_hash_order(members: Iterable[str]) -> list[str]:
    """Member ids in the order in which Kafka's assignors visit them: that of a HashMap."""
    ids = list(members)
    return [ids[index] for index in hash_order([string_hash_code(member_id) for member_id in ids])]


def topics_in_hash_order(topic_ids: Iterable[Uuid], *, presized: bool) -> list[Uuid]:
    """Topic ids in the order of a HashSet (`presized`: one that is made from a collection) or of a HashMap's keys."""
    ids = sorted(topic_ids, key=uuid_sort_key)
    order = hash_order([uuid_hash_code(topic_id) for topic_id in ids], len(ids) if presized else 0)
    return [ids[index] for index in order]


def partitions_in_hash_order(partitions: Iterable[int]) -> list[int]:
    """Partition indexes in the order of a HashSet made from a list of them: the hash code of an int is the int."""
    ascending = sorted(partitions)
    return [ascending[index] for index in hash_order(ascending, len(ascending))]


def uuid_sort_key(topic_id: Uuid) -> tuple[int, int]:
    """Orders ids as Kafka's Uuid.compareTo does: two halves of 64 bits with sign."""
    return int.from_bytes(topic_id[:8], signed=True), int.from_bytes(topic_id[8:], signed=True)


def uuid_hash_code(topic_id: Uuid) -> int:
    """`Uuid.hashCode` as 32 bits without sign."""
    halves = int.from_bytes(topic_id[:8]) ^ int.from_bytes(topic_id[8:])
    return halves >> 32 ^ halves & 0xFFFFFFFF
