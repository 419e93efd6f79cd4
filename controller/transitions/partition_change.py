"""Plans the change of one partition: its replicas, leader, ISR and eligible leader replicas, as the smallest record.

`plan_partition_change` compares a partition with the wanted state and returns a PartitionChangeRecord, or None when
nothing changes (Kafka: PartitionChangeBuilder; eligible leader replicas: KIP-966 as in 4.3). Without eligible leader
replicas the last replica never leaves the ISR. Whatever is wanted, it also completes a reassignment that has nothing
more to wait for. It is the reference for the column operations in `klamm.controller.transitions.leadership`.
"""

from collections.abc import Collection, Container, Mapping
from dataclasses import field
from typing import Any

from klamm.assignment.kafka.java_hash_map import hash_order
from klamm.controller.metadata.directories import has_directories
from klamm.controller.metadata.features import ElectionFeatures
from klamm.controller.metadata.partition import NO_LEADER, RECOVERING, Partition
from klamm.controller.transitions.reassignment import Assignment, assignment_of, completed
from klamm.protocol.records.partitions import PartitionChangeRecord
from klamm.protocol.uuid import Uuid
from klamm.quick_dataclasses import dataclass

NO_DIRECTORIES: Mapping[int, Uuid] = {}


@dataclass(frozen=True, slots=True)
class Election:
    """The conditions of an election."""

    acceptable_leaders: Container[int]
    """Brokers that may lead after the change."""
    min_isr: int
    """The topic's min.insync.replicas: below it, replicas that leave the ISR stay eligible to lead."""
    features: ElectionFeatures
    unclean: bool = False
    """Whether a replica outside ISR and ELR may lead when none inside can (unclean.leader.election.enable)."""
    preferred: bool = False
    """Whether the first replica takes over even from a leader that may continue to lead."""
    unclean_shutdown: Collection[int] = field(default=())
    """Brokers that shut down uncleanly. They may have lost records, so they leave the ELR."""


def plan_partition_change(
    topic_id: Uuid,
    partition_index: int,
    partition: Partition,
    election: Election,
    target_isr: tuple[int, ...] | None = None,
    target_recovery: int | None = None,
    target: Assignment | None = None,
    new_directories: Mapping[int, Uuid] = NO_DIRECTORIES,
) -> PartitionChangeRecord | None:
    """The record that changes `partition` to `target_isr` and to the replica lists of `target` (each unchanged if
    None), to the leader that follows from them, and to `target_recovery` (unchanged if None; an unclean election sets
    RECOVERING). `new_directories` has the log directory of each replica that is added."""
    target = target or assignment_of(partition)
    isr = partition.isr if target_isr is None else target_isr
    if done := completed(target, isr):
        target, isr = Assignment(done[0]), done[1]
    elr = _eligible(partition, target.replicas, isr, election)
    leader, isr, elr, unclean = _elect(partition, target.replicas, isr, elr, election)
    if not election.features.has_elr:
        isr, elr = isr or partition.isr, ()
    recovery = partition.leader_recovery_state if target_recovery is None else target_recovery
    after: dict[str, Any] = {
        **target._asdict(),
        "isr": isr,
        "leader": leader,
        "eligible_leader_replicas": elr,
        "last_known_elr": _last_known(partition, leader, election),
        "leader_recovery_state": RECOVERING if unclean else recovery,
    }
    changed = {name: value for name, value in after.items() if value != getattr(partition, name)}
    if "replicas" in changed:
        known = dict(zip(partition.replicas, partition.directories, strict=True))
        directories = [known.get(one) or new_directories[one] for one in target.replicas]
        changed |= {"directories": tuple(directories)} if has_directories(directories) else {}
    # A change that names the leader increases the leader epoch, so that removed replicas notice that they are removed.
    shrinks = election.features.shrinks_raise_epochs and not set(isr).issuperset(partition.isr)
    if shrinks or not set(target.replicas).issuperset(partition.replicas):
        changed["leader"] = leader
    return PartitionChangeRecord(partition_id=partition_index, topic_id=topic_id, **changed) if changed else None


def _eligible(
    partition: Partition, replicas: tuple[int, ...], isr: tuple[int, ...], election: Election
) -> tuple[int, ...]:
    """The eligible leader replicas when the ISR becomes `isr`. A broker that is not a replica any more is not eligible,
    and one that was not a replica before is not either: it has no records, whatever a log of Apache Kafka says.

    A minimum above the number of replicas is no special case: once all replicas are in sync, none is left to be
    eligible.
    """
    if not election.features.has_elr:
        return partition.eligible_leader_replicas  # those of the time before they were turned off
    if len(isr) >= election.min_isr:
        return ()
    before = list(dict.fromkeys((*partition.eligible_leader_replicas, *partition.isr)))
    candidates = {*before}.intersection(partition.replicas, replicas) - set(isr) - set(election.unclean_shutdown)
    if len(candidates) < 2:
        return tuple(candidates)
    # Apache Kafka's controller takes them from a HashSet, which is made of the former ones.
    order = hash_order(before, room_for=len(partition.eligible_leader_replicas))
    return tuple(before[position] for position in order if before[position] in candidates)


def _last_known(partition: Partition, leader: int, election: Election) -> tuple[int, ...]:
    """The last leader of a partition that has none, for the operator who has to choose a leader (KIP-966); else
    empty."""
    if not election.features.has_elr:
        return partition.last_known_elr
    if leader != NO_LEADER:
        return ()
    if partition.leader != NO_LEADER:
        return (partition.leader,)
    return partition.last_known_elr


def _elect(
    partition: Partition,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    election: Election,
) -> tuple[int, tuple[int, ...], tuple[int, ...], bool]:
    """Leader, ISR, ELR after the election, and whether it was unclean."""
    # Eligible leader replicas count only while the ISR is empty, because replicas in sync have all records for certain.
    candidates = isr or elr
    valid = [r for r in replicas if r in candidates and r in election.acceptable_leaders]
    if valid:
        leader = _choose(partition, replicas, valid, election)
        # A replica is in both only if the ELR is left from before it was turned off. Kafka then does the same.
        if leader in isr and (leader == partition.leader or leader not in elr):
            return leader, isr, elr, False
        # If the leader was not in the ISR, the new ISR is the leader alone: only it is known to have all records.
        return leader, (leader,), tuple(replica for replica in elr if replica != leader), False
    unclean = _unclean_leader(partition, replicas, candidates, election)
    if unclean is not None:
        return unclean, (unclean,), (), True
    return NO_LEADER, isr, elr, False


def _unclean_leader(
    partition: Partition, replicas: tuple[int, ...], candidates: tuple[int, ...], election: Election
) -> int | None:
    """A replica that may lack records and leads because no other can: the last leader, or any live one (if enabled)."""
    if election.features.has_elr and not candidates and len(partition.last_known_elr) == 1:
        last_leader = partition.last_known_elr[0]
        if last_leader in election.acceptable_leaders:
            return last_leader
    if not election.unclean:
        return None
    return next((replica for replica in replicas if replica in election.acceptable_leaders), None)


def _choose(partition: Partition, replicas: tuple[int, ...], valid: list[int], election: Election) -> int:
    if election.preferred and replicas[0] in valid:
        return replicas[0]
    return partition.leader if partition.leader in valid else valid[0]
