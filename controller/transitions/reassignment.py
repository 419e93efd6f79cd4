"""How a reassignment changes the replica lists of one partition when it begins, completes or is cancelled.

The rules are those of Apache Kafka 4.3 (PartitionReassignmentReplicas, PartitionReassignmentRevert), on tuples: the
list of replicas begins with the target, and the replicas to remove follow.
`klamm.controller.transitions.partition_change` then decides about leader and ELR. A target never contains placeholders
(KIP-409). A reassignment therefore removes them like replicas, and if it is cancelled they return at the end of the
list.
"""

from collections.abc import Sequence
from typing import NamedTuple

from klamm.controller.metadata.partition import Partition


class Assignment(NamedTuple):
    """The replica lists of a partition. If `adding_replicas` and `removing_replicas` are empty, no reassignment is in
    progress."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


def assignment_of(partition: Partition) -> Assignment:
    """The present replica lists of a partition."""
    return Assignment(partition.replicas, partition.adding_replicas, partition.removing_replicas)


def reassigned(present: Assignment, target: Sequence[int]) -> Assignment:
    """The lists while replicas move to `target`.

    Adding and removing replicas are the differences from all present replicas. If another reassignment is in progress
    and the new one adds none, the adding replicas of the former stay; the same holds for removing replicas (as in
    Kafka).
    """
    adding = tuple(sorted(set(target).difference(present.replicas)))
    removing = tuple(sorted(set(present.replicas).difference(target), key=_placeholders_last))
    return Assignment((*target, *removing), adding or present.adding_replicas, removing or present.removing_replicas)


def _placeholders_last(replica: int) -> tuple[bool, int]:
    return replica < 0, abs(replica)


def completed(moving: Assignment, isr: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Replicas and ISR after a reassignment that can complete; None if none is in progress, or if it has to wait.

    It waits until all replicas that it adds, and at least one that stays, are in sync. If it removes more replicas than
    it adds, it waits for all that stay, so that the number of replicas in sync does not fall below the target's.
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
    """Replicas and ISR without the replicas that the reassignment adds, and whether no replica that stays was in sync.
    In that case the first replica has to lead with the records that it has, if the topic allows unclean elections."""
    adding = partition.adding_replicas
    replicas = tuple(replica for replica in partition.replicas if replica not in adding)
    isr = tuple(replica for replica in partition.isr if replica not in adding)
    return (replicas, isr, False) if isr else (replicas, replicas[:1], True)


__all__ = ["Assignment", "assignment_of", "completed", "reassigned", "reverted"]
