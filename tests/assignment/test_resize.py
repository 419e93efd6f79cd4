"""Growing and shrinking rows: existing replicas do not move, limits are kept, and results are optimal."""

import numpy as np
import pytest
from hypothesis import example, given

from klamm.assignment.audit import audit
from klamm.assignment.cluster_view import NO_LIMIT, ClusterView
from klamm.assignment.errors import CannotPlace, CannotPlaceReason
from klamm.assignment.kafka.java_random import JavaRandom
from klamm.assignment.kafka.round_robin import place_round_robin
from klamm.assignment.resize import grow, shrink
from klamm.assignment.wording import counted
from tests.assignment.existing_rows import LIMIT, UNKNOWN, Growth, Rows, Shrinking, growths, shrinkings
from tests.assignment.growth_oracle import best_growth, shrink_one_by_one, worth
from tests.assignment.strategies import Seed, seeds, small_cluster

# One row has an unknown broker and a fenced one, whose rack counts; the other is a placeholder alone.
UNKNOWN_AND_FENCED = Rows(
    small_cluster([1, 2, 2], ["a", "a", "b"], LIMIT, fenced=np.array([True, False, False])),
    np.array([[UNKNOWN, 10], [-1, -2]], dtype=np.int32),
)


@given(growths(), seeds())
@example(Growth(UNKNOWN_AND_FENCED, 3), Seed(0))
def test_growing_is_optimal_or_reports_how_much_does_not_fit(growth: Growth, seed: Seed) -> None:
    rows, replication_factor = growth
    growing = rows.growing(replication_factor)
    best = best_growth(growing)
    if any(len({*rows.live_ids(), *row}) < replication_factor for row in rows.real()):
        assert refusal(rows, replication_factor, seed).reason is CannotPlaceReason.INVALID_REPLICATION_FACTOR
        return
    if best.missing:
        refused = refusal(rows, replication_factor, seed)
        assert refused.reason is CannotPlaceReason.POLICY_VIOLATION
        assert f"{best.missing} of {counted(sum(growing.lacking), 'new replica')}," in refused.message
        assert f"max.broker.partitions={LIMIT}" in refused.message
        return
    grown = grow(rows.view, rows.placement, replication_factor, seed.rng())
    assert grown.dtype == np.int32
    assert grown.shape == (len(rows.placement), replication_factor)
    place = {broker_id: number for number, broker_id in enumerate(rows.view.broker_ids.tolist())}
    new = []
    for row, real in zip(grown.tolist(), rows.real(), strict=True):
        assert row[: len(real)] == real
        assert set(row[len(real) :]) <= set(rows.live_ids())
        new.append([place[replica] for replica in row[len(real) :]])
    assert worth(growing, new) == best


def refusal(rows: Rows, replication_factor: int, seed: Seed) -> CannotPlace:
    with pytest.raises(CannotPlace) as refused:
        grow(rows.view, rows.placement, replication_factor, seed.rng())
    return refused.value


@given(growths(), seeds())
def test_the_same_seed_grows_the_same_rows(growth: Growth, seed: Seed) -> None:
    results = []
    for _ in range(2):
        try:
            results.append(
                grow(growth.rows.view, growth.rows.placement, growth.replication_factor, seed.rng()).tolist()
            )
        except CannotPlace as refused:
            results.append(refused.message)
    assert results[0] == results[1]


@pytest.mark.parametrize("spare", [NO_LIMIT, 0])
def test_many_rows_grow_evenly_onto_new_racks_also_when_the_room_is_just_enough(spare: int) -> None:
    brokers_there, partitions = 60, 12_000
    racks = tuple(f"rack-{number % 6}" for number in range(brokers_there))
    ids = np.arange(brokers_there, dtype=np.int32)
    placement = place_round_robin(ClusterView(ids, racks), partitions, 2, 0, 0)
    held = np.bincount(placement.ravel(), minlength=brokers_there)
    limit = NO_LIMIT if spare else 3 * partitions // brokers_there
    view = ClusterView(ids, racks, replica_counts=held, replica_limit=limit)
    grown = grow(view, placement, 3, JavaRandom(1))
    assert (grown[:, :2] == placement).all()
    assert np.ptp(np.bincount(grown.ravel(), minlength=brokers_there)) == 0
    assert (np.diff(np.sort(grown % 6, axis=1), axis=1) > 0).all()
    assert not audit(ClusterView(ids, racks, replica_limit=limit), grown)


