"""Elections in many partitions: partitions that wait for a broker, and preferred leaders.

A partition without a leader elects one when a replica that is in sync or eligible can lead again. The preferred leader
of a partition is its first replica. The caller chooses the rows, so that long work can be done in steps
(`klamm.controller.transitions.long_work`). The result equals that of the one-by-one path.
"""

from collections.abc import Collection

import numpy as np

from klamm.controller.log_records import Record
from klamm.controller.metadata.broker_set import BrokerSet
from klamm.controller.metadata.columns import ColumnTable, Ints, among
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.live_replicas import LiveReplicas
from klamm.controller.metadata.partition import NO_LEADER
from klamm.controller.metadata.partition_table import PartitionKey
from klamm.controller.settings import Settings
from klamm.controller.transitions.change_runs import Mask, Rows, groups, in_lists, in_runs, run_of_changes
from klamm.controller.transitions.election_rules import TopicRules

Changes = list[Record]


def plan_broker_return(image: MetadataImage, settings: Settings, broker_id: int) -> Changes:
    """Elections in the partitions without a leader that the returning broker can lead."""
    live_after = BrokerSet([*image.live_brokers().without(broker_id).ids.tolist(), broker_id])
    acceptable = LiveReplicas(image, live_after)
    rules = TopicRules(image, settings)
    changes: Changes = []
    for table in image.partitions.tables.values():
        rows = np.flatnonzero(waiting_at(table, slice(0, table.count), [broker_id]))
        changes += plan_elections(image, table, rows, acceptable, rules)
    return changes


def count_waiting(image: MetadataImage, broker_id: int) -> int:
    """The number of partitions without a leader that have a replica on the broker."""
    tables = image.partitions.tables.values()
    return sum(int(np.count_nonzero(waiting_at(table, slice(0, table.count), [broker_id]))) for table in tables)


def leads_any(image: MetadataImage, broker_id: int) -> bool:
    """Whether a broker leads any partition."""
    tables = image.partitions.tables.values()
    return any(bool((table.leader[: table.count] == broker_id).any()) for table in tables)


def waiting_at(table: ColumnTable, rows: slice, broker_ids: Collection[int]) -> Mask:
    """Which rows have no leader, and a replica on one of the brokers."""
    waiting: Mask = table.leader[rows] == NO_LEADER
    positions = np.flatnonzero(waiting)
    waiting[positions] = among(table.replicas[rows][positions], broker_ids).any(axis=1)
    return waiting


def plan_elections(
    image: MetadataImage, table: ColumnTable, rows: Rows, acceptable: LiveReplicas, rules: TopicRules
) -> Changes:
    """Elections in rows without a leader. Rows whose only eligible replica can lead again are planned as columns. That
    includes rows in reassignment, because no reassignment completes while no replica is in sync. Without eligible
    leader replicas, the same holds for ordinary rows whose only replica in sync can lead again."""
    sole, named_last = _sole_eligible(image, table, rows)
    is_sole = acceptable.holds(table, rows) & (table.replicas[rows] == sole[:, None])
    simple = (table.isr_count[rows] == 0) & is_sole.any(axis=1)
    changes: Changes = []
    no_brokers = np.empty((len(rows), 0), dtype=np.int32)
    for group in groups(named_last[simple]):
        members = np.flatnonzero(simple)[group]
        values: dict[str, object] = {
            "leader": sole[members],
            "isr": sole[members].reshape(-1, 1),
            "eligible_leader_replicas": no_brokers[members],
        }
        if named_last[members[0]]:
            values["last_known_elr"] = no_brokers[members]
        changes.append(run_of_changes(image, table, rows[members], values))
    rest = rows[~simple]
    if not rules.features.has_elr:
        only = table.replicas[rest] == table.isr[rest, 0][:, None]
        back = (table.isr_count[rest] == 1) & ~table.sparse[rest] & (acceptable.holds(table, rest) & only).any(axis=1)
        if back.any():
            changes.append(run_of_changes(image, table, rest[back], {"leader": table.isr[rest[back], 0]}))
        rest = rest[~back]
    changes += in_runs(one for row in rest.tolist() for one in rules.plan_row(table, row, acceptable))
    return changes


def _sole_eligible(image: MetadataImage, table: ColumnTable, rows: Rows) -> tuple[Ints, Mask]:
    """For each row, its eligible leader replica if there is exactly one, else NO_LEADER; and whether the row has a last
    known leader (False where the first result is NO_LEADER)."""
    sole, named_last = np.full(len(rows), NO_LEADER, dtype=np.int32), np.zeros(len(rows), dtype=np.bool_)
    keys = map(PartitionKey, table.topic_row[rows].tolist(), table.partition_index[rows].tolist())
    for position, key in enumerate(keys):
        elr, last_known = image.partitions.elr.get(key, ((), ()))
        if len(elr) == 1:
            sole[position], named_last[position] = elr[0], bool(last_known)
    return sole, named_last


def plan_preferred_leaders(
    image: MetadataImage, table: ColumnTable, rows: Rows, acceptable: LiveReplicas, rules: TopicRules
) -> Changes:
    """The first replica becomes leader in those of the rows where it is in sync and may lead."""
    replicas = table.replicas[rows]
    rows = rows[acceptable.holds(table, rows)[:, 0] & in_lists(replicas[:, :1], table.isr[rows])[:, 0]]
    # Whether the topic allows unclean elections does not matter here, because the new leader is in sync.
    alone = table.sparse[rows]
    ordinary = rows[~alone]
    changes: Changes = []
    if len(ordinary):
        changes.append(run_of_changes(image, table, ordinary, {"leader": table.replicas[ordinary, 0]}))
    alone_rows = rows[alone].tolist()
    changes += in_runs(one for row in alone_rows for one in rules.plan_row(table, row, acceptable, preferred=True))
    return changes


def led_by_others_at(table: ColumnTable, rows: slice) -> Mask:
    """Which rows have a leader that is not their first replica."""
    leader = table.leader[rows]
    found: Mask = (leader >= 0) & (leader != table.replicas[rows][:, 0])
    return found
