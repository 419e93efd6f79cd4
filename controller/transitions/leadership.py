"""Changes the ISRs and leaders of many partitions at once, as column operations.

A broker that goes leaves every ISR that contains it, and every partition that it led elects a leader. Replicas that
have caught up join the ISR. (Elections when a broker returns: `klamm.controller.transitions.elections`.) Rows with an
entry in a sparse table (a reassignment, eligible leader replicas) and rows of topics with their own value of
unclean.leader.election.enable take the one-by-one path of `klamm.controller.transitions.partition_change`. That path is
also the reference: a property test compares the results of both.
"""

from collections.abc import Collection, Iterable, Iterator

import numpy as np

from klamm.controller.log_records import Record
from klamm.controller.metadata.columns import DEAD, PADDING, ColumnTable, among, packed
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.live_replicas import LiveReplicas
from klamm.controller.metadata.partition import NO_LEADER, RECOVERED, RECOVERING, LogKey
from klamm.controller.metadata.partition_table import PartitionKey
from klamm.controller.settings import Settings
from klamm.controller.transitions.change_runs import Mask, Rows, groups, in_lists, in_runs, run_of_changes
from klamm.controller.transitions.election_rules import TopicRules
from klamm.controller.transitions.isr_order import listed_grown_isrs, listed_isr
from klamm.controller.transitions.reassignment import assignment_of, completed
from klamm.protocol.columns import Columns
from klamm.protocol.records.partitions import PartitionChangeRecord
from klamm.protocol.uuid import Uuid

Changes = list[Record]
COST_ALONE = 20
"""Cost of a row on the one-by-one path, in ordinary rows."""
COST_ELIGIBLE = 4
"""Cost of a row whose change makes a replica eligible to lead, in ordinary rows: the ELR is in a sparse table."""
FEW_BROKERS = 8
"""Up to this many brokers are searched for one by one, which is faster than to find every broker that is not live."""


def count_in_sync(image: MetadataImage, broker_id: int, directories: Collection[Uuid] | None = None) -> int:
    """The number of ISRs that contain a broker; with `directories`, only those where its replica is in one of these log
    directories. As many partitions change when the broker, or the directories, go offline."""
    tables = image.partitions.tables.values()
    return sum(len(_in_sync_rows(image, table, broker_id, directories)) for table in tables)


def find_lost(image: MetadataImage, *, registered: bool = True) -> int | None:
    """Some broker that is in an ISR and not live; None if there is none. With `registered=False` the search includes
    brokers that are not registered any more.

    If a broker in many ISRs goes, the record about the broker is logged first, and the ISRs change step by step later.
    """
    gone = [broker.broker_id for broker in image.brokers.values() if not broker.live]
    if registered and len(gone) <= FEW_BROKERS:
        return next((broker_id for broker_id in gone if count_in_sync(image, broker_id)), None)
    live = image.live_brokers()
    for table in image.partitions.tables.values():
        in_sync = table.isr[: table.count]
        gone_from = (in_sync != PADDING) & ~live.holds(in_sync)
        gone_from[_settled(image, table, slice(0, table.count))] = False
        if gone_from.any():
            return int(in_sync[gone_from][0])
    return None


def _in_sync_rows(
    image: MetadataImage, table: ColumnTable, broker_id: int, directories: Collection[Uuid] | None = None
) -> Rows:
    """The rows of a table whose ISR contains a broker and changes without it, ascending. An ISR contains a broker at
    most once."""
    # This is much faster than `any` for each row, because rows are short.
    rows: Rows = np.flatnonzero((table.isr[: table.count] == broker_id).ravel()) // table.width
    rows = rows[~_settled(image, table, rows)]
    if directories is None:
        return rows
    found = (image.partitions.directory_ids.known(directory) for directory in directories)
    numbers = [number for number in found if number is not None]
    own = table.replicas[rows] == broker_id
    lost: Rows = rows[(own & among(table.directories[rows], numbers)).any(axis=1)]
    return lost


def _settled(image: MetadataImage, table: ColumnTable, rows: Rows | slice) -> Mask:
    """Which rows have lost all their replicas already. Without eligible leader replicas the last one stays in sync."""
    settled: Mask = (table.leader[rows] == NO_LEADER) & (table.isr_count[rows] == 1)
    if image.features.has_elr:
        settled[:] = False
    return settled


