"""Places replicas within the limits (KIP-578) where Kafka's own placement would exceed them.

Every broker gets a quota within its limit, and rows are made that use up the quotas. Then leaders are evened out and
the rows are ordered. Several clusters are placed together: most steps then take one call of NumPy for all of them,
and each call has a fixed cost that is higher than the work for a small cluster. The result does not depend on that.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from klamm.assignment.cluster_view import BoolArray, ClusterView, Int32Array, Int64Array
from klamm.assignment.kafka.rack_order import rack_alternated_order
from klamm.assignment.limited.fill_rows import ToFill, fill_rows_together
from klamm.assignment.limited.leaders import balance_leaders, balance_leaders_together, leaders_first
from klamm.assignment.limited.live_leaders import with_live_leaders
from klamm.assignment.limited.quotas import rack_numbers, widest_quotas
from klamm.assignment.random_source import RandomSource
from klamm.assignment.ranks import rank_within

MAX_REPLICAS_WITH_EVENEST_LEADERS: Final = 1_000_000
"""Up to this many replicas, leaders per broker are as even as possible. With more, brokers that are filled to their
limit lead in proportion to their replicas, and only the leaders on other brokers are evened out. That takes linear
time."""


class ToPlace(NamedTuple):
    """New rows for one cluster. A placement within the limits exists."""

    view: ClusterView
    partitions: int
    width: int
    """The number of replicas in each row, placeholders not included."""
    source: RandomSource


class _Prepared(NamedTuple):
    view: ClusterView
    ring: Int64Array
    to_fill: ToFill


def place_within_limits(clusters: Sequence[ToPlace]) -> list[Int32Array]:
    """The brokers of the new partitions of each cluster, int32[partitions, width]; column 0 leads. Fenced brokers get
    only replicas that do not fit on live ones."""
    numbers_by_width = defaultdict(list)
    for number, cluster in enumerate(clusters):
        numbers_by_width[cluster.width].append(number)
    placed: dict[int, Int32Array] = {}
    for numbers in numbers_by_width.values():
        placed.update(zip(numbers, _placed([_prepared(clusters[number]) for number in numbers]), strict=True))
    return [placed[number] for number in range(len(clusters))]


def _prepared(cluster: ToPlace) -> _Prepared:
    view, partitions, width, source = cluster
    if int(np.minimum(view.headroom, partitions).sum()) >= partitions * width:
        view = view.live_only()
    ring = np.roll(_ring(view), -source.next_int(len(view)))
    rack_of = rack_numbers(view.racks)
    capacity = np.minimum(view.room, partitions)
    on_live = np.where(view.live, capacity, 0) if view.fenced.any() else None
    quotas = widest_quotas(capacity, np.zeros_like(capacity), rack_of, partitions, width, ring, on_live)
    return _Prepared(view, ring, ToFill(quotas, rack_of, partitions, source))


def _placed(prepared: Sequence[_Prepared]) -> list[Int32Array]:
    """The placements of clusters with the same width."""
    rows = fill_rows_together([one.to_fill for one in prepared])
    together = []
    for number, (view, _, (quotas, rack_of, _, _)) in enumerate(prepared):
        if view.fenced.any():
            rows[number] = with_live_leaders(rows[number], view.live, rack_of)
        elif rows[number].size <= MAX_REPLICAS_WITH_EVENEST_LEADERS:
            together.append(number)
        else:
            rows[number] = _with_even_leaders_where_room_is_left(rows[number], quotas < view.room)
    if together:
        sizes = [len(prepared[number].view) for number in together]
        for number, balanced in zip(
            together, balance_leaders_together([rows[at] for at in together], sizes), strict=True
        ):
            rows[number] = balanced
    return [
        view.broker_ids.take(own.take(_leaders_in_turn(own[:, 0], ring), axis=0))
        for own, (view, ring, _) in zip(rows, prepared, strict=True)
    ]


def _with_even_leaders_where_room_is_left(rows: Int64Array, roomy: BoolArray) -> Int64Array:
    """Even out the leaders among brokers with room left. The other brokers keep the leaders that they have."""
    theirs = np.flatnonzero(roomy[rows[:, 0]])
    number = np.cumsum(roomy) - 1  # among those with room
    candidates = np.where(roomy[rows[theirs]], number[rows[theirs]], -1)
    leader = balance_leaders(candidates, int(roomy.sum()))[:, 0]
    rows[theirs] = leaders_first(rows[theirs], np.flatnonzero(roomy)[leader])
    return rows


def _ring(view: ClusterView) -> Int64Array:
    return np.arange(len(view)) if None in view.racks else rack_alternated_order(view)[0]


def _leaders_in_turn(leader: Int64Array, ring: Int64Array) -> Int64Array:
    """An order of the rows in which brokers lead in turn, in the order of the ring, each as often as it can."""
    led = np.bincount(leader, minlength=len(ring))[leader]
    # The i-th of q rows that a broker leads gets the position (2i + 1) / 2q. One correctly rounded division gives the
    # same result on every machine.
    way = (2 * rank_within(leader) + 1) / (2 * led)
    return np.lexsort((np.argsort(ring)[leader], way))
