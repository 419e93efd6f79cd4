"""One partition as a value, and `merge`: the only place where leader and partition epochs grow.

The table keeps partitions as columns; rules about a single partition read one row as a `Partition`, decide, and
write a PartitionChangeRecord whose replay merges it back (Kafka: PartitionRegistration.merge).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from klamm.controller.metadata.broker import MIGRATING_DIRECTORY
from klamm.protocol.records.partitions import PartitionChangeRecord
from klamm.protocol.uuid import Uuid
from klamm.quick_dataclasses import dataclass

LogKey: TypeAlias = tuple[Uuid, int]
"""A topic's id and the index of its partition: what a partition log is found by."""

NO_LEADER = -1
NO_LEADER_CHANGE = -2
NO_RECOVERY_CHANGE = -1
RECOVERED = 0
RECOVERING = 1


@dataclass(frozen=True, slots=True)
class Partition:
    """The state of one partition. Ids below 0 among `replicas` are placeholders (KIP-409)."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[Uuid, ...]
    leader_recovery_state: int = RECOVERED
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @property
    def reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)


def merge(partition: Partition, change: PartitionChangeRecord) -> Partition:
    """The partition after `change`: the partition epoch grows always, the leader epoch when a leader is named."""
    names_leader = change.leader != NO_LEADER_CHANGE
    replicas = _or_same(change.replicas, partition.replicas)
    return replace(
        partition,
        replicas=replicas,
        directories=_merged_directories(partition, replicas, change.directories),
        isr=_or_same(change.isr, partition.isr),
        adding_replicas=_or_same(change.adding_replicas, partition.adding_replicas),
        removing_replicas=_or_same(change.removing_replicas, partition.removing_replicas),
        eligible_leader_replicas=_or_same(change.eligible_leader_replicas, partition.eligible_leader_replicas),
        last_known_elr=_or_same(change.last_known_elr, partition.last_known_elr),
        leader=change.leader if names_leader else partition.leader,
        leader_epoch=partition.leader_epoch + names_leader,
        partition_epoch=partition.partition_epoch + 1,
        leader_recovery_state=(
            partition.leader_recovery_state
            if change.leader_recovery_state == NO_RECOVERY_CHANGE
            else change.leader_recovery_state
        ),
    )


def _or_same(changed: Sequence[int] | None, present: tuple[int, ...]) -> tuple[int, ...]:
    return present if changed is None else tuple(changed)


def _merged_directories(
    partition: Partition, replicas: tuple[int, ...], changed: Sequence[Uuid] | None
) -> tuple[Uuid, ...]:
    if changed is not None:
        return tuple(changed)
    if replicas == partition.replicas:
        return partition.directories
    known = dict(zip(partition.replicas, partition.directories, strict=True))
    return tuple(known.get(replica, MIGRATING_DIRECTORY) for replica in replicas)
