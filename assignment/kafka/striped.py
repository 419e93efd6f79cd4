"""Striped placement: as the KRaft controller of Apache Kafka 4.3 places, id for id (StripedReplicaPlacer).

Racks form a ring; "no rack" is one of them. Each partition begins one rack after the previous partition. Its leader is
from the first rack that has an unfenced broker. Its followers come from one rack after the other, from the partition's
first rack on, around the ring as often as needed. A rack gives unfenced brokers before fenced ones, each kind in turn.
After as many partitions as there are unfenced brokers, racks and brokers are shuffled. Kafka's results are recorded in
tests/golden/placement/striped*.jsonl. There are no limits and placeholders here; the caller passes the random source.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from klamm.assignment.cluster_view import ClusterView, Int32Array
from klamm.assignment.errors import CannotPlace, CannotPlaceReason
from klamm.assignment.kafka.java_hash_map import hash_map_order
from klamm.assignment.kafka.rack_order import utf16_units
from klamm.assignment.kafka.stripes_in_bulk import RackInBulk, ToStripe, is_regular, place_in_bulk
from klamm.assignment.placement_size import validate_size
from klamm.assignment.random_source import RandomSource

FEW_REPLICAS: Final = 150
"""Up to this many replicas are placed one by one, which is faster than arrays (measured)."""
_NO_BROKER: Final = -1
_NO_POSITION: Final = -1
_MAX_CHUNK_CELLS: Final = 1 << 18  # broker ids held as Python integers at a time


def place_striped(view: ClusterView, partitions: int, replication_factor: int, source: RandomSource) -> Int32Array:
    """The brokers of `partitions` partitions, int32[partitions, replication_factor]; column 0 leads.

    Fenced brokers may follow but never lead. Of the view's order only the order in which racks first appear matters.
    With a JavaRandom, the result and the random draws are Kafka's, also the draws before an error. For 0 partitions the
    result is empty, as in Kafka. Raises CannotPlace before it allocates the placement.
    """
    stripes = Stripes(view, source)
    validate_striped(view, partitions, replication_factor)
    (placed,) = place_stripes_together([(stripes, partitions, replication_factor)])
    return placed


def place_stripes_together(topics: "Sequence[tuple[Stripes, int, int]]") -> list[Int32Array]:
    """The result of `place_striped` for several topics: the stripes, the number of partitions and the replication
    factor of each, which `validate_striped` has accepted."""
    in_bulk = {number: to_stripe for number, topic in enumerate(topics) if (to_stripe := topic[0].in_bulk(*topic[1:]))}
    placed = dict(zip(in_bulk, place_in_bulk(list(in_bulk.values())), strict=True)) if in_bulk else {}
    return [
        placed[number] if number in placed else stripes.place_one_by_one(*shape)
        for number, (stripes, *shape) in enumerate(topics)
    ]


def validate_striped(view: ClusterView, partitions: int, replication_factor: int, first_partition: int = 0) -> None:
    """Raise CannotPlace as Kafka does, in its order and words, then for a placement above `MAX_PLACED_REPLICAS`."""
    if replication_factor <= 0:
        raise CannotPlace(
            CannotPlaceReason.INVALID_REPLICATION_FACTOR,
            f"Invalid replication factor {replication_factor}: the replication factor must be positive.",
        )
    if view.fenced.all():
        raise CannotPlace(
            CannotPlaceReason.INVALID_REPLICATION_FACTOR,
            "All brokers are currently fenced, or have all their log directories cordoned.",
        )
    if replication_factor > len(view):
        raise CannotPlace(
            CannotPlaceReason.INVALID_REPLICATION_FACTOR,
            f"The target replication factor of {replication_factor} cannot be reached because only {len(view)} "
            "broker(s) are registered or some brokers have all their log directories cordoned.",
        )
    if partitions < 0:
        raise CannotPlace(
            CannotPlaceReason.INVALID_PARTITIONS, f"Number of partitions must not be negative: {partitions}."
        )
    validate_size(partitions, replication_factor, first_partition)


class _RackMembers(NamedTuple):
    """Broker ids of one rack, ascending."""

    fenced: list[int]
    unfenced: list[int]


class _Racks(NamedTuple):
    """The racks of a view before the first draw. The lists must not be changed, because they are cached."""

    in_map_order: list[_RackMembers]
    """The racks in the order in which Kafka draws random numbers for them."""
    in_ring_order: list[int]
    """Indexes into `in_map_order`, sorted by rack name: "no rack" first, then as Java's strings sort."""


@lru_cache(maxsize=8)
def _racks_of(view: ClusterView) -> _Racks:
    # Views are immutable and are compared by identity. The cache saves a third of the time of a small topic.
    members = {rack: _RackMembers([], []) for rack in view.racks}
    ids, fenced = view.broker_ids.tolist(), view.fenced.tolist()
    for index in np.argsort(view.broker_ids).tolist():
        rack = members[view.racks[index]]
        (rack.fenced if fenced[index] else rack.unfenced).append(ids[index])
    names, ring_order = _orders(tuple(members))
    return _Racks([members[name] for name in names], ring_order)


@lru_cache(maxsize=8)
def _orders(racks: tuple[str | None, ...]) -> tuple[list[str | None], list[int]]:
    """Racks in the order of the HashMap, and their indexes in the order of the ring."""
    names = [racks[index] for index in hash_map_order(racks)]
    return names, sorted(range(len(names)), key=lambda index: _java_order(names[index]))


