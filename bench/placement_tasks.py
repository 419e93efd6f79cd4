"""What placers are asked to do: the clusters, the limits, and who takes part.

Brokers are 0, 1, …, broker b in rack number b % racks, here as in the peers. Where a placement is to be changed, its
view counts it in. Random numbers are the same in every call, so that all samples do the same work.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from bench.contenders import Contender, OurPlacer, Placement, TheirPlacer, TheirReassignment
from bench.placement_peers import Maker, PlacementPeer, Shape
from bench.spread import Counts
from klamm.assignment import NO_LIMIT, Algorithm, ClusterView, JavaRandom, PlacementSpec, place
from klamm.assignment.placeholders import fill_placeholders
from klamm.assignment.rebalance import rebalance
from klamm.assignment.resize import grow, shrink

SEED: Final = 5
RF: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is placed and how often: the real numbers, or small ones for a quick check."""

    partitions: int = 1_000_000
    brokers: int = 1_000
    racks: int = 20
    uneven_brokers: int = 91
    """One broker more than `changed_racks` divides evenly."""
    changed_partitions: int = 100_000
    changed_brokers: int = 100
    changed_racks: int = 10
    warm_ups: int = 6
    rounds: int = 9
    small_warm_ups: int = 12
    small_rounds: int = 31
    small_calls: int = 200
    """Calls in one sample of a small placement; ten times as many of a peer in a JVM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task that several placers do, Klamm first."""

    what: str
    contenders: Sequence[Contender]
    view: ClusterView
    before: Placement | None = None
    """The rows before the change, for tasks that change rows."""
    mark_seconds: float | None = None
    identical: Sequence[tuple[int, int]] = ()
    """Pairs of contenders whose placements have to be the same, id for id."""
    fewest_moves: int | None = None
    target_brokers: int | None = None
    """Replicas go to the first brokers of the view, this many. None: all of them."""
    small: bool = False


def racked_view(brokers: int, racks: int) -> ClusterView:
    """Brokers without limits; with 0 racks they have none."""
    names = [f"rack-{broker % racks:03d}" if racks else None for broker in range(brokers)]
    return ClusterView(broker_ids=np.arange(brokers, dtype=np.int32), racks=tuple(names))


def place_many(shape: Shape, peers: Sequence[PlacementPeer], mark_seconds: float | None = None) -> Task:
    """Partitions without limits, by the rules of each of Kafka's placers."""
    view = racked_view(shape.brokers, shape.racks)
    striped = PlacementSpec(
        partitions=shape.partitions, replication_factor=shape.replication_factor, algorithm=Algorithm.STRIPED
    )
    contenders: list[Contender] = [
        _round_robin(view, shape.partitions),
        OurPlacer("Klamm, striped", lambda: place(view, striped, JavaRandom(SEED))),
    ]
    # Klamm's two in the order of Kafka's two; kfake has its own random numbers.
    identical = [(at, len(contenders) + at) for at, peer in enumerate(peers) if peer.maker is Maker.KAFKA]
    contenders += [TheirPlacer(peer, shape, SEED) for peer in peers]
    return Task(what=_what(shape), contenders=contenders, view=view, mark_seconds=mark_seconds, identical=identical)


