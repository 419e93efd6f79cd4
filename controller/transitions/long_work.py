"""Work on many partitions that is done in steps, so that no request has to wait for all of it.

Each piece of work knows how far it has got, and plans the next step against the image at that time. The number of rows
that a step examines bounds its cost: the one-by-one path takes some 30 µs for each row. The log has no record about
unfinished work. After a restart the controller searches the image for it (`unfinished_departures`).
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from klamm.controller.local_brokers import Replication
from klamm.controller.log_records import Record
from klamm.controller.metadata.broker import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from klamm.controller.metadata.broker_set import BrokerSet
from klamm.controller.metadata.columns import ColumnTable
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.live_replicas import LiveReplicas
from klamm.controller.metadata.partition import NO_LEADER
from klamm.controller.settings import Settings
from klamm.controller.transitions.broker_lifecycle import MAX_CHANGES_AT_ONCE
from klamm.controller.transitions.change_runs import Mask, Rows
from klamm.controller.transitions.election_rules import TopicRules
from klamm.controller.transitions.elections import (
    led_by_others_at,
    plan_elections,
    plan_preferred_leaders,
    waiting_at,
)
from klamm.controller.transitions.leadership import (
    COST_ALONE,
    growing_at,
    plan_broker_loss,
    plan_elr_removal,
    plan_isr_growth,
    sparse_entry_at,
)
from klamm.controller.transitions.placeholders import ROWS_PER_STEP
from klamm.protocol.uuid import Uuid

Costs = NDArray[np.integer | np.bool_]
ROWS_ALONE: Final = MAX_CHANGES_AT_ONCE // COST_ALONE
"""Most rows in a step if each of them may take the one-by-one path."""
ROWS_PER_SCAN: Final = 2 * MAX_CHANGES_AT_ONCE
"""Rows that are examined at a time: if all of them change, the step examines few rows that it cannot afford."""
UNCLEAN_ELECTION_INTERVAL_MS: Final = 300_000
"""How often, in milliseconds, partitions without a leader are searched for unclean elections; the value is Kafka's."""


class LongWork(Protocol):
    """Work on many partitions that is planned and logged step by step."""

    def plan(self, image: MetadataImage, settings: Settings) -> list[Record]:
        """The changes of the next step; may be empty."""

    def is_over(self, image: MetadataImage) -> bool:
        """Whether no step is left, given that the image contains the changes that were planned last."""


class _Walk:
    """A position in the rows of all partition tables."""

    def __init__(self) -> None:
        self._next: dict[int, tuple[int, int]] = {}
        """For each table width: the next row, and the table's number of compactions when that row was stored."""

    def next_rows(
        self, image: MetadataImage, cost_at: Callable[[ColumnTable, slice], Costs], most: int
    ) -> Iterator[tuple[ColumnTable, Rows]]:
        """The next rows with a cost above 0, whose costs sum up to `most` or less. The first of these rows is taken
        even if it costs more. A step examines at most `ROWS_PER_STEP` rows. In a mask, a wanted row costs 1."""
        left_to_scan = ROWS_PER_STEP
        is_first = True
        for width, table in image.partitions.tables.items():
            first = self._first(width, table)
            while first < table.count and left_to_scan and most > 0:
                end = min(first + min(left_to_scan, ROWS_PER_SCAN), table.count)
                left_to_scan -= end - first
                costs = cost_at(table, slice(first, end))
                rows = np.flatnonzero(costs)
                spent = np.cumsum(costs[rows])
                affordable = int(np.searchsorted(spent, most, side="right"))
                if is_first and len(rows):
                    affordable, is_first = max(affordable, 1), False
                found = rows[:affordable] + first
                most -= int(spent[affordable - 1]) if affordable else 0
                if affordable < len(rows):
                    end, most = first + int(rows[affordable]), 0
                self._next[width] = (end, table.compactions)
                first = end
                if affordable:
                    yield table, found

    def is_over(self, image: MetadataImage) -> bool:
        return all(self._first(width, table) >= table.count for width, table in image.partitions.tables.items())

    def _first(self, width: int, table: ColumnTable) -> int:
        first, compactions = self._next.get(width, (0, 0))
        # Compaction moves rows towards the beginning of their table, possibly to positions that were already examined.
        return first if table.compactions == compactions else 0


