"""ISRs of many partitions at once, as column operations, and the leaders that follow from them.

When a broker goes, every ISR that it is in loses it and every partition that it led elects; replicas that have caught
up join. (Who waits for a broker that comes back: `klamm.controller.transitions.elections`.) Rows with something kept
aside (a reassignment, eligible leader replicas) and topics with a say in unclean elections take the one-by-one path of
`klamm.controller.transitions.partition_change`, which is also the reference: a property test holds both to one result.
"""

from collections.abc import Collection, Iterable, Iterator

import numpy as np

from klamm.controller.data.data_plane import LogKey
from klamm.controller.log_records import Record
from klamm.controller.metadata.columns import DEAD, PADDING, ColumnTable, among, packed
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.live_replicas import LiveReplicas
from klamm.controller.metadata.partition import NO_LEADER, RECOVERED, RECOVERING
from klamm.controller.metadata.partition_table import PartitionKey
from klamm.controller.settings import Settings
from klamm.controller.transitions.change_runs import Mask, Rows, groups, in_lists, in_runs, run_of_changes
from klamm.controller.transitions.election_rules import TopicRules
from klamm.controller.transitions.reassignment import assignment_of, completed
from klamm.protocol.columns import Columns
from klamm.protocol.records.partitions import PartitionChangeRecord
from klamm.protocol.uuid import Uuid

Changes = list[Record]
COST_ALONE = 20
"""How many times more a row takes on the one-by-one path."""
COST_ELIGIBLE = 4
"""How many times more it takes if somebody becomes eligible to lead, which is kept aside."""
FEW_BROKERS = 8
"""Up to so many are looked for one by one, which is faster than to look at all that is not live."""


def count_in_sync(image: MetadataImage, broker_id: int, directories: Collection[Uuid] | None = None) -> int:
    """In how many ISRs a broker is, with its replicas in these log directories, or in any: as many partitions change
    when it, or they, go."""
    tables = image.partitions.tables.values()
    return sum(len(_in_sync_rows(image, table, broker_id, directories)) for table in tables)


def find_lost(image: MetadataImage, *, registered: bool = True) -> int | None:
    """Some broker that is in an ISR and not live; None if there is none. Unless it has to be `registered`, brokers are
    found, too, of which the cluster knows nothing any more.

    Where a broker that goes is in many ISRs, its going is logged first, and the ISRs follow a stretch at a time.
    """
    gone = [broker.broker_id for broker in image.brokers.values() if not broker.live]
    if registered and len(gone) <= FEW_BROKERS:
        return next((broker_id for broker_id in gone if count_in_sync(image, broker_id)), None)
    live = image.live_brokers()
    for table in image.partitions.tables.values():
        in_sync = table.isr[: table.count]
        lost = in_sync[(in_sync != PADDING) & ~live.holds(in_sync)]
        if lost.size:
            return int(lost[0])
    return None


def _in_sync_rows(
    image: MetadataImage, table: ColumnTable, broker_id: int, directories: Collection[Uuid] | None = None
) -> Rows:
    """The rows of a table in whose ISR a broker is, ascending. It is in each at most once."""
    # Much faster than asking each row whether it has any: rows are short.
    rows: Rows = np.flatnonzero((table.isr[: table.count] == broker_id).ravel()) // table.width
    if directories is None:
        return rows
    found = (image.partitions.directory_ids.known(directory) for directory in directories)
    numbers = [number for number in found if number is not None]
    own = table.replicas[rows] == broker_id
    lost: Rows = rows[(own & among(table.directories[rows], numbers)).any(axis=1)]
    return lost


def plan_broker_loss(
    image: MetadataImage,
    settings: Settings,
    broker_id: int,
    directories: Collection[Uuid] | None = None,
    most: int | None = None,
    *,
    unclean: bool = False,
) -> Changes:
    """What changes when a broker may no longer lead nor be in sync: fenced, leaving, unregistered, or, with
    `directories`, only for its replicas in log directories that went offline. With `most`, the first so many only,
    those that are taken one by one counting more. After an `unclean` end it is not eligible to lead, either."""
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
    """What changes when a broker comes back as another incarnation without having shut down cleanly: it can no
    longer be trusted to hold what it had acknowledged, so it leaves every ISR and every ELR (KIP-966)."""
    live_after = LiveReplicas(image, image.live_brokers().without(broker_id))
    rules = TopicRules(image, settings)
    changes = plan_broker_loss(image, settings, broker_id, unclean=True)
    for table in image.partitions.tables.values():
        rows = np.flatnonzero(kept_aside_at(table, slice(0, table.count), broker_id))
        changes += plan_distrust(image, table, rows, broker_id, live_after, rules)
    return changes


def count_trusted(image: MetadataImage, broker_id: int) -> int:
    """How much there is to do for `plan_unclean_return`, in rows taken as columns."""
    tables = image.partitions.tables.values()
    aside = sum(int(np.count_nonzero(kept_aside_at(table, slice(0, table.count), broker_id))) for table in tables)
    return count_in_sync(image, broker_id) + COST_ALONE * aside


def kept_aside_at(table: ColumnTable, rows: slice, broker_id: int) -> Mask:
    """Of which rows something is kept aside, where a broker is a replica."""
    found: Mask = table.aside[rows] & (table.topic_row[rows] != DEAD)
    positions = np.flatnonzero(found)
    found[positions] = (table.replicas[rows][positions] == broker_id).any(axis=1)
    return found


