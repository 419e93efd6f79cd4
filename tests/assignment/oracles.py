"""Oracles for placements: flows in complete networks, exhaustive search, and loops over single brokers.

They are simple and slow, and share no code with `assignment`. Brokers are indexes into the given lists; `headroom` is
the number of replicas that each can still take. A network has a node for every row, so that the tests do not depend on
the formulas of `assignment`.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from functools import cache
from itertools import combinations
from typing import Any

import networkx as nx

Rack = Hashable
SOURCE, SINK = "source", "sink"


def most_replicas(rows: int, replication_factor: int, headroom: Sequence[int]) -> int:
    """How many replicas of new rows find a place: maximum flow over rows × brokers, one unit for each pair."""
    return most_added([[] for _ in range(rows)], headroom, replication_factor)


def most_added(members: Sequence[Sequence[int]], headroom: Sequence[int], wanted: int) -> int:
    """How many replicas can be added to rows that exist, at most `wanted` each, to brokers not among its members."""
    network = nx.DiGraph()
    network.add_nodes_from((SOURCE, SINK))
    for broker, room in enumerate(headroom):
        network.add_edge(("broker", broker), SINK, capacity=max(room, 0))
    for row, taken in enumerate(members):
        network.add_edge(SOURCE, ("row", row), capacity=wanted)
        for broker in range(len(headroom)):
            if broker not in taken:
                network.add_edge(("row", row), ("broker", broker), capacity=1)
    return int(nx.maximum_flow_value(network, SOURCE, SINK))


def placement_exists(rows: int, replication_factor: int, headroom: Sequence[int]) -> bool:
    """Whether new rows can all have `replication_factor` distinct brokers."""
    return most_replicas(rows, replication_factor, headroom) == rows * replication_factor


def led_placement_exists(
    rows: int, replication_factor: int, live_room: Sequence[int], fenced_room: Sequence[int]
) -> bool:
    """Whether new rows can all have `replication_factor` distinct brokers, one of them live at least."""
    network = nx.DiGraph()
    network.add_nodes_from((SOURCE, SINK))
    for kind, places in (("live", live_room), ("fenced", fenced_room)):
        for broker, room in enumerate(places):
            network.add_edge((kind, broker), SINK, capacity=max(room, 0))
            for row in range(rows):
                network.add_edge(("row", row, kind), (kind, broker), capacity=1)
    for row in range(rows):
        network.add_edge(SOURCE, ("row", row, "live"), capacity=replication_factor)
        # All but one may be fenced.
        network.add_edge(("row", row, "live"), ("row", row, "fenced"), capacity=replication_factor - 1)
    return bool(nx.maximum_flow_value(network, SOURCE, SINK) == rows * replication_factor)


def growth_exists(members: Sequence[Sequence[int]], headroom: Sequence[int], wanted: int) -> bool:
    """Whether every row that exists can have `wanted` more brokers."""
    return most_added(members, headroom, wanted) == len(members) * wanted


def widest_and_evenest(
    rows: int, replication_factor: int, headroom: Sequence[int], held: Sequence[int], racks: Sequence[Rack]
) -> tuple[int, int]:
    """The best that a valid placement can do: most racks, summed over rows, then least Σ (replicas on a broker)².

    A flow of minimum cost: the first replica that a row has in a rack earns more than all evenness can cost, and each
    further replica on a broker costs what it adds to the square. The placement must exist.
    """
    dearer_than_all = 1 + sum((count + rows) ** 2 for count in held)
    network = nx.MultiDiGraph()
    network.add_node(SOURCE, demand=-rows * replication_factor)
    network.add_node(SINK, demand=rows * replication_factor)
    for broker, (room, count) in enumerate(zip(headroom, held, strict=True)):
        for more in range(min(max(room, 0), rows)):
            added = (count + more + 1) ** 2 - (count + more) ** 2
            network.add_edge(("broker", broker), SINK, capacity=1, weight=added)
    for row in range(rows):
        network.add_edge(SOURCE, ("row", row), capacity=replication_factor, weight=0)
        for rack in set(racks):
            network.add_edge(("row", row), ("rack", row, rack), capacity=1, weight=-dearer_than_all)
            network.add_edge(("row", row), ("rack", row, rack), capacity=replication_factor, weight=0)
        for broker, rack in enumerate(racks):
            network.add_edge(("rack", row, rack), ("broker", broker), capacity=1, weight=0)
    cost, _ = nx.network_simplex(network)
    spread = -(cost // dearer_than_all)
    return int(spread), int(cost + spread * dearer_than_all) + sum(count**2 for count in held)


def widest_and_evenest_by_trying(
    rows: int, replication_factor: int, headroom: Sequence[int], held: Sequence[int], racks: Sequence[Rack]
) -> tuple[int, int] | None:
    """The same as `widest_and_evenest`, by trying every row after every other; None where nothing fits."""

    @cache
    def best(left: int, room: tuple[int, ...]) -> tuple[int, int] | None:
        if not left:
            taken = [had - has for had, has in zip(headroom, room, strict=True)]
            return 0, sum((count + more) ** 2 for count, more in zip(held, taken, strict=True))
        found: list[tuple[int, int]] = []
        free = [broker for broker, has in enumerate(room) if has > 0]
        for chosen in combinations(free, replication_factor):
            rest = best(left - 1, tuple(has - (broker in chosen) for broker, has in enumerate(room)))
            if rest is not None:
                found.append((rest[0] + len({racks[broker] for broker in chosen}), rest[1]))
        return min(found, key=lambda pair: (-pair[0], pair[1]), default=None)

    return best(rows, tuple(headroom))


def spread_bound(rows: int, replication_factor: int, headroom: Sequence[int], racks: Sequence[Rack]) -> int:
    """No placement has more racks, summed over rows: a rack is in no more rows than its brokers have room."""
    room: Counter[Rack] = Counter()
    for rack, space in zip(racks, headroom, strict=True):
        room[rack] += min(max(space, 0), rows)
    return min(rows * replication_factor, sum(min(space, rows) for space in room.values()))


def spread_of(rows: Sequence[Sequence[int]], racks: Sequence[Rack]) -> int:
    """Distinct racks, summed over rows."""
    return sum(len({racks[broker] for broker in row}) for row in rows)


def squares_of_leaders(rows: Sequence[Sequence[int]]) -> int:
    """Σ (leaders on a broker)² when the first broker of each row leads."""
    return sum(count**2 for count in Counter(row[0] for row in rows).values())


def least_squares_of_leaders(rows: Sequence[Sequence[int]]) -> int:
    """The same when each row may be led by any of its brokers, and the choice is the most even one there is."""
    network = nx.MultiDiGraph()
    network.add_node(SOURCE, demand=-len(rows))
    network.add_node(SINK, demand=len(rows))
    appears = Counter(broker for row in rows for broker in row)
    for broker, times in appears.items():
        for more in range(times):
            network.add_edge(("broker", broker), SINK, capacity=1, weight=2 * more + 1)
    for row, members in enumerate(rows):
        network.add_edge(SOURCE, ("row", row), capacity=1, weight=0)
        for broker in members:
            network.add_edge(("row", row), ("broker", broker), capacity=1, weight=0)
    cost, _ = nx.network_simplex(network)
    return int(cost)


FEWEST_FIRST = "rows with the fewest real replicas come first"
NOT_TWICE = "a row that has the broker already waits"
WITHIN_ROOM = "the broker takes as many as it has room for"
LEFTMOST = "the leftmost placeholder goes"
FILLING_RULES = (FEWEST_FIRST, NOT_TWICE, WITHIN_ROOM, LEFTMOST)


def fill_one_by_one(rows: Sequence[Sequence[int]], broker_id: int, room: int, without: str = "") -> list[list[int]]:
    """KIP-409's filling, one row at a time: `broker_id` takes a placeholder of at most `room` rows.

    Of equal rows the earlier come first. `without` is one of `FILLING_RULES`, which is left out then.
    """
    filled = [list(row) for row in rows]
    waiting: list[Any] = []
    for number, row in enumerate(filled):
        if (broker_id not in row or without == NOT_TWICE) and any(replica < 0 for replica in row):
            real = 0 if without == FEWEST_FIRST else sum(replica >= 0 for replica in row)
            waiting.append((real, number))
    for _, number in sorted(waiting)[: len(rows) if without == WITHIN_ROOM else max(room, 0)]:
        columns = [column for column, replica in enumerate(filled[number]) if replica < 0]
        filled[number][max(columns) if without == LEFTMOST else min(columns)] = broker_id
    return filled