class Departure:
    """A broker leaves the many ISRs that contain it. After an unclean shutdown (`unclean`) it leaves the ELRs, too."""

    def __init__(self, broker_id: int, *, unclean: bool, most: int = MAX_CHANGES_AT_ONCE) -> None:
        self.broker_id = broker_id
        self._most = most
        self._unclean = unclean
        self._in_sync = True
        self._walk = _Walk()

    def plan(self, image: MetadataImage, settings: Settings) -> list[Record]:
        if self._in_sync:
            changes = plan_broker_loss(image, settings, self.broker_id, most=self._most, unclean=self._unclean)
            self._in_sync = bool(changes)
            return changes
        changes = []
        if not image.features.has_elr:
            self._unclean = False  # there is no ELR to leave
            return changes
        live_after = LiveReplicas(image, image.live_brokers().without(self.broker_id))
        rules = TopicRules(image, settings)
        for table, rows in self._walk.next_rows(image, self._sparse_at, ROWS_ALONE):
            changes += plan_elr_removal(image, table, rows, self.broker_id, live_after, rules)
        return changes

    def is_over(self, image: MetadataImage) -> bool:
        return not self._in_sync and (not self._unclean or self._walk.is_over(image))

    def _sparse_at(self, table: ColumnTable, rows: slice) -> Mask:
        return sparse_entry_at(table, rows, self.broker_id)


def unfinished_departures(image: MetadataImage) -> list[LongWork]:
    """The departures that a former process may have left unfinished: fenced brokers that are in an ISR. If such a
    broker were unfenced before it has left them, it would be in sync by the records of its former incarnation. The log
    does not say whether that incarnation ended uncleanly; a clean end is assumed."""
    fenced = BrokerSet(broker.broker_id for broker in image.brokers.values() if broker.fenced)
    found: set[int] = set()
    for table in image.partitions.tables.values():
        in_sync = table.isr[: table.count]
        found.update(in_sync[fenced.holds(in_sync)].tolist())
    return [Departure(broker_id, unclean=False) for broker_id in sorted(found)]


class LostDirectories:
    """A live broker leaves the ISRs of its replicas in log directories that went offline (KIP-858)."""

    def __init__(self, broker_id: int, directories: Collection[Uuid], *, most: int = MAX_CHANGES_AT_ONCE) -> None:
        self._broker_id = broker_id
        self._directories = directories
        self._most = most
        self._in_sync = True

    def plan(self, image: MetadataImage, settings: Settings) -> list[Record]:
        broker = image.brokers.get(self._broker_id)
        # Meanwhile the broker may have been unregistered (its departure does the work), or a directory may be online
        # again.
        lost = [one for one in self._directories if broker is not None and one not in broker.log_dirs]
        changes = plan_broker_loss(image, settings, self._broker_id, lost, self._most) if lost else []
        self._in_sync = bool(changes)
        return changes

    def is_over(self, image: MetadataImage) -> bool:
        return not self._in_sync


def unfinished_directory_losses(image: MetadataImage) -> list[LongWork]:
    """The same work that a former process may have left unfinished: replicas in directories that no broker has any
    more."""
    there = {directory for broker in image.brokers.values() for directory in broker.log_dirs}
    there |= {MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY}
    lost = [directory for directory in image.partitions.directory_ids.ids if directory not in there]
    live = [broker.broker_id for broker in image.brokers.values() if broker.live]
    return [LostDirectories(broker_id, lost) for broker_id in live if lost]


class Returns:
    """Elect leaders for partitions without one that have replicas on brokers that have become live."""

    def __init__(self, broker_ids: frozenset[int]) -> None:
        self._broker_ids = broker_ids
        self._walk = _Walk()

    def plan(self, image: MetadataImage, settings: Settings) -> list[Record]:
        return _elect(self._walk, image, settings, lambda table, rows: waiting_at(table, rows, self._broker_ids))

    def is_over(self, image: MetadataImage) -> bool:
        return self._walk.is_over(image)