def place_many_within_limits(sizes: Sizes, peers: Sequence[PlacementPeer], *, spare: bool) -> Task:
    """The same with room for 1/3 to 4/5 of an even share on half of the brokers, and for 3/2 on the others. That is 4 %
    more room than needed; without `spare` it is removed, from all brokers alike."""
    wanted = sizes.partitions * RF
    even = wanted // sizes.brokers
    limit = even * 3 // 2
    half = sizes.brokers // 2
    steps = -(-half // sizes.racks)
    held = np.zeros(sizes.brokers, dtype=np.int64)
    # Every rack has brokers of each size.
    held[:half] = limit - (even // 3 + even * 12 // 25 * (np.arange(half) // sizes.racks) // max(1, steps - 1))
    if not spare:
        surplus = int((limit - held).sum()) - wanted
        held += surplus // sizes.brokers
        held[: surplus % sizes.brokers] += 1
    view = replace(racked_view(sizes.brokers, sizes.racks), replica_counts=held, replica_limit=limit)
    shape = Shape(sizes.partitions, RF, sizes.brokers, sizes.racks)
    contenders: list[Contender] = [_round_robin(view, sizes.partitions)]
    contenders += [TheirPlacer(peer, shape, SEED) for peer in peers if peer.maker is Maker.KAFKA]
    limits = "half of the brokers limited" if spare else "limits without a replica to spare"
    return Task(what=f"{_what(shape)}, {limits}", contenders=contenders, view=view, mark_seconds=3.0)


def place_few(sizes: Sizes, peers: Sequence[PlacementPeer], *, racks: int, kept: bool) -> Task:
    """10 partitions on 3 brokers; the view, or the peers' list of brokers, is kept or made for each call."""
    shape = Shape(10, RF, 3, racks)
    view = racked_view(shape.brokers, racks)
    spec = PlacementSpec(partitions=shape.partitions, replication_factor=RF)
    rng = np.random.Generator(np.random.PCG64(SEED))
    ids, names = view.broker_ids, view.racks

    def place_anew() -> Placement:
        return place(ClusterView(broker_ids=ids, racks=names), spec, rng)

    run = (lambda: place(view, spec, rng)) if kept else place_anew
    contenders: list[Contender] = [OurPlacer("Klamm", run, sizes.small_calls)]
    for peer in peers:
        calls = sizes.small_calls * (10 if peer.maker is Maker.KAFKA else 1)
        contenders.append(TheirPlacer(peer, shape, SEED, calls, fresh=not kept))
    what = f"{_what(shape)}, {'the same' if kept else 'a new'} view for each placement"
    return Task(what=what, contenders=contenders, view=view, mark_seconds=100e-6, small=True)


def rebalance_onto(sizes: Sizes, peers: Sequence[PlacementPeer], *, racks: int, old: int, new: int) -> Task:
    """Rows that are even on brokers 0 to `old` - 1 move to brokers 0 to `new` - 1."""
    rows = place(racked_view(old, racks), _spec(sizes.changed_partitions), JavaRandom(SEED))
    view = _counting(racked_view(max(old, new), racks), rows)
    brokers = range(new)
    shape = Shape(sizes.changed_partitions, RF, new, racks)
    contenders: list[Contender] = [
        OurPlacer("Klamm", lambda: rebalance(view, rows, JavaRandom(SEED), brokers=brokers).placement)
    ]
    contenders += [TheirReassignment(peer.tool, peer, shape, rows) for peer in peers if peer.tool]
    change = f"{new - old} added to {old}" if new > old else f"{old - new} of {old} emptied"
    in_racks = f" in {racks} racks" if racks else ", no racks"
    return Task(
        what=f"rebalance {sizes.changed_partitions:,} partitions, RF {RF}, brokers: {change}{in_racks}",
        contenders=contenders,
        view=view,
        before=rows,
        mark_seconds=5.0,
        fewest_moves=rebalance(view, rows, JavaRandom(SEED), brokers=brokers).fewest_moves,
        target_brokers=new,
    )


def change_width(sizes: Sizes, *, width: int) -> Task:
    """Rows of another replication factor become rows of `width`."""
    count, old = sizes.changed_partitions, 5 - width
    rows = place(racked_view(sizes.changed_brokers, sizes.changed_racks), _spec(count, old), JavaRandom(SEED))
    view = _counting(racked_view(sizes.changed_brokers, sizes.changed_racks), rows)
    if width > old:
        ours = OurPlacer("Klamm", lambda: grow(view, rows, width, JavaRandom(SEED)))
    else:
        ours = OurPlacer("Klamm", lambda: shrink(view, rows, width))
    what = f"{'grow' if width > old else 'shrink'} {count:,} partitions, RF {old} to {width}"
    fewest_moves = count * max(0, width - old)
    return Task(what=what, contenders=[ours], view=view, before=rows, fewest_moves=fewest_moves)


def fill_many(sizes: Sizes, *, room: int | None = None) -> Task:
    """A broker joins and fills a placeholder of each row, or of `room` rows; every other row has two of them."""
    brokers, count = sizes.changed_brokers, sizes.changed_partitions
    rows = place(racked_view(brokers, sizes.changed_racks), _spec(count), JavaRandom(SEED))
    rows[:, 2] = -1
    rows[::2, 1:] = (-1, -2)
    view = _counting(racked_view(brokers + 1, sizes.changed_racks), rows)
    what = f"fill {count:,} placeholders"
    if room is not None:
        view = replace(view, replica_limit=max(room, int(view.replica_counts.max())))
        what = f"fill {room:,} of {count:,} placeholders, up to the limit"
    ours = OurPlacer("Klamm", lambda: fill_placeholders(view, rows, brokers))
    fewest_moves = count if room is None else room
    return Task(what=what, contenders=[ours], view=view, before=rows, mark_seconds=0.1, fewest_moves=fewest_moves)


def held_besides(task: Task) -> Counts:
    """int64[n]: what the brokers hold besides the rows of the task."""
    if task.before is None:
        return task.view.replica_counts
    return task.view.replica_counts - _count(task.view, task.before)


def is_limited(view: ClusterView) -> bool:
    return view.replica_limit != NO_LIMIT


def _round_robin(view: ClusterView, partitions: int) -> OurPlacer:
    spec = _spec(partitions)
    return OurPlacer("Klamm", lambda: place(view, spec, JavaRandom(SEED)))


def _spec(partitions: int, replication_factor: int = RF) -> PlacementSpec:
    return PlacementSpec(partitions=partitions, replication_factor=replication_factor, start_index=SEED)


def _counting(view: ClusterView, rows: Placement) -> ClusterView:
    return replace(view, replica_counts=_count(view, rows), partition_count=len(rows))


def _count(view: ClusterView, rows: Placement) -> Counts:
    return np.bincount(view.index_of(rows[rows >= 0]), minlength=len(view))


def _what(shape: Shape) -> str:
    racks = f"in {shape.racks} racks" if shape.racks else "without racks"
    return f"place {shape.partitions:,} partitions, RF {shape.replication_factor}, on {shape.brokers:,} brokers {racks}"
