"""Oracles for growing and shrinking rows: a flow network with a node for every row, and a plain loop.

They are simple and slow, and share no code with `assignment`. Brokers are indexes into the given lists. A row's own
brokers may be outside of these: such a broker is unknown and has no rack.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import networkx as nx

Rack = Hashable
SOURCE, SINK = "source", "sink"


class Growing(NamedTuple):
    """Rows that lack replicas, and who can take some."""

    own: list[list[int]]
    lacking: list[int]
    room: list[int]
    racks: list[Rack]
    held: list[int]


class Worth(NamedTuple):
    """How good new replicas are: fewer missing first, then more racks, then less unevenness."""

    missing: int
    racks_gained: int
    squares: int
    """By how much the sum over brokers of (held + new)² grows."""


def best_growth(growing: Growing) -> Worth:
    """The best there is, from a flow of minimum cost; only what is missing counts where something is."""
    wanted = sum(growing.lacking)
    dearer_than_all = 1 + sum((count + wanted) ** 2 for count in growing.held)
    network = _network(growing, dearer_than_all)
    missing = wanted - int(nx.maximum_flow_value(network, SOURCE, SINK))
    if missing:
        return Worth(missing, 0, 0)
    network.nodes[SOURCE]["demand"], network.nodes[SINK]["demand"] = -wanted, wanted
    cost, _ = nx.network_simplex(network)
    racks_gained = -(cost // dearer_than_all)
    return Worth(0, int(racks_gained), int(cost + racks_gained * dearer_than_all))


def _network(growing: Growing, new_rack: int) -> nx.DiGraph:
    network = nx.DiGraph()
    network.add_nodes_from((SOURCE, SINK))
    for broker, (room, held) in enumerate(zip(growing.room, growing.held, strict=True)):
        for more in range(min(room, len(growing.own))):
            network.add_edge(("broker", broker), (broker, more), capacity=1, weight=2 * (held + more) + 1)
            network.add_edge((broker, more), SINK, capacity=1, weight=0)
    for row, (own, lacking) in enumerate(zip(growing.own, growing.lacking, strict=True)):
        has = {growing.racks[broker] for broker in own if broker < len(growing.racks)}
        network.add_edge(SOURCE, ("row", row), capacity=lacking, weight=0)
        for rack in set(growing.racks):
            network.add_edge(("row", row), ("rack", row, rack), capacity=lacking, weight=0)
            if rack not in has:
                network.add_edge(("row", row), ("first", row, rack), capacity=1, weight=-new_rack)
                network.add_edge(("first", row, rack), ("rack", row, rack), capacity=1, weight=0)
        for broker, rack in enumerate(growing.racks):
            if broker not in own:
                network.add_edge(("rack", row, rack), ("broker", broker), capacity=1, weight=0)
    return network


def worth(growing: Growing, given: Sequence[Sequence[int]]) -> Worth:
    """How good these new replicas are, one list for each row; they must keep to room and be new to their row."""
    new = Counter(broker for row in given for broker in row)
    assert all(new[broker] <= room for broker, room in enumerate(growing.room))
    gained = 0
    for own, more in zip(growing.own, given, strict=True):
        assert len({*own, *more}) == len(own) + len(more)
        before = {growing.racks[broker] for broker in own if broker < len(growing.racks)}
        gained += len({growing.racks[broker] for broker in more} - before)
    squares = sum((held + new[broker]) ** 2 - held**2 for broker, held in enumerate(growing.held))
    return Worth(sum(growing.lacking) - new.total(), gained, squares)


class Broker(NamedTuple):
    """What shrinking asks about a broker."""

    rack: Rack
    live: bool
    excess: int
    """Replicas above its limit."""


LEADER_LAST = "a leader goes last"
PLACEHOLDERS_FIRST = "placeholders go first"
THEN_NOT_LIVE = "then what is on no live broker"
THEN_REPEATED_RACKS = "then what is in a rack that the row has more than once"
THEN_OVER_LIMIT = "of equals, what is on a broker over its limit"
FROM_THE_END = "of equals, the last of the row"
ONLY_LIVE_ARE_OVER = "a fenced broker does not count as over its limit"
RELIEF_COUNTS = "a broker is over its limit as long as earlier drops leave it there"
FENCED_HAVE_RACKS = "a replica on a fenced broker is in a rack, too"
WHAT_IS_GONE_IS_IN_NO_RACK = "a replica that has gone is in no rack any more"
SHRINKING_RULES = (
    *(LEADER_LAST, PLACEHOLDERS_FIRST, THEN_NOT_LIVE, THEN_REPEATED_RACKS, THEN_OVER_LIMIT, FROM_THE_END),
    *(ONLY_LIVE_ARE_OVER, RELIEF_COUNTS, FENCED_HAVE_RACKS, WHAT_IS_GONE_IS_IN_NO_RACK),
)


def shrink_one_by_one(
    rows: Sequence[Sequence[int]],
    replication_factor: int,
    leaders: Sequence[int],
    brokers: Mapping[int, Broker],
    without: str = "",
) -> list[list[int]]:
    """Rows without what is too much: in each round every row, in order, gives up the replica it needs least.

    `without` is one of `SHRINKING_RULES`, which is left out then: where nothing changes, the rule decides nothing.
    """
    left = [list(row) for row in rows]
    excess = {broker_id: broker.excess for broker_id, broker in brokers.items()}
    while left and len(left[0]) > replication_factor:
        for row, whole, leader in zip(left, rows, leaders, strict=True):
            held = whole if without == WHAT_IS_GONE_IS_IN_NO_RACK else row
            with_rack = [brokers[replica] for replica in held if replica in brokers]
            racks = Counter(broker.rack for broker in with_rack if broker.live or without != FENCED_HAVE_RACKS)
            # The most dispensable first: later reasons decide between equals.
            dispensable: list[list[bool | int]] = []
            for column, replica in enumerate(row):
                broker = brokers.get(replica)
                live = broker is not None and broker.live
                may_be_over = live or (without == ONLY_LIVE_ARE_OVER and broker is not None)
                reasons = {
                    LEADER_LAST: replica < 0 or replica != leader,
                    PLACEHOLDERS_FIRST: replica < 0,
                    THEN_NOT_LIVE: not live,
                    THEN_REPEATED_RACKS: live and broker is not None and racks[broker.rack] > 1,
                    THEN_OVER_LIMIT: may_be_over and excess[replica] > 0,
                    FROM_THE_END: column,
                }
                dispensable.append([reason for rule, reason in reasons.items() if rule != without])
            gone = row.pop(dispensable.index(max(dispensable)))
            if gone in excess and without != RELIEF_COUNTS:
                excess[gone] -= 1
    return left