def plan_broker_loss(
    image: MetadataImage,
    settings: Settings,
    broker_id: int,
    directories: Collection[Uuid] | None = None,
    most: int | None = None,
    *,
    unclean: bool = False,
) -> Changes:
    """The changes when a broker may neither lead nor be in sync any more, because it is fenced, shutting down or
    unregistered; with `directories`, only for its replicas in these log directories, which went offline. `most` bounds
    the cost of the changes, in ordinary rows; the rest is left for later calls. With `unclean` the broker is
    not eligible to lead, either."""
    left = most
    live_after = LiveReplicas(image, image.live_brokers().without(broker_id))
    rules = TopicRules(image, settings)
    changes: Changes = []
    for table in image.partitions.tables.values():
        rows = _in_sync_rows(image, table, broker_id, directories)[:left]
        alone = rules.special(table, rows)
        if left is not None:
            cost = np.where(alone, COST_ALONE, np.where(_falls_short(table, rows, rules), COST_ELIGIBLE, 1)).cumsum()
            affordable = int(np.searchsorted(cost, left, side="right"))
            rows, alone = rows[:affordable], alone[:affordable]
            left -= int(cost[affordable - 1]) if affordable else 0
        changes += _shrink(image, table, rows[~alone], broker_id, live_after, rules, unclean=unclean)
        distrusted = (broker_id,) if unclean else ()
        changes += in_runs(
            one
            for row in rows[alone].tolist()
            for one in rules.plan_row(table, row, live_after, leaving=broker_id, unclean_shutdown=distrusted)
        )
    return changes


def plan_unclean_return(image: MetadataImage, settings: Settings, broker_id: int) -> Changes:
    """The changes when a broker registers with a new incarnation id without a clean shutdown before. It may have lost
    records that it had acknowledged, so it leaves every ISR and every ELR (KIP-966)."""
    live_after = LiveReplicas(image, image.live_brokers().without(broker_id))
    rules = TopicRules(image, settings)
    changes = plan_broker_loss(image, settings, broker_id, unclean=True)
    if not image.features.has_elr:
        return changes
    for table in image.partitions.tables.values():
        rows = np.flatnonzero(sparse_entry_at(table, slice(0, table.count), broker_id))
        changes += plan_elr_removal(image, table, rows, broker_id, live_after, rules)
    return changes


def unclean_return_cost(image: MetadataImage, broker_id: int) -> int:
    """The cost of `plan_unclean_return`, in ordinary rows."""
    tables = image.partitions.tables.values()
    sparse = sum(int(np.count_nonzero(sparse_entry_at(table, slice(0, table.count), broker_id))) for table in tables)
    return count_in_sync(image, broker_id) + COST_ALONE * sparse


def sparse_entry_at(table: ColumnTable, rows: slice, broker_id: int) -> Mask:
    """Which rows have an entry in a sparse table and a replica on the broker."""
    found: Mask = table.sparse[rows] & (table.topic_row[rows] != DEAD)
    positions = np.flatnonzero(found)
    found[positions] = (table.replicas[rows][positions] == broker_id).any(axis=1)
    return found


def plan_elr_removal(
    image: MetadataImage,
    table: ColumnTable,
    rows: Rows,
    broker_id: int,
    live_after: LiveReplicas,
    rules: TopicRules,
) -> Changes:
    """Remove a broker from the ELR in those of the rows where it is eligible to lead but not in sync."""
    changes: list[PartitionChangeRecord] = []
    for row in rows.tolist():
        key = PartitionKey(int(table.topic_row[row]), int(table.partition_index[row]))
        elr, _ = image.partitions.elr.get(key, ((), ()))
        if broker_id in elr and broker_id not in table.isr[row]:
            changes += rules.plan_row(table, row, live_after, unclean_shutdown=(broker_id,))
    return list(in_runs(changes))


def growing_at(image: MetadataImage, table: ColumnTable, rows: slice, up: LiveReplicas, down: Collection[int]) -> Mask:
    """Which rows have a leader that is not `down`, and one of these: a replica outside the ISR that is `up`; a
    reassignment that an election left with nothing to wait for."""
    leader = table.leader[rows]
    led: Mask = (leader >= 0) & ~among(leader, down)
    growing: Mask = led & (table.isr_count[rows] < table.replica_count[rows])
    positions = np.flatnonzero(growing)
    growing[positions] = _joining(table, positions + rows.start, up).any(axis=1)
    # An election can leave a reassignment with no adding replica to wait for. No other change of it follows if all
    # other replicas outside the ISR are placeholders.
    replicas = table.replicas[rows]
    missing = table.replica_count[rows] - table.isr_count[rows]
    settled = ((replicas < 0) & (replicas != PADDING)).sum(axis=1) == missing
    for position in np.flatnonzero(led & table.sparse[rows] & settled & ~growing).tolist():
        partition = image.partitions.read_row(table, rows.start + position)
        growing[position] = completed(assignment_of(partition), partition.isr) is not None
    return growing