class CatchUp:
    """Live replicas outside the ISR of a partition with a leader catch up and join it.

    A broker that is down does not catch up, and no follower catches up with it, even before the controller fences it.
    Leaders of other processes report by AlterPartition which replicas have caught up.
    In partitions with records no replica joins here: it has to fetch the records first (`Replication.due`).
    """

    def __init__(self, replication: Replication, *, most: int = MAX_CHANGES_AT_ONCE) -> None:
        self._replication = replication
        self._most = most
        self._walk = _Walk()

    def plan(self, image: MetadataImage, settings: Settings) -> list[Record]:
        down, simulated = self._replication.down, self._replication.simulated
        outside = () if simulated is None else (one for one in image.brokers if one not in simulated)
        silent = {*down, *outside}
        live = LiveReplicas(image, image.live_brokers())
        up = LiveReplicas(image, image.live_brokers().without(*down)) if down else live
        rules = TopicRules(image, settings)

        def cost_at(table: ColumnTable, rows: slice) -> Costs:
            growing = growing_at(image, table, rows, up, silent)
            positions = np.flatnonzero(growing)
            costs = growing.astype(np.int64)
            costs[positions[rules.special(table, positions + rows.start)]] = COST_ALONE
            return costs

        changes: list[Record] = []
        for table, rows in self._walk.next_rows(image, cost_at, self._most):
            apart = self._with_records(image, table, rows)
            changes += plan_isr_growth(image, table, rows[~apart], up, live, rules)
        return changes

    def is_over(self, image: MetadataImage) -> bool:
        return self._walk.is_over(image)

    def _with_records(self, image: MetadataImage, table: ColumnTable, rows: Rows) -> Mask:
        incomplete, topics = self._replication.incomplete, image.topics_by_row
        if not incomplete:
            return np.zeros(len(rows), dtype=np.bool_)
        keys = zip(table.topic_row[rows].tolist(), table.partition_index[rows].tolist(), strict=True)
        return np.array([(topics[topic_row].topic_id, index) in incomplete for topic_row, index in keys], dtype=bool)


class UncleanElections:
    """Elect any live replica in partitions without a leader whose topic allows unclean elections."""

    def __init__(self) -> None:
        self._walk = _Walk()

    def plan(self, image: MetadataImage, settings: Settings) -> list[Record]:
        rules = TopicRules(image, settings)

        def wanted(table: ColumnTable, rows: slice) -> Mask:
            found: Mask = (table.leader[rows] == NO_LEADER) & rules.unclean_at(table, rows)
            return found

        return _elect(self._walk, image, settings, wanted)

    def is_over(self, image: MetadataImage) -> bool:
        return self._walk.is_over(image)


class PreferredLeaders:
    """Make the first replica the leader of each partition where it is in sync and live."""

    def __init__(self) -> None:
        self._walk = _Walk()

    def plan(self, image: MetadataImage, settings: Settings) -> list[Record]:
        acceptable = LiveReplicas(image, image.live_brokers())
        rules = TopicRules(image, settings)
        changes: list[Record] = []
        for table, rows in self._walk.next_rows(image, led_by_others_at, 2 * ROWS_ALONE):
            changes += plan_preferred_leaders(image, table, rows, acceptable, rules)
        return changes

    def is_over(self, image: MetadataImage) -> bool:
        return self._walk.is_over(image)


class Periods:
    """The periodic work: unclean elections, and elections of preferred leaders if `auto.leader.rebalance.enable` is
    true."""

    def __init__(self, settings: Settings, now_ms: int) -> None:
        """`now_ms` is the time of the start; each kind of work is due for the first time one period later."""
        self._periods: list[tuple[int, Callable[[], LongWork]]] = [(UNCLEAN_ELECTION_INTERVAL_MS, UncleanElections)]
        if settings.static_bool("auto.leader.rebalance.enable"):
            seconds = settings.static_int("leader.imbalance.check.interval.seconds")
            self._periods.append((seconds * 1000, PreferredLeaders))
        self._due = [now_ms + period for period, _ in self._periods]

    @property
    def next_due_ms(self) -> int:
        """When `due` returns work next."""
        return min(self._due)

    def due(self, now_ms: int) -> list[LongWork]:
        """The work that is due at `now_ms`; each kind is due again one period later."""
        work: list[LongWork] = []
        for number, (period, begin) in enumerate(self._periods):
            if now_ms >= self._due[number]:
                self._due[number] = now_ms + period
                work.append(begin())
        return work


def _elect(
    walk: _Walk, image: MetadataImage, settings: Settings, wanted: Callable[[ColumnTable, slice], Mask]
) -> list[Record]:
    acceptable = LiveReplicas(image, image.live_brokers())
    rules = TopicRules(image, settings)
    changes: list[Record] = []
    for table, rows in walk.next_rows(image, wanted, ROWS_ALONE):
        changes += plan_elections(image, table, rows, acceptable, rules)
    return changes
