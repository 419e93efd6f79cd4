"""Sentences that explain a placement: Kafka's algorithm, a limit, missing brokers, or a refusal decided it.

To find out whether limits changed the placement, it is made again without limits, on a copy of the random source. All
other facts are counted from the placement. This module prints nothing.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from klamm.assign.lines import Refusal, place_or_refuse, replicas_after, replicas_per_broker
from klamm.assignment import NO_LIMIT, Algorithm, CannotPlaceReason, ClusterView, JavaRandom, PlacementSpec
from klamm.assignment.cluster_view import BoolArray, Int32Array, Int64Array
from klamm.assignment.wording import counted, first_few

_NAME_OF: Final = {
    Algorithm.ROUND_ROBIN: "Kafka's round robin",
    Algorithm.STRIPED: "Kafka's striped placement",
}


def verdict(view: ClusterView, spec: PlacementSpec, rng: JavaRandom, placed: Int32Array | Refusal) -> Iterator[str]:
    """Sentences about a placement or a refusal; `rng` is the random source as it was before the placement."""
    if isinstance(placed, tuple):
        reason, message = placed
        yield f"Refused, {reason}: {message}"
        if reason == CannotPlaceReason.POLICY_VIOLATION.value:
            usable = view if spec.algorithm is Algorithm.STRIPED else view.live_only()
            fitting = counted(_most_partitions(usable, spec), "partition")
            yield f"At most {fitting} with replication factor {spec.replication_factor} would fit."
        return
    real = int((placed[:1] >= 0).sum()) if len(placed) else spec.replication_factor
    yield _what_decided(view, spec, rng, placed)
    if real < spec.replication_factor:
        missing = spec.replication_factor - real
        yield (
            f"Placeholders: with {counted(real, 'broker')} for replication factor {spec.replication_factor}, "
            f"{counted(missing, 'replica')} of each partition {'waits' if missing == 1 else 'wait'} for a broker."
        )
    if view.partition_limit != NO_LIMIT:
        yield f"Partitions in the cluster: {view.partition_count + len(placed)} of at most {view.partition_limit}."
    yield from _spread(view, spec, placed, real)


def _most_partitions(view: ClusterView, spec: PlacementSpec) -> int:
    """The most partitions that fit within the limits, at most those of the request."""
    width = min(spec.replication_factor, len(view))
    fitting, most = 0, min(spec.partitions, max(view.partition_limit - view.partition_count, 0))
    # Bisection: if a number of partitions fits, every smaller number fits, too.
    while fitting < most:
        middle = (fitting + most + 1) // 2
        room = np.minimum(view.room, middle)
        if room.sum() >= middle * width and room[view.live].sum() >= middle:
            fitting = middle
        else:
            most = middle - 1
    return fitting


def _what_decided(view: ClusterView, spec: PlacementSpec, rng: JavaRandom, placed: Int32Array) -> str:
    name = _NAME_OF[spec.algorithm]
    if view.replica_limit == NO_LIMIT:
        return f"{name}, unchanged: brokers have no limit."
    unlimited = place_or_refuse(_without_limits(view), spec, rng)
    if isinstance(unlimited, tuple):  # not enough memory for a second placement
        return "Placed within the limits."
    if np.array_equal(unlimited, placed):
        return f"{name}, unchanged: no broker exceeds its limit of {view.replica_limit}."
    beyond = view.broker_ids[replicas_after(view, unlimited) > view.replica_limit]
    return (
        f"The limit of {counted(view.replica_limit, 'replica')} changed the placement: {name} would exceed it on "
        f"{_named(beyond)}."
    )


def _without_limits(view: ClusterView) -> ClusterView:
    return ClusterView(broker_ids=view.broker_ids, racks=view.racks, fenced=view.fenced)


def _spread(view: ClusterView, spec: PlacementSpec, placed: Int32Array, real: int) -> Iterator[str]:
    after = replicas_after(view, placed)
    with_room = view.live & (after < view.replica_limit)
    sentence = f"Replicas on a live broker: {_range(after[view.live])}"
    if not with_room[view.live].all():
        sentence += (
            f"; {_range(after[with_room])} on brokers below the limit" if with_room.any() else "; all are at the limit"
        )
    yield f"{sentence}."
    yield f"Partitions led by a live broker: {_range(replicas_per_broker(view, placed[:, :1])[view.live])}."
    if any(rack is not None for rack in view.racks):
        number_of = {rack: number for number, rack in enumerate(dict.fromkeys(view.racks))}
        rack_of = np.array([number_of[rack] for rack in view.racks])
        per_row = distinct_per_row(rack_of[view.index_of(placed[:, :real])])
        most = _most_racks(view, spec, rack_of, real)
        yield f"Sum of the racks of each partition: {int(per_row.sum())} of at most {most}."


def distinct_per_row(numbers: Int64Array) -> Int64Array:
    """int64[rows]: the number of different values in each row of [rows, k]; k is at least 1."""
    ascending = np.sort(numbers, axis=1)
    distinct: Int64Array = (ascending[:, 1:] != ascending[:, :-1]).sum(axis=1) + 1
    return distinct


def _most_racks(view: ClusterView, spec: PlacementSpec, rack_of: Int64Array, real: int) -> int:
    """An upper bound of the sum over all partitions: each partition counts a rack once, and a rack has at most as many
    partitions as its brokers have room for. Stripes are on fenced brokers, too."""
    on_live = spec.algorithm is not Algorithm.STRIPED and int(view.live.sum()) >= real
    usable: BoolArray = view.live if on_live else np.ones(len(view), dtype=np.bool_)
    partitions = spec.partitions
    room = np.minimum(np.maximum(view.replica_limit - view.replica_counts, 0), partitions)[usable]
    in_racks = np.minimum(np.bincount(rack_of[usable], weights=room).astype(np.int64), partitions)
    return min(int(in_racks.sum()), partitions * real)


def _range(numbers: Int64Array) -> str:
    lowest, highest = int(numbers.min()), int(numbers.max())
    return f"{lowest}" if lowest == highest else f"{lowest} to {highest}"


def _named(broker_ids: Int32Array) -> str:
    return f"broker {broker_ids[0]}" if len(broker_ids) == 1 else f"{len(broker_ids)} brokers ({first_few(broker_ids)})"