def plan_isr_growth(
    image: MetadataImage, table: ColumnTable, rows: Rows, up: LiveReplicas, live: LiveReplicas, rules: TopicRules
) -> Changes:
    """Replicas outside the ISR that are `up` have caught up and join it, in rows that are growing. A leader has to be
    one of the `live` replicas. As on real brokers, a leader that was elected uncleanly says with its first change of
    the ISR that it has recovered."""
    joining = np.where(_joining(table, rows, up), table.replicas[rows], PADDING)
    both = np.concatenate((table.isr[rows], joining), axis=1)
    grown, counts = packed(both, both != PADDING)
    alone = rules.special(table, rows) | (table.leader_recovery_state[rows] == RECOVERING)
    changes: Changes = []
    for group in groups(counts[~alone]):
        isr = grown[~alone][group][:, : int(counts[~alone][group[0]])]
        changes.append(run_of_changes(image, table, rows[~alone][group], {"isr": listed_grown_isrs(isr)}))
    changes += in_runs(
        one
        for row, isr, count in zip(rows[alone].tolist(), grown[alone], counts[alone].tolist(), strict=True)
        for one in rules.plan_row(
            table, row, live, target_isr=listed_isr(isr[:count].tolist(), _isr(table, row)), target_recovery=RECOVERED
        )
    )
    return changes


def _joining(table: ColumnTable, rows: Rows, up: LiveReplicas) -> Mask:
    """For each replica of the rows, whether it is outside the ISR and up."""
    outside = ~in_lists(table.replicas[rows], table.isr[rows])
    joining: Mask = up.holds(table, rows) & outside
    return joining


def plan_isrs(image: MetadataImage, settings: Settings, wanted: Iterable[tuple[LogKey, tuple[int, ...]]]) -> Changes:
    """Change ISRs as leaders ask with AlterPartition, one by one. A replica that joins must be live; others are left
    out."""
    live = LiveReplicas(image, image.live_brokers())
    rules = TopicRules(image, settings)
    changes: list[PartitionChangeRecord] = []
    for (topic_id, partition_index), isr in wanted:
        table, row = image.partitions.locate(image.topics_by_id[topic_id].row, partition_index)
        may_join = live.of_row(table, row).union(table.isr[row].tolist())
        before = _isr(table, row)
        target = listed_isr([replica for replica in isr if replica in may_join], before)
        if target != before:
            changes += rules.plan_row(table, row, live, target_isr=target, target_recovery=RECOVERED)
    return list(in_runs(changes))


def _isr(table: ColumnTable, row: int) -> tuple[int, ...]:
    return tuple(table.isr[row, : table.isr_count[row]].tolist())


def _falls_short(table: ColumnTable, rows: Rows, rules: TopicRules) -> Mask:
    """In which rows the replica that leaves the ISR becomes eligible to lead: the ISR has fewer replicas than
    min.insync.replicas then."""
    if not rules.features.has_elr:
        return np.zeros(len(rows), dtype=np.bool_)
    short: Mask = table.isr_count[rows] - 1 < rules.min_isr(table.topic_row[rows])
    return short


def _shrink(
    image: MetadataImage,
    table: ColumnTable,
    rows: Rows,
    leaving: int,
    live_after: LiveReplicas,
    rules: TopicRules,
    *,
    unclean: bool,
) -> Iterator[Columns[PartitionChangeRecord]]:
    """The changes of ordinary rows whose ISR holds the leaving broker, in runs of one shape."""
    remaining = np.where(table.isr[rows] == leaving, PADDING, table.isr[rows])
    isr, counts = packed(remaining, remaining != PADDING)
    replicas, leader = table.replicas[rows], table.leader[rows]
    may_lead = live_after.holds(table, rows) & in_lists(replicas, isr)
    new_leader = np.where(
        may_lead.any(axis=1), replicas[np.arange(len(rows)), may_lead.argmax(axis=1)], np.int32(NO_LEADER)
    )
    keeps = (may_lead & (replicas == leader[:, None])).any(axis=1)
    new_leader = np.where(keeps, leader, new_leader)
    moves = new_leader != leader
    under_min, has_elr = _falls_short(table, rows, rules), rules.features.has_elr
    for group in groups(counts, moves, under_min, new_leader == NO_LEADER):
        first = group[0]
        values: dict[str, object] = {}
        if counts[first] or has_elr:  # else the last replica stays in sync
            values["isr"] = isr[group][:, : int(counts[first])]
        if moves[first] or rules.features.shrinks_raise_epochs:
            values["leader"] = new_leader[group]
        if under_min[first] and not unclean:
            # An ordinary row has no ELR yet, so the new ELR is exactly the replica that leaves the ISR.
            values["eligible_leader_replicas"] = np.full((len(group), 1), leaving, dtype=np.int32)
        if has_elr and new_leader[first] == NO_LEADER and moves[first]:
            values["last_known_elr"] = leader[group].reshape(-1, 1)
        yield run_of_changes(image, table, rows[group], values)


__all__ = [
    "COST_ALONE",
    "count_in_sync",
    "find_lost",
    "growing_at",
    "plan_broker_loss",
    "plan_elr_removal",
    "plan_isr_growth",
    "plan_isrs",
    "plan_unclean_return",
    "sparse_entry_at",
    "unclean_return_cost",
]