def plan_distrust(
    image: MetadataImage,
    table: ColumnTable,
    rows: Rows,
    broker_id: int,
    live_after: LiveReplicas,
    rules: TopicRules,
) -> Changes:
    """Those of the rows in which a broker is eligible to lead, without being in sync: it is so no longer."""
    changes: list[PartitionChangeRecord] = []
    for row in rows.tolist():
        key = PartitionKey(int(table.topic_row[row]), int(table.partition_index[row]))
        elr, _ = image.partitions.elr.get(key, ((), ()))
        if broker_id in elr and broker_id not in table.isr[row]:
            changes += rules.plan_row(table, row, live_after, unclean_shutdown=(broker_id,))
    return list(in_runs(changes))


def growing_at(image: MetadataImage, table: ColumnTable, rows: slice, up: LiveReplicas, down: Collection[int]) -> Mask:
    """Which rows have a leader that is not `down`, and replicas outside the ISR that are `up`, or a leader that was
    elected uncleanly and has to say that it recovered, or a move that the election has left nothing to wait for."""
    leader = table.leader[rows]
    led: Mask = (leader >= 0) & ~among(leader, down)
    growing: Mask = led & (table.isr_count[rows] < table.replica_count[rows])
    positions = np.flatnonzero(growing)
    growing[positions] = _joining(table, positions + rows.start, up).any(axis=1)
    growing |= led & (table.leader_recovery_state[rows] == RECOVERING)
    # A move that is looked at before an election ends with the next change: placeholders alone never bring one.
    replicas = table.replicas[rows]
    missing = table.replica_count[rows] - table.isr_count[rows]
    settled = ((replicas < 0) & (replicas != PADDING)).sum(axis=1) == missing
    for position in np.flatnonzero(led & table.aside[rows] & settled & ~growing).tolist():
        partition = image.partitions.read_row(table, rows.start + position)
        growing[position] = completed(assignment_of(partition), partition.isr) is not None
    return growing


def plan_isr_growth(
    image: MetadataImage, table: ColumnTable, rows: Rows, up: LiveReplicas, live: LiveReplicas, rules: TopicRules
) -> Changes:
    """Replicas outside the ISR have caught up and join it, in rows that are growing: those that are `up`. Leaders are
    any that are `live`."""
    joining = np.where(_joining(table, rows, up), table.replicas[rows], PADDING)
    both = np.concatenate((table.isr[rows], joining), axis=1)
    grown, counts = packed(both, both != PADDING)
    alone = rules.special(table, rows) | (table.leader_recovery_state[rows] == RECOVERING)
    changes: Changes = []
    for group in groups(counts[~alone]):
        isr = grown[~alone][group][:, : int(counts[~alone][group[0]])]
        changes.append(run_of_changes(image, table, rows[~alone][group], {"isr": isr}))
    changes += in_runs(
        one
        for row, isr, count in zip(rows[alone].tolist(), grown[alone], counts[alone].tolist(), strict=True)
        for one in rules.plan_row(table, row, live, target_isr=tuple(isr[:count].tolist()), target_recovery=RECOVERED)
    )
    return changes


def plan_recoveries(table: ColumnTable, rows: Rows, live: LiveReplicas, rules: TopicRules) -> Changes:
    """Leaders of these rows that were elected uncleanly have recovered, as brokers say with an AlterPartition once they
    lead."""
    recovering = rows[table.leader_recovery_state[rows] == RECOVERING]
    plans = (rules.plan_row(table, row, live, target_recovery=RECOVERED) for row in recovering.tolist())
    return list(in_runs(one for plan in plans for one in plan))


def _joining(table: ColumnTable, rows: Rows, up: LiveReplicas) -> Mask:
    """For each replica of the rows, whether it is outside the ISR and up."""
    outside = ~in_lists(table.replicas[rows], table.isr[rows])
    joining: Mask = up.holds(table, rows) & outside
    return joining


def plan_isrs(image: MetadataImage, settings: Settings, wanted: Iterable[tuple[LogKey, tuple[int, ...]]]) -> Changes:
    """The ISRs that leaders ask for, partition by partition, as AlterPartition decides them: who joins must be live."""
    live = LiveReplicas(image, image.live_brokers())
    rules = TopicRules(image, settings)
    changes: list[PartitionChangeRecord] = []
    for (topic_id, partition_index), isr in wanted:
        table, row = image.partitions.locate(image.topics_by_id[topic_id].row, partition_index)
        may_join = live.of_row(table, row).union(table.isr[row].tolist())
        changes += rules.plan_row(table, row, live, target_isr=tuple(replica for replica in isr if replica in may_join))
    return list(in_runs(changes))


def _falls_short(table: ColumnTable, rows: Rows, rules: TopicRules) -> Mask:
    """In which rows the ISR falls below its minimum when one leaves it."""
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
    under_min = _falls_short(table, rows, rules)
    for group in groups(counts, moves, under_min, new_leader == NO_LEADER):
        first = group[0]
        values: dict[str, object] = {"isr": isr[group][:, : int(counts[first])]}
        if moves[first]:
            values["leader"] = new_leader[group]
        if under_min[first] and not unclean:
            # An ordinary row has no ELR yet, so what leaves the ISR is all of it.
            values["eligible_leader_replicas"] = np.full((len(group), 1), leaving, dtype=np.int32)
        if new_leader[first] == NO_LEADER and moves[first]:
            values["last_known_elr"] = leader[group].reshape(-1, 1)
        yield run_of_changes(image, table, rows[group], values)


__all__ = [
    "COST_ALONE",
    "count_in_sync",
    "count_trusted",
    "find_lost",
    "growing_at",
    "kept_aside_at",
    "plan_broker_loss",
    "plan_distrust",
    "plan_isr_growth",
    "plan_isrs",
    "plan_unclean_return",
]
