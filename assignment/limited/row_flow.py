"""Rows that need more replicas, as a flow from rows to brokers: the state of the flow, and the costs of changes to it.

A unit of flow is a new replica. In one step, a row that lacks a replica takes a broker, or a row replaces one of its
new brokers by another. Replicas that existed before never move. The cost of a step is the number of racks that its row
loses: -1, 0 or 1. Brokers and racks are indexes here. `augment` searches for paths of such steps.
"""

from typing import Final

import numpy as np

from klamm.assignment.cluster_view import BoolArray, Int64Array

IMPOSSIBLE: Final = 1 << 40
"""The cost of a step that is impossible."""

_MAX_REMEMBERED: Final = 1 << 25  # costs that are cached between searches: 256 MB


class RowFlow:
    """The brokers that the rows had before, those they were given, and the number of replicas they still lack.

    The index `no_broker` is in every cell without a broker of the view; its rack is one that no broker has. Tables of
    rows are transposed, int64[width, rows], because rows are short and are compared one column at a time.
    """

    def __init__(self, own: Int64Array, lacking: Int64Array, room: Int64Array, rack_of: Int64Array) -> None:
        """`own` int64[rows, any], padded with no_broker; `lacking` int64[rows]; the others int64[brokers]."""
        brokers, racks = len(rack_of), int(rack_of.max(initial=-1)) + 1
        self.no_broker: Final = brokers
        self.racks: Final = racks
        self.own: Final[Int64Array] = np.ascontiguousarray(own.T)
        """int64[any, rows]: the brokers that each row had before."""
        self.given: Final = np.full((int(lacking.max(initial=0)), len(own)), brokers, dtype=np.int64)
        """int64[most lacking, rows]: the brokers that each row was given, filled from place 0 on."""
        self.lacking: Final = lacking.copy()
        """int64[rows]: the number of replicas that each row still lacks."""
        self.room: Final = room.copy()
        """int64[brokers]: the number of replicas that each broker can still take."""
        self.taken: Final = np.zeros(brokers, dtype=np.int64)
        """int64[brokers]: the number of replicas that each broker was given."""
        self.rack_of: Final = np.append(rack_of, racks)
        """int64[brokers + 1]: the rack of each broker and of `no_broker`."""
        self._swap_costs: dict[int, Int64Array] = {}

    def members(self, rows: Int64Array) -> Int64Array:
        """int64[width, rows]: the brokers of these rows, padded with `no_broker`."""
        return np.concatenate((np.take(self.own, rows, axis=1), np.take(self.given, rows, axis=1)))

    def give(self, rows: Int64Array, brokers: Int64Array) -> None:
        """Give each of these distinct rows a broker, int64[rows], that it does not have."""
        place = np.argmax(self.given[:, rows] == self.no_broker, axis=0)
        self.given[place, rows] = brokers
        self.lacking[rows] -= 1
        self._count(brokers, 1)
        self._forget(self.given[:, rows])

    def swap(self, rows: Int64Array, places: Int64Array, broker: int) -> None:
        """Replace the brokers in these places of `given`, one per row, by `broker`."""
        self._forget(self.given[:, rows])
        self._count(self.given[places, rows], -1)
        self.given[places, rows] = broker
        self._count(self.given[places, rows], 1)
        self._forget(self.given[:, rows])

    def presence(self, members: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The number of these rows that contain each broker, int64[brokers], and each rack, int64[racks]."""
        in_rows = np.bincount(members.ravel(), minlength=self.no_broker + 1)[: self.no_broker]
        racks = self.rack_of[members]
        counted = np.zeros(self.racks + 1, dtype=np.int64)
        for place, rack in enumerate(racks):
            counted += np.bincount(rack[differ(racks[:place], rack)], minlength=self.racks + 1)
        return in_rows, counted[: self.racks]

    def give_costs(self) -> Int64Array:
        """int64[brokers]: the lowest cost of giving each broker to a row that lacks a replica."""
        widens, fits = self._enters(self.members(np.flatnonzero(self.lacking)))
        return np.where(widens, -1, np.where(fits, 0, IMPOSSIBLE))

    def swap_costs(self, broker: int) -> Int64Array:
        """int64[brokers]: the lowest cost of giving each broker to a row in place of `broker`."""
        costs = self._swap_costs.get(broker)
        if costs is None:
            if (len(self._swap_costs) + 1) * self.no_broker > _MAX_REMEMBERED:
                self._swap_costs.clear()
            costs = self._swap_costs[broker] = self._swap_costs_now(broker)
        return costs

    def _swap_costs_now(self, broker: int) -> Int64Array:
        others, alone = self._without(*self._given_to(broker), broker)
        free_widens, free_fits = self._enters(others[:, ~alone])
        widens, fits = self._enters(others[:, alone])
        costs: Int64Array = np.where(fits, 1, IMPOSSIBLE)
        costs[free_fits | widens] = 0
        costs[free_widens] = -1
        return costs

    def givable(self, broker: int, cost: int) -> Int64Array:
        """int64[k]: the rows that lack a replica and can take the broker at exactly this cost."""
        rows = np.flatnonzero(self.lacking)
        members = self.members(rows)
        fit: BoolArray = differ(members, broker) & (self._lack_rack(members, broker) == -cost)
        return rows[fit]

    def swappable(self, broker: int, other: int, cost: int) -> tuple[Int64Array, Int64Array]:
        """int64[k] twice: the rows, and the places of `given`, where `other` can replace `broker` at exactly this
        cost."""
        rows, places = self._given_to(broker)
        others, alone = self._without(rows, places, broker)
        fit: BoolArray = differ(others, other) & (alone.astype(np.int64) - self._lack_rack(others, other) == cost)
        return rows[fit], places[fit]

    def _given_to(self, broker: int) -> tuple[Int64Array, Int64Array]:
        """The rows that were given the broker, and the place of `given` that has it."""
        places, rows = np.divmod(np.flatnonzero(self.given.ravel() == broker), self.given.shape[1])
        return rows, places

    def _without(self, rows: Int64Array, places: Int64Array, broker: int) -> tuple[Int64Array, BoolArray]:
        """The members of these rows without the broker in these places, and which rows lose its rack without it."""
        others = self.members(rows)
        others[len(self.own) + places, np.arange(len(rows))] = self.no_broker
        return others, self._lack_rack(others, broker)

    def _lack_rack(self, members: Int64Array, broker: int) -> BoolArray:
        return differ(self.rack_of[members], self.rack_of[broker])

    def _enters(self, members: Int64Array) -> tuple[BoolArray, BoolArray]:
        """bool[brokers] twice: brokers that at least one of these rows can take and that add a rack to it; brokers that
        one can take without adding a rack."""
        in_rows, racks_in_rows = self.presence(members)
        rack_in_rows = racks_in_rows[self.rack_of[:-1]]
        return rack_in_rows < members.shape[1], rack_in_rows > in_rows

    def _count(self, brokers: Int64Array, change: int) -> None:
        counted = np.bincount(brokers, minlength=self.no_broker) * change
        np.add(self.taken, counted, out=self.taken)
        np.subtract(self.room, counted, out=self.room)

    def _forget(self, brokers: Int64Array) -> None:
        if self._swap_costs:
            for broker in np.unique(brokers).tolist():
                self._swap_costs.pop(broker, None)


def differ(table: Int64Array, value: Int64Array | np.int64 | int) -> BoolArray:
    """bool[rows]: the rows of a table int64[width, rows] that do not contain `value`: one for all rows, or
    int64[rows]."""
    differ = np.ones(table.shape[1], dtype=np.bool_)
    for place in table:
        differ &= place != value
    return differ
