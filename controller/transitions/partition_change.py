"""One partition: who leads, who is in sync, who may lead later, and the smallest record that says so.

`plan_partition_change` compares a partition with what is asked of it and returns a PartitionChangeRecord, or None
when nothing changes (Kafka: PartitionChangeBuilder; eligible leader replicas: KIP-966 as in 4.3). It is the reference
for the column operations in `controller.transitions.leadership`.
"""

from collections.abc import Collection, Container
from dataclasses import dataclass, field

from controller.metadata.partition import NO_LEADER, NO_LEADER_CHANGE, NO_RECOVERY_CHANGE, RECOVERING, Partition
from protocol.records.partitions import PartitionChangeRecord
from protocol.uuid import Uuid


@dataclass(frozen=True, slots=True)
class Election:
    """The circumstances of an election."""

    acceptable_leaders: Container[int]
    """Brokers that may lead after the change."""
    min_isr: int
    """The topic's min.insync.replicas: below it, replicas that leave the ISR stay eligible to lead."""
    unclean: bool = False
    """Whether a replica outside ISR and ELR may lead when none inside can (unclean.leader.election.enable)."""
    preferred: bool = False
    """Whether the first replica is to take over from a leader that is fine."""
    unclean_shutdown: Collection[int] = field(default=())
    """Replicas that lost their data guarantees and leave the ELR."""


def plan_partition_change(
    topic_id: Uuid,
    partition_index: int,
    partition: Partition,
    election: Election,
    target_isr: tuple[int, ...] | None = None,
    target_recovery: int | None = None,
) -> PartitionChangeRecord | None:
    """The record that brings `partition` to `target_isr` (unchanged if None) and to the leader it then has, and, unless
    that is elected uncleanly, to the leader recovery state `target_recovery` (unchanged if None)."""
    isr = partition.isr if target_isr is None else target_isr
    elr = _eligible(partition, isr, election)
    leader, isr, elr, unclean = _elect(partition, isr, elr, election)
    recovery = partition.leader_recovery_state if target_recovery is None else target_recovery
    if unclean:
        recovery = RECOVERING
    last_known_elr = _last_known(partition, leader, isr)
    record = PartitionChangeRecord(partition_id=partition_index, topic_id=topic_id)
    if leader != partition.leader:
        record.leader = leader
    if isr != partition.isr:
        record.isr = isr
    if elr != partition.eligible_leader_replicas:
        record.eligible_leader_replicas = elr
    if last_known_elr != partition.last_known_elr:
        record.last_known_elr = last_known_elr
    if recovery != partition.leader_recovery_state:
        record.leader_recovery_state = recovery
    return None if _says_nothing(record) else record


def _says_nothing(record: PartitionChangeRecord) -> bool:
    return (
        record.leader == NO_LEADER_CHANGE
        and record.isr is None
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
        and record.leader_recovery_state == NO_RECOVERY_CHANGE
    )


def _eligible(partition: Partition, isr: tuple[int, ...], election: Election) -> tuple[int, ...]:
    """The eligible leader replicas when the ISR becomes `isr`."""
    if len(isr) >= min(election.min_isr, len(partition.replicas)):
        return ()
    candidates = {*partition.eligible_leader_replicas, *partition.isr} - set(isr) - set(election.unclean_shutdown)
    in_order = [replica for replica in partition.replicas if replica in candidates]
    return (*in_order, *sorted(candidates.difference(in_order)))


def _last_known(partition: Partition, leader: int, isr: tuple[int, ...]) -> tuple[int, ...]:
    """Who led last, while nobody does: for the operator who has to choose (KIP-966)."""
    if leader != NO_LEADER:
        return ()
    if partition.leader != NO_LEADER and not isr:
        return (partition.leader,)
    return partition.last_known_elr


def _elect(
    partition: Partition, isr: tuple[int, ...], elr: tuple[int, ...], election: Election
) -> tuple[int, tuple[int, ...], tuple[int, ...], bool]:
    """Leader, ISR, ELR after the election, and whether it was unclean."""
    # Who is eligible counts only while nobody is in sync: those have everything, and more surely so.
    candidates = isr or elr
    valid = [r for r in partition.replicas if r in election.acceptable_leaders and r in candidates]
    if valid:
        leader = _choose(partition, valid, election)
        if leader in isr:
            return leader, isr, elr, False
        # A leader out of the ELR starts the ISR anew: it is the only one known to have everything.
        return leader, (leader,), tuple(replica for replica in elr if replica != leader), False
    unclean = _unclean_leader(partition, candidates, election)
    if unclean is not None:
        return unclean, (unclean,), (), True
    return NO_LEADER, isr, elr, False


def _unclean_leader(partition: Partition, candidates: tuple[int, ...], election: Election) -> int | None:
    """A replica that may lack records and leads all the same: nobody else can, and it led last, or any may (config)."""
    if not candidates and len(partition.last_known_elr) == 1:
        last_leader = partition.last_known_elr[0]
        if last_leader in election.acceptable_leaders:
            return last_leader
    if not election.unclean:
        return None
    return next((replica for replica in partition.replicas if replica in election.acceptable_leaders), None)


def _choose(partition: Partition, valid: list[int], election: Election) -> int:
    if election.preferred and partition.replicas[0] in valid:
        return partition.replicas[0]
    return partition.leader if partition.leader in valid else valid[0]