def _java_order(rack: str | None) -> bytes:
    # Every name is prefixed with zero bytes, so that "no rack" sorts before the empty name.
    return b"" if rack is None else b"\0\0" + utf16_units(rack)


class _Turns:
    """The fenced or the unfenced brokers of one rack, which are used in turn."""

    __slots__ = ("_epoch", "_given", "brokers", "first")

    def __init__(self, brokers: Sequence[int], source: RandomSource) -> None:
        self.brokers = list(brokers)
        self.first = source.next_int(len(brokers)) if brokers else 0
        self._given = 0
        self._epoch = 0

    def next(self, epoch: int) -> int:
        """The next broker for the partition of this epoch; _NO_BROKER if the partition has all of them already."""
        brokers = self.brokers
        if not brokers:
            return _NO_BROKER
        # An epoch is the number of partitions since the last shuffle, as in Kafka. If this was last called in an epoch
        # of the same number before the shuffle, the epoch seems unchanged, and the turn goes on where it stopped.
        if epoch != self._epoch:
            self._epoch = epoch
            self._given = 0
            self.first = (self.first + 1) % len(brokers)
        given = self._given
        if given == len(brokers):
            return _NO_BROKER
        self._given = given + 1
        return brokers[self.first + given - len(brokers)]  # the index is at least -len(brokers): no modulo is needed

    def shuffle(self, source: RandomSource) -> None:
        _shuffle(self.brokers, source)


class _Rack:
    __slots__ = ("fenced", "unfenced")

    def __init__(self, members: _RackMembers, source: RandomSource) -> None:
        self.fenced = _Turns(members.fenced, source)
        self.unfenced = _Turns(members.unfenced, source)

    def next(self, epoch: int) -> int:
        broker = self.unfenced.next(epoch)
        return self.fenced.next(epoch) if broker == _NO_BROKER else broker

    def shuffle(self, source: RandomSource) -> None:
        self.fenced.shuffle(source)
        self.unfenced.shuffle(source)


class Stripes:
    """The ring of racks for the placement of one topic. The constructor draws random numbers, as Kafka does, even if no
    placement follows."""

    def __init__(self, view: ClusterView, source: RandomSource) -> None:
        racks = _racks_of(view)
        self._source = source
        self._racks = [_Rack(members, source) for members in racks.in_map_order]
        self._ring_order = racks.in_ring_order
        self._ring = [self._racks[index] for index in racks.in_ring_order]
        self._start = source.next_int(len(self._ring)) if self._ring else 0
        self._unfenced = sum(len(members.unfenced) for members in racks.in_map_order)
        self._epoch = 0

    def in_bulk(self, partitions: int, replication_factor: int) -> ToStripe | None:
        """The argument of `stripes_in_bulk` for a placement, or None if it does not apply."""
        if partitions * replication_factor <= FEW_REPLICAS:
            return None
        racks = [
            RackInBulk(rack.unfenced.brokers, rack.unfenced.first, len(rack.fenced.brokers)) for rack in self._racks
        ]
        if not is_regular([len(rack.unfenced) for rack in racks], replication_factor):
            return None
        return ToStripe(racks, self._ring_order, self._start, (partitions, replication_factor), self._source)

    def place_one_by_one(self, partitions: int, replication_factor: int) -> Int32Array:
        """The result of `place_striped`. Call it once only, after `validate_striped`."""
        placed = np.empty((partitions, replication_factor), dtype=np.int32)
        rows_at_once = max(1, _MAX_CHUNK_CELLS // replication_factor)
        for begin in range(0, partitions, rows_at_once):
            rows = placed[begin : begin + rows_at_once]
            chosen: list[int] = []
            for _ in range(len(rows)):
                self._place_partition(replication_factor, chosen)
            rows[:] = np.array(chosen, dtype=np.int32).reshape(rows.shape)
        return placed

    def _place_partition(self, replication_factor: int, chosen: list[int]) -> None:
        """Append the brokers of one more partition to `chosen`."""
        if self._epoch == self._unfenced > 1:
            self._shuffle()
        ring, epoch = self._ring, self._epoch
        leads_from = position = self._start
        while (broker := ring[leads_from].unfenced.next(epoch)) == _NO_BROKER:
            leads_from = (leads_from + 1) % len(ring)
        chosen.append(broker)
        missing = replication_factor - 1
        while missing:
            if position == leads_from:
                leads_from = _NO_POSITION  # the leader's rack is skipped in the first round only
            elif (broker := ring[position].next(epoch)) != _NO_BROKER:
                chosen.append(broker)
                missing -= 1
            position = (position + 1) % len(ring)
        self._start = (self._start + 1) % len(ring)
        self._epoch += 1

    def _shuffle(self) -> None:
        _shuffle(self._ring, self._source)
        for rack in self._racks:
            rack.shuffle(self._source)
        self._epoch = 0


def _shuffle(items: list[Any], source: RandomSource) -> None:
    """Java's Collections.shuffle: from the last position down, each item is swapped with one at or before it."""
    for place in range(len(items) - 1, 0, -1):
        other = source.next_int(place + 1)
        items[place], items[other] = items[other], items[place]