def test_a_broker_that_must_be_in_every_row_is_found_in_every_row() -> None:
    """Brokers 3, 4 and 5 have room for just the rows that must have them: nearly every deal is wrong."""
    partitions = 5_000
    ids = np.arange(10, dtype=np.int32)
    placement = place_round_robin(ClusterView(ids, (None,) * 10), partitions, 2, 0, 0)
    has_3, has_4 = (placement == 3).any(axis=1), (placement == 4).any(axis=1)
    room = np.zeros(10, dtype=np.int64)
    room[3:6] = (~has_3).sum(), (has_3 & ~has_4).sum(), (has_3 & has_4).sum()
    view = ClusterView(ids, (None,) * 10, replica_counts=LIMIT * LIMIT - room, replica_limit=LIMIT * LIMIT)
    grown = grow(view, placement, 3, JavaRandom(1))
    assert grown[:, 2].tolist() == np.where(has_3, np.where(has_4, 5, 4), 3).tolist()


@pytest.mark.parametrize("seed", range(12))
def test_new_racks_are_exhausted_before_repeated_racks_are_used(seed: int) -> None:
    """A deal may leave row 1 with a new rack still to be found; whoever dealt it an old one would lose that."""
    rows = Rows(
        small_cluster([0, 0, 1, 1, 2, 0], list("bccabc"), LIMIT),
        np.array([[UNKNOWN, UNKNOWN + 1], [11, -1]], dtype=np.int32),
    )
    grown = grow(rows.view, rows.placement, 3, JavaRandom(seed)) - 10
    assert worth(rows.growing(3), [grown[0, 2:].tolist(), grown[1, 1:].tolist()]) == best_growth(rows.growing(3))


def test_rows_with_enough_replicas_do_not_change() -> None:
    view = small_cluster([0, 0, 0], limit=LIMIT)
    assert grow(view, np.array([[11, 10], [12, 11]], dtype=np.int32), 2, JavaRandom(0)).tolist() == [[11, 10], [12, 11]]
    assert grow(view, np.array([[11, -1], [12, -1]], dtype=np.int32), 1, JavaRandom(0)).tolist() == [[11], [12]]


def test_a_new_replica_moves_to_make_room_on_a_full_broker() -> None:
    """Row 0 can have 11 or 12, row 1 only 11: whichever comes first, both are served."""
    view = small_cluster([0, 1, 1], limit=LIMIT)
    for seed in range(8):
        grown = grow(view, np.array([[10], [12]], dtype=np.int32), 2, JavaRandom(seed))
        assert grown.tolist() == [[10, 12], [12, 11]]


def test_replicas_that_do_not_fit_are_reported_with_their_number() -> None:
    """Both rows want broker 11, which has room for one."""
    view = small_cluster([0, 1, 1], limit=LIMIT)
    with pytest.raises(CannotPlace) as refused:
        grow(view, np.array([[10, -1], [10, 12]], dtype=np.int32), 3, JavaRandom(0))
    assert refused.value.reason is CannotPlaceReason.POLICY_VIOLATION
    assert refused.value.message == (
        "No room for 1 of 3 new replicas, in 1 of 2 partitions: max.broker.partitions=100 leaves 1 of 3 live brokers "
        "without room, and the others together with room for 2 (max.partitions=9223372036854775807 is not exceeded)."
    )


def test_too_few_brokers_are_reported_before_limits() -> None:
    view = small_cluster([0, 0], limit=LIMIT)
    with pytest.raises(CannotPlace) as refused:
        grow(view, np.array([[10], [UNKNOWN]], dtype=np.int32), 3, JavaRandom(0))
    assert refused.value.reason is CannotPlaceReason.INVALID_REPLICATION_FACTOR
    assert refused.value.message == (
        "Replication factor: 3 larger than available brokers: 2 live ones, and 0 others in row 0; "
        "too few for 1 of 2 rows."
    )


