"""`plan_partition_change` compared with the decisions of Apache Kafka 4.3's PartitionChangeBuilder
(tests/golden/reassignment), as the partition after the record. In Klamm a broker that is no longer a replica is not
eligible to lead."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from klamm.controller.metadata.broker import MIGRATING_DIRECTORY
from klamm.controller.metadata.features import ElectionFeatures
from klamm.controller.metadata.partition import Partition, merge
from klamm.controller.transitions.partition_change import Election, plan_partition_change
from klamm.controller.transitions.reassignment import Assignment, assignment_of, reassigned, reverted
from klamm.protocol.records.partitions import PartitionChangeRecord
from tests.controller.cluster_states import uuid_of

GOLDEN = Path(__file__).parent.parent / "golden" / "reassignment"
WITHOUT_ELR = ElectionFeatures(has_elr=False, shrinks_raise_epochs=False)
FEATURES = {
    "partition_changes": ElectionFeatures(has_elr=True, shrinks_raise_epochs=False),
    "partition_changes_without_elr": WITHOUT_ELR,
    "partition_changes_at_7": ElectionFeatures(has_elr=False, shrinks_raise_epochs=True),
}
"""The recordings, and the features of the controller that made them."""
CASES = {name: gzip.decompress((GOLDEN / f"{name}.txt.gz").read_bytes()).decode().splitlines() for name in FEATURES}
BROKERS = range(1, 8)
DIRECTORIES = {broker_id: uuid_of(broker_id) for broker_id in BROKERS}
KINDS = ("none", "isr", "unclean_shutdown", "target", "cancel")


def ids(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in text.split(",")) if text else ()


def partition_of(fields: list[str], *, has_directories: bool) -> Partition:
    replicas = ids(fields[0])
    place = DIRECTORIES if has_directories else dict.fromkeys(replicas, MIGRATING_DIRECTORY)
    return Partition(
        replicas=replicas,
        isr=ids(fields[1]),
        leader=int(fields[2]),
        leader_epoch=5,
        partition_epoch=9,
        directories=tuple(place[replica] for replica in replicas),
        leader_recovery_state=int(fields[7]),
        adding_replicas=ids(fields[3]),
        removing_replicas=ids(fields[4]),
        eligible_leader_replicas=ids(fields[5]),
        last_known_elr=ids(fields[6]),
    )


def recorded_change(text: str) -> PartitionChangeRecord | str | None:
    if text in ("none", "refused"):
        return None if text == "none" else text
    leader, *lists, recovery, directories = text.split("|")
    names = ("isr", "replicas", "adding_replicas", "removing_replicas", "eligible_leader_replicas", "last_known_elr")
    values: dict[str, Any] = {name: ids(one) for name, one in zip(names, lists, strict=True) if one != "-"}
    if directories != "-":
        values["directories"] = tuple(DIRECTORIES[broker_id] for broker_id in ids(directories))
    return PartitionChangeRecord(leader=int(leader), leader_recovery_state=int(recovery), **values)


def our_change(
    fields: list[str], partition: Partition, features: ElectionFeatures
) -> PartitionChangeRecord | str | None:
    acceptable, min_isr, election, kind, first, second = fields[8:]
    requested: dict[str, Any] = {}
    if kind in ("isr", "unclean_shutdown"):
        requested = {"target_isr": ids(first)}
    elif kind == "target":
        target = reassigned(assignment_of(partition), ids(first))
        is_old = features.shrinks_raise_epochs
        new = dict.fromkeys(BROKERS, MIGRATING_DIRECTORY) if is_old else DIRECTORIES
        requested = {"target": target, "new_directories": new}
    elif kind == "cancel":
        replicas, isr, unclean = reverted(partition)
        if unclean and election != "unclean":
            return "refused"
        requested = {"target_isr": isr, "target": Assignment(replicas)}
    circumstances = Election(
        ids(acceptable),
        int(min_isr),
        features,
        unclean=election == "unclean",
        preferred=election == "preferred",
        unclean_shutdown=ids(second),
    )
    return plan_partition_change(uuid_of(1), 0, partition, circumstances, **requested)


def facts(partition: Partition) -> dict[str, Any]:
    """Without the partition epoch, which grows if Kafka notes that replicas that were removed are eligible no more."""
    eligible = [replica for replica in partition.eligible_leader_replicas if replica in partition.replicas]
    named = {name: getattr(partition, name) for name in Partition.__slots__ if name != "partition_epoch"}
    return named | {"eligible_leader_replicas": eligible}


def has_removed_leader(partition: Partition) -> bool:
    return not {*partition.replicas}.issuperset(partition.eligible_leader_replicas)


def after(partition: Partition, change: PartitionChangeRecord | str | None) -> dict[str, Any] | str:
    if isinstance(change, str):
        return change
    return facts(partition if change is None else merge(partition, change))


@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize("kind", KINDS)
def test_changes_are_those_of_kafka(name: str, kind: str) -> None:
    lines = [line for line in CASES[name] if line.split("|")[11] == kind]
    assert len(lines) > 90
    for line in lines:
        case, _, recorded = line.partition("#")
        fields = case.split("|")
        partition = partition_of(fields, has_directories=name != "partition_changes_at_7")
        ours, theirs = our_change(fields, partition, FEATURES[name]), recorded_change(recorded)
        assert after(partition, ours) == after(partition, theirs), line
        assert (ours is None) == (theirs is None) or has_removed_leader(partition), line


def test_a_replica_that_was_removed_does_not_become_eligible_by_being_added_again() -> None:
    """A copy of a log of Apache Kafka can have it among the eligible ones."""
    partition = Partition(
        replicas=(1, 2), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0, directories=(MIGRATING_DIRECTORY,) * 2,
        eligible_leader_replicas=(2, 3),
    )  # fmt: skip
    election = Election((1, 2, 3), 3, FEATURES["partition_changes"])
    target = Assignment((3, 1, 2), (3,))
    change = plan_partition_change(uuid_of(1), 0, partition, election, target=target, new_directories=DIRECTORIES)
    assert change is not None
    assert merge(partition, change).eligible_leader_replicas == (2,)
