"""Work on many partitions that is taken in stretches, so that no request waits for all of it.

Each kind knows where it is and plans the next stretch against the image as it is then. What a stretch costs is bounded
by how many rows it looks at: the one-by-one path takes some 30 µs for each. That there is work is not logged: after a
restart the controller looks for what is left (`klamm.controller.core`).
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from klamm.controller.data.data_plane import DataPlane
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
    kept_aside_at,
    plan_broker_loss,
    plan_distrust,
    plan_isr_growth,
    plan_recoveries,
)
from klamm.controller.transitions.placeholders import ROWS_LOOKED_AT
from klamm.protocol.uuid import Uuid

Costs = NDArray[np.integer | np.bool_]
ROWS_ALONE: Final = MAX_CHANGES_AT_ONCE // COST_ALONE
"""Rows in a stretch of which each may take the one-by-one path."""
ROWS_IN_A_LOOK: Final = 2 * MAX_CHANGES_AT_ONCE
"""Where all rows change, a stretch looks at few more than it can afford."""
UNCLEAN_ELECTION_INTERVAL_MS: Final = 300_000
"""Between two looks for partitions without a leader whose topics allow unclean elections, as in Kafka."""


class LongWork(Protocol):
    """One piece of work."""

    def plan(self, image: MetadataImage, settings: Settings) -> list[Record]:
        """The changes of the next stretch, maybe none."""

    def is_over(self, image: MetadataImage) -> bool:
        """Whether there is no further stretch, once the changes planned last are in the image."""


class _Walk:
    """How far the rows of all tables have been looked at."""

    def __init__(self) -> None:
        self._next: dict[int, tuple[int, int]] = {}
        """By width: the next row, and how often the table had been compacted then."""

    def stretch(
        self, image: MetadataImage, cost_at: Callable[[ColumnTable, slice], Costs], most: int
    ) -> Iterator[tuple[ColumnTable, Rows]]:
        """The next rows that cost something, for up to `most` in all, but one at least, if there are any among those
        that a step looks at. What is only wanted or not costs 1 or nothing."""
        left_to_look_at = ROWS_LOOKED_AT
        is_first = True
        for width, table in image.partitions.tables.items():
            first = self._first(width, table)
            while first < table.count and left_to_look_at and most > 0:
                end = min(first + min(left_to_look_at, ROWS_IN_A_LOOK), table.count)
                left_to_look_at -= end - first
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
        # Compaction moves rows towards the beginning of their table, maybe to where the walk has been already.
        return first if table.compactions == compactions else 0


class Departure:
    """A broker that is in many ISRs leaves them all; after an `unclean` end it is not eligible to lead, either."""

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
        live_after = LiveReplicas(image, image.live_brokers().without(self.broker_id))
        rules = TopicRules(image, settings)
        for table, rows in self._walk.stretch(image, self._trusted_at, ROWS_ALONE):
            changes += plan_distrust(image, table, rows, self.broker_id, live_after, rules)
        return changes

    def is_over(self, image: MetadataImage) -> bool:
        return not self._in_sync and (not self._unclean or self._walk.is_over(image))

    def _trusted_at(self, table: ColumnTable, rows: slice) -> Mask:
        return kept_aside_at(table, rows, self.broker_id)


def unfinished_departures(image: MetadataImage) -> list[LongWork]:
    """What a former process may have left of such work: fenced brokers that are in ISRs. A broker that is unfenced
    before it has left them would be in sync with what its former incarnation had. Whether that ended uncleanly is not
    logged; it is taken for clean."""
    fenced = BrokerSet(broker.broker_id for broker in image.brokers.values() if broker.fenced)
    found: set[int] = set()
    for table in image.partitions.tables.values():
        in_sync = table.isr[: table.count]
        found.update(in_sync[fenced.holds(in_sync)].tolist())
    return [Departure(broker_id, unclean=False) for broker_id in sorted(found)]


class LostDirectories:
    """A broker that serves leaves the ISRs of its replicas in log directories that went offline (KIP-858)."""

    def __init__(self, broker_id: int, directories: Collection[Uuid], *, most: int = MAX_CHANGES_AT_ONCE) -> None:
        self._broker_id = broker_id
        self._directories = directories
        self._most = most
        self._in_sync = True

    def plan(self, image: MetadataImage, settings: Settings) -> list[Record]:
        broker = image.brokers.get(self._broker_id)
        # It may have gone meanwhile, and its leaving takes all of it; or have come back with what was offline.
        lost = [one for one in self._directories if broker is not None and one not in broker.log_dirs]
        changes = plan_broker_loss(image, settings, self._broker_id, lost, self._most) if lost else []
        self._in_sync = bool(changes)
        return changes

    def is_over(self, image: MetadataImage) -> bool:
        return not self._in_sync


def unfinished_directory_losses(image: MetadataImage) -> list[LongWork]:
    """What a former process may have left of such work: replicas in directories that no broker has any more."""
    there = {directory for broker in image.brokers.values() for directory in broker.log_dirs}
    there |= {MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY}
    lost = [directory for directory in image.partitions.directory_ids.ids if directory not in there]
    live = [broker.broker_id for broker in image.brokers.values() if broker.live]
    return [LostDirectories(broker_id, lost) for broker_id in live if lost]


class Returns:
    """Partitions without a leader elect, if they have replicas on brokers that have become live."""

    def __init__(self, broker_ids: frozenset[int]) -> None:
        self._broker_ids = broker_ids
        self._walk = _Walk()

    def plan(self, image: MetadataImage, settings: Settings) -> list[Record]:
        return _elect(self._walk, image, settings, lambda table, rows: waiting_at(table, rows, self._broker_ids))

    def is_over(self, image: MetadataImage) -> bool:
        return self._walk.is_over(image)


class CatchUp:
    """Live replicas outside the ISR of a partition with a leader have caught up, and join it; a leader that was elected
    uncleanly has recovered.

    Brokers that are down, though nobody has noticed yet, catch up with nothing, nor does anybody with them. Partitions
    with records have nobody join here: they have to fetch them first (`DataPlane.due`).
    """

    def __init__(self, data: DataPlane, *, most: int = MAX_CHANGES_AT_ONCE) -> None:
        self._data = data
        self._most = most
        self._walk = _Walk()

    def plan(self, image: MetadataImage, settings: Settings) -> list[Record]:
        down = self._data.down
        live = LiveReplicas(image, image.live_brokers())
        up = LiveReplicas(image, image.live_brokers().without(*down)) if down else live
        rules = TopicRules(image, settings)

        def cost_at(table: ColumnTable, rows: slice) -> Costs:
            growing = growing_at(image, table, rows, up, down)
            positions = np.flatnonzero(growing)
            costs = growing.astype(np.int64)
            costs[positions[rules.special(table, positions + rows.start)]] = COST_ALONE
            return costs

        changes: list[Record] = []
        for table, rows in self._walk.stretch(image, cost_at, self._most):
            apart = self._with_records(image, table, rows)
            changes += plan_isr_growth(image, table, rows[~apart], up, live, rules)
            changes += plan_recoveries(table, rows[apart], live, rules)
        return changes

    def is_over(self, image: MetadataImage) -> bool:
        return self._walk.is_over(image)

    def _with_records(self, image: MetadataImage, table: ColumnTable, rows: Rows) -> Mask:
        incomplete, topics = self._data.incomplete, image.topics_by_row
        if not incomplete:
            return np.zeros(len(rows), dtype=np.bool_)
        keys = zip(table.topic_row[rows].tolist(), table.partition_index[rows].tolist(), strict=True)
        return np.array([(topics[topic_row].topic_id, index) in incomplete for topic_row, index in keys], dtype=bool)


class UncleanElections:
    """Partitions without a leader elect any live replica, if their topics allow it."""

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
    """Leaderships go back to the first replicas of partitions, where those are in sync and live."""

    def __init__(self) -> None:
        self._walk = _Walk()

    def plan(self, image: MetadataImage, settings: Settings) -> list[Record]:
        acceptable = LiveReplicas(image, image.live_brokers())
        rules = TopicRules(image, settings)
        changes: list[Record] = []
        for table, rows in self._walk.stretch(image, led_by_others_at, 2 * ROWS_ALONE):
            changes += plan_preferred_leaders(image, table, rows, acceptable, rules)
        return changes

    def is_over(self, image: MetadataImage) -> bool:
        return self._walk.is_over(image)


class Periods:
    """What is to be done now and then, whatever else happens."""

    def __init__(self, settings: Settings, now_ms: int) -> None:
        """The first time is a period after the start. How often preferred leaders are elected is a config."""
        self._periods: list[tuple[int, Callable[[], LongWork]]] = [(UNCLEAN_ELECTION_INTERVAL_MS, UncleanElections)]
        if settings.static_bool("auto.leader.rebalance.enable"):
            seconds = settings.static_int("leader.imbalance.check.interval.seconds")
            self._periods.append((seconds * 1000, PreferredLeaders))
        self._due = [now_ms + period for period, _ in self._periods]

    def due(self, now_ms: int) -> list[LongWork]:
        """The work whose time has come."""
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
    for table, rows in walk.stretch(image, wanted, ROWS_ALONE):
        changes += plan_elections(image, table, rows, acceptable, rules)
    return changes
