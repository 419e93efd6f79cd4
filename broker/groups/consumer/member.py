"""A member of a consumer group, as its records describe it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeAlias

from klamm.protocol.records.coordinator.consumer_groups import ClassicMemberMetadata
from klamm.protocol.uuid import Uuid

PartitionEpochs: TypeAlias = Mapping[Uuid, Mapping[int, int]]
"""Partitions by topic id; beside each the member epoch at which it was assigned. A topic without partitions is not
named."""

LEAVING_EPOCH: Final = -1
LEAVING_STATIC_EPOCH: Final = -2
"""A static member leaves for a while: it keeps its partitions until its session ends."""


class MemberState(IntEnum):
    """The states in CurrentMemberAssignment records. The table of transitions is in `klamm.broker.groups.consumer`."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127
    """Written by a newer broker."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member; those made without more than an id have not joined yet."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str = ""
    """"" is none."""
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    """None: the member uses the consumer protocol."""
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: PartitionEpochs = field(default_factory=dict)
    pending_revocation: PartitionEpochs = field(default_factory=dict)

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == epoch


def partitions_of(epochs: PartitionEpochs) -> dict[Uuid, tuple[int, ...]]:
    """The partitions without their epochs, in ascending order."""
    return {topic_id: tuple(sorted(epochs[topic_id])) for topic_id in sorted(epochs)}


def at_epoch(partitions: Mapping[Uuid, tuple[int, ...]], epoch: int) -> dict[Uuid, dict[int, int]]:
    """The partitions, each assigned at `epoch`."""
    return {topic_id: dict.fromkeys(indexes, epoch) for topic_id, indexes in partitions.items()}