@pytest.mark.parametrize(
    ("partitions", "replication_factor", "reason", "number"),
    [
        (1, 2**31, CannotPlaceReason.INVALID_REPLICATION_FACTOR, "2147483648"),
        (1, 10**30, CannotPlaceReason.INVALID_REPLICATION_FACTOR, str(10**30)),
        (0, 10**30, CannotPlaceReason.INVALID_PARTITIONS, "100000000"),
        (1_000_001, 100, CannotPlaceReason.INVALID_PARTITIONS, "100000100"),
    ],
)
def test_huge_sizes_are_refused_before_allocation(
    partitions: int, replication_factor: int, reason: CannotPlaceReason, number: str
) -> None:
    view = small_cluster([1] * 100, limit=LIMIT)
    with pytest.raises(CannotPlace) as refused:
        grow(view, np.full((partitions, 1), 10, dtype=np.int32), replication_factor, JavaRandom(0))
    assert refused.value.reason is reason
    assert number in refused.value.message


@pytest.mark.parametrize(
    ("rows", "replication_factor", "complaint"),
    [
        ([[10, 11], [10, -1]], 1, r"1 row with more replicas than the replication factor 1, first row 0: \[10, 11\]"),
        ([[10, 11], [12, 12]], 2, r"1 row with a broker twice, first row 1: \[12, 12\]"),
        ([[10]], 0, "at least 1, not 0"),
        ([[10]], -3, "at least 1, not -3"),
        ([[2**31]], 2, "2147483648"),
        ([10, 11], 2, r"shape \(2,\)"),
        ([[10.0]], 2, "float64"),
    ],
)
def test_invalid_rows_raise_value_error(rows: list[list[int]], replication_factor: int, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        grow(small_cluster([1, 1, 1], limit=LIMIT), np.array(rows), replication_factor, JavaRandom(0))


def test_an_empty_placement_grows_to_an_empty_one() -> None:
    view = small_cluster([1, 1], limit=LIMIT)
    assert grow(view, np.zeros((0, 2), dtype=np.int32), 5, JavaRandom(0)).shape == (0, 5)
    assert shrink(view, np.zeros((0, 5), dtype=np.int32), 2).shape == (0, 2)


@given(shrinkings())
def test_shrinking_agrees_with_a_plain_loop(shrinking: Shrinking) -> None:
    (view, placement), replication_factor, leaders = shrinking
    before = placement.tolist()
    shrunk = shrink(view, placement, replication_factor, None if leaders is None else np.array(leaders, np.int32))
    assert shrunk.dtype == np.int32
    assert shrunk.tolist() == shrink_one_by_one(before, replication_factor, shrinking.leading(), shrinking.rows.known())
    assert placement.tolist() == before


def racked(headroom: list[int], racks: str, **facts: object) -> ClusterView:
    return small_cluster(headroom, list(racks), LIMIT, **facts)


PLENTY = [5] * 4


@pytest.mark.parametrize(
    ("view", "row", "leader", "kept"),
    [
        (racked(PLENTY, "aabb"), [10, 12, -1], None, [10, 12]),
        (racked(PLENTY, "aabb"), [-1, 10, 12], None, [10, 12]),
        (racked(PLENTY, "aabb"), [10, -1, -2], None, [10, -1]),
        (racked(PLENTY, "abcd", fenced=np.array([False, True, False, False])), [10, 11, 12], None, [10, 12]),
        (racked(PLENTY, "abcd"), [10, UNKNOWN, 12], None, [10, 12]),
        (racked([5, -3, 5, 5], "abcd", fenced=np.array([False, True, True, False])), [10, 11, 12], None, [10, 11]),
        (
            racked([5, -3, 5, 5], "abcd", fenced=np.array([False, True, False, False])),
            [10, 11, UNKNOWN],
            None,
            [10, 11],
        ),
        (racked(PLENTY, "aabb"), [10, 11, 12], None, [10, 12]),
        (racked(PLENTY, "aabb"), [10, 11, 12], 11, [11, 12]),
        (racked(PLENTY, "abbb"), [10, 11, 12, 13], None, [10, 11]),
        (racked([5, -1, 5, 5], "abbb"), [10, 11, 12, 13], None, [10, 12]),
        (racked(PLENTY, "abcd"), [10, 11, 12], None, [10, 11]),
        (racked(PLENTY, "abcd"), [10, 11, 12], 12, [10, 12]),
        (racked(PLENTY, "abcd"), [10, 11, 12], -1, [10, 11]),
        (racked(PLENTY, "abcd", fenced=np.array([True] * 4)), [10, 11], 11, [11]),
        (racked(PLENTY, "aabc"), [10, 11, 12, 13], 12, [10, 12]),
    ],
    ids=[
        "a placeholder goes before a replica",
        "wherever the placeholder stands",
        "the last placeholder goes first",
        "then a replica on a fenced broker",
        "or on a broker that nobody knows",
        "a fenced broker over its limit goes no sooner than another fenced one",
        "nor sooner than one that nobody knows",
        "then one whose rack the row has twice",
        "unless it leads",
        "from the end",
        "but first on a broker over its limit",
        "then any, from the end",
        "unless it leads, again",
        "nobody leads",
        "the leader goes last even where all are fenced",
        "a rack held twice is held once when one of the two has gone",
    ],
)
def test_the_order_in_which_replicas_are_dropped(
    view: ClusterView, row: list[int], leader: int | None, kept: list[int]
) -> None:
    leaders = None if leader is None else np.array([leader], dtype=np.int32)
    assert shrink(view, np.array([row], dtype=np.int32), len(kept), leaders).tolist() == [kept]


def test_replicas_are_dropped_from_a_broker_until_it_is_within_its_limit() -> None:
    """11 is over by two, 12 by one; the rows that come after them give up their last replica as ever."""
    view = racked([5, -2, -1, 5], "abbb")
    placement = np.array([[10, 11, 12, 13]] * 5, dtype=np.int32)
    kept = [[10, 11, 13], [10, 12, 13], [10, 12, 13], [10, 11, 12], [10, 11, 12]]
    assert shrink(view, placement, 3).tolist() == kept


def test_drops_of_earlier_rounds_count_for_the_limit() -> None:
    """12 and 11 are over by one; when each has been relieved once, the last replica goes as ever."""
    placement = np.array([[10, 11, 12, 13]] * 2, dtype=np.int32)
    assert shrink(racked([5, -1, -1, 5], "abbb"), placement, 2).tolist() == [[10, 11], [10, 12]]


def test_placeholders_are_no_brokers_and_may_repeat() -> None:
    view = racked(PLENTY, "abcd")
    placement = np.array([[10, -1, -1]], dtype=np.int32)
    assert grow(view, placement, 1, JavaRandom(0)).tolist() == shrink(view, placement, 1).tolist() == [[10]]


def test_a_leader_is_dropped_only_if_nothing_else_is_left() -> None:
    view = racked(PLENTY, "aaaa")
    placement = np.array([[10, 11, 12, 13]] * 4, dtype=np.int32)
    leaders = np.array([10, 11, 12, 13], dtype=np.int32)
    assert shrink(view, placement, 1, leaders).tolist() == [[10], [11], [12], [13]]


@pytest.mark.parametrize(
    ("replication_factor", "leaders", "complaint"),
    [
        (0, None, "at least 1, not 0"),
        (3, None, "replication factor 3 is above that of the rows, 2"),
        (1, [10], r"2 broker ids, not int64 of shape \(1,\)"),
        (1, [10, 12], "1 row without the given leader, first row 1: 12"),
        (1, [10.0, 10.0], "float64"),
    ],
)
def test_invalid_arguments_of_shrink_raise_value_error(
    replication_factor: int, leaders: list[int] | None, complaint: str
) -> None:
    placement = np.array([[10, 11], [10, 11]], dtype=np.int32)
    with pytest.raises(ValueError, match=complaint):
        shrink(racked(PLENTY, "abcd"), placement, replication_factor, None if leaders is None else np.array(leaders))
