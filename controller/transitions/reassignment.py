"""What a reassignment does to the replica lists of one partition: begin it, complete it, take it back.

Rules of Apache Kafka 4.3 (PartitionReassignmentReplicas, PartitionReassignmentRevert), on tuples: the target comes
first in the replicas, then what is to be removed. Who leads and who stays eligible follows in
`klamm.controller.transitions.partition_change`. Placeholders (KIP-409) are never in a target, so they are removed like
replicas, and come back, last in the list, when a reassignment is cancelled.
"""

from collections.abc import Sequence
from typing import NamedTuple

from klamm.controller.metadata.partition import Partition


class Assignment(NamedTuple):
    """The replica lists of a partition. Without adding and removing replicas nothing is in progress."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


def assignment_of(partition: Partition) -> Assignment:
    """What a partition has now."""
    return Assignment(partition.replicas, partition.adding_replicas, partition.removing_replicas)


def reassigned(present: Assignment, target: Sequence[int]) -> Assignment:
    """The lists while replicas move to `target`.

    They are set against all present replicas. While another reassignment is in progress, its adding replicas count on
    if the new one adds none, and its removing replicas if the new one removes none (Kafka keeps them, too).
    """
    adding = tuple(sorted(set(target).difference(present.replicas)))
    removing = tuple(sorted(set(present.replicas).difference(target), key=_placeholders_last))
    return Assignment((*target, *removing), adding or present.adding_replicas, removing or present.removing_replicas)


def _placeholders_last(replica: int) -> tuple[bool, int]:
    return replica < 0, abs(replica)


def completed(moving: Assignment, isr: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The replicas and the ISR once a reassignment is done; None while none is in progress, or it has to wait.

    It waits for all that it adds to be in sync, and for somebody to be in sync who stays. One that removes more than
    it adds waits for all that stay: the number of replicas in sync does not fall below the target's.
    """
    replicas, adding, removing = moving
    if not adding and not removing:
        return None
    staying = tuple(replica for replica in replicas if replica not in removing)
    in_sync = tuple(replica for replica in isr if replica not in removing)
    awaited = staying if len(adding) < len(removing) else adding
    if not in_sync or not set(adding).union(awaited).issubset(in_sync):
        return None
    return staying, in_sync


def reverted(partition: Partition) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """Replicas and ISR without what the reassignment adds, and whether nobody who stays was in sync: then the first
    replica has to lead with what it has, which only a topic that allows unclean elections may do."""
    adding = partition.adding_replicas
    replicas = tuple(replica for replica in partition.replicas if replica not in adding)
    isr = tuple(replica for replica in partition.isr if replica not in adding)
    return (replicas, isr, False) if isr else (replicas, replicas[:1], True)


__all__ = ["Assignment", "assignment_of", "completed", "reassigned", "reverted"]
