"""Placements beside Apache Kafka's two placers and kfake's: how long they take, and how even they are.

All placers do a task in turn. When the clock has stopped, ours are audited, and compared with Kafka's id for id where
they have to be the same: a wrong placement ends the run. Growing, shrinking and filling placeholders are ours alone;
beside a rebalanced placement stands what kafka-reassign-partitions --generate proposes.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bench.contenders import Contender, Placement, take_turns
from bench.placement_peers import Maker, PlacementPeer, Shape, started_peers
from bench.placement_rows import PlacementRow, Spread
from bench.placement_tasks import (
    RF,
    Sizes,
    Task,
    change_width,
    fill_many,
    held_besides,
    is_limited,
    place_few,
    place_many,
    place_many_within_limits,
    rebalance_onto,
)
from bench.rows import median
from bench.spread import beyond_limits, count_moves, less_even_in, spread_of
from bench.workbench import Workbench
from klamm.assignment.audit import audit

QUICK = Sizes(warm_ups=2, rounds=3, small_warm_ups=2, small_rounds=5)


class WrongPlacement(Exception):
    """A placement that is not what it has to be: how long it took says nothing."""


def measure_placement(bench: Workbench) -> list[PlacementRow]:
    """Every task, beside kfake, and beside Kafka's placers if asked for."""
    with started_peers(bench.kfake_program, bench.kafka_class_path) as peers:
        return measure_tasks(QUICK if bench.quick else Sizes(), peers)


def measure_tasks(sizes: Sizes, peers: Sequence[PlacementPeer]) -> list[PlacementRow]:
    """The same with peers that run already, maybe none."""
    rows: list[PlacementRow] = []
    for task in _tasks(sizes, peers):
        rows += _measure(task, sizes)
    return rows


def _tasks(sizes: Sizes, peers: Sequence[PlacementPeer]) -> Iterator[Task]:
    yield place_many(Shape(sizes.partitions, RF, sizes.brokers, sizes.racks), peers, mark_seconds=1.0)
    yield place_many(Shape(sizes.changed_partitions, RF, sizes.uneven_brokers, sizes.changed_racks), peers)
    yield place_many_within_limits(sizes, peers, spare=True)
    yield place_many_within_limits(sizes, peers, spare=False)
    for racks in (3, 0):
        for kept in (True, False):
            yield place_few(sizes, peers, racks=racks, kept=kept)
    fewer, all_of_them = sizes.changed_brokers * 9 // 10, sizes.changed_brokers
    for racks in (sizes.changed_racks, 0):
        yield rebalance_onto(sizes, peers, racks=racks, old=fewer, new=all_of_them)
    yield rebalance_onto(sizes, peers, racks=sizes.changed_racks, old=all_of_them, new=fewer)
    yield change_width(sizes, width=3)
    yield change_width(sizes, width=2)
    yield fill_many(sizes)
    yield fill_many(sizes, room=sizes.changed_partitions // 2)


def _measure(task: Task, sizes: Sizes) -> list[PlacementRow]:
    warm_ups, rounds = sizes.warm_ups, sizes.rounds
    if task.small:
        warm_ups, rounds = sizes.small_warm_ups, sizes.small_rounds
    samples = take_turns(task.contenders, warm_ups, rounds)
    placements = [contender.placement() for contender in task.contenders]
    refuse_wrong(task, placements)
    spreads = [_spread(task, placement) for placement in placements]
    kafkas = {
        contender.name: spread
        for contender, spread in zip(task.contenders, spreads, strict=True)
        if contender.maker is Maker.KAFKA and spread
    }
    return [
        _row(task, contender, seconds, median(samples[0]), placement, spread, kafkas)
        for contender, seconds, placement, spread in zip(task.contenders, samples, placements, spreads, strict=True)
    ]


def _row(
    task: Task,
    contender: Contender,
    seconds: Sequence[float],
    klamm_seconds: float,
    placement: Placement,
    spread: Spread | None,
    kafkas: Mapping[str, Spread],
) -> PlacementRow:
    ours = contender.maker is Maker.KLAMM
    less_even_than = None
    # Who knows no limits is more even than the limits allow.
    if ours and spread and kafkas and not is_limited(task.view):
        less_even_than = [
            f"{name} in {', '.join(worse)}"
            for name, theirs in kafkas.items()
            if (worse := less_even_in(spread, theirs))
        ]
    return PlacementRow(
        task=task.what,
        placer=contender.name,
        seconds=median(seconds),
        fastest=min(seconds),
        samples=len(seconds),
        ratio=None if ours else klamm_seconds / median(seconds),
        spread=spread,
        moves=None if task.before is None else count_moves(task.before, placement),
        fewest_moves=task.fewest_moves,
        beyond_limits=beyond_limits(task.view, placement, held_besides(task)) if is_limited(task.view) else None,
        mark_seconds=task.mark_seconds if ours else None,
        less_even_than=less_even_than,
        same_as=_same_as(task, contender),
    )


def _same_as(task: Task, contender: Contender) -> str | None:
    return next(
        (task.contenders[other].name for one, other in task.identical if task.contenders[one] is contender), None
    )


def refuse_wrong(task: Task, placements: Sequence[Placement]) -> None:
    """Raise WrongPlacement unless ours are sound, and the same as Kafka's where they have to be."""
    for contender, placement in zip(task.contenders, placements, strict=True):
        if contender.maker is Maker.KLAMM and (violations := audit(task.view, placement, task.before)):
            raise WrongPlacement(f"{task.what}: {contender.name}: {violations[0].message}")
        if task.target_brokers is not None and (placement >= task.target_brokers).any():
            raise WrongPlacement(f"{task.what}: {contender.name}: replicas are left on brokers to be emptied")
    for one, other in task.identical:
        if not np.array_equal(placements[one], placements[other]):
            names = " and ".join(task.contenders[at].name for at in (one, other))
            raise WrongPlacement(f"{task.what}: {names} do not place alike")


def _spread(task: Task, placement: Placement) -> Spread | None:
    if (placement < 0).any():
        return None
    target = np.arange(len(task.view)) < (task.target_brokers or len(task.view))
    return spread_of(task.view.only(target), placement, held_besides(task)[target])
