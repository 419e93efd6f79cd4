"""Properties of round robin: it agrees with the plain reference, rows are valid, and errors have their numbers."""

import random
from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from klamm.assignment import CannotPlace, CannotPlaceReason, ClusterView, place_round_robin
from klamm.assignment.kafka.round_robin import FEW_BROKERS, FEW_REPLICAS
from tests.assignment.reference import place_one_by_one
from tests.assignment.strategies import seeded

# A surrogate pair sorts below U+E000..U+FFFF in Java and above it in Python.
RACK_NAMES = ["", "a", "b", "B", "rack-10", "rack-9", "ä", "\U0001f600", "\uff5e", "\ud800"]


class Asked(NamedTuple):
    brokers: list[tuple[int, str | None]]
    partitions: int
    rf: int
    start: int
    shift: int
    first_partition: int

    @property
    def view(self) -> ClusterView:
        ids, racks = zip(*self.brokers, strict=True)
        return ClusterView(np.array(ids), racks)

    def place(self) -> list[list[int]]:
        rows: list[list[int]] = place_round_robin(
            self.view, self.partitions, self.rf, self.start, self.shift, self.first_partition
        ).tolist()
        return rows


@st.composite
def asked(draw: st.DrawFn, racked: bool | None = None) -> Asked:
    """Up to 24 brokers, in racks of any sizes or without; and few rows or many, from any partition on."""
    chance = draw(seeded())
    size = chance.choice((1, 2, 3, *(chance.randint(4, 24) for _ in range(4))))
    ids = chance.sample(range(2**31), size)
    with_racks = chance.random() < 0.6 if racked is None else racked
    names = chance.sample(RACK_NAMES, chance.choice((1, 2, 3, 4, len(RACK_NAMES))))
    return Asked(
        brokers=[(broker_id, chance.choice(names) if with_racks else None) for broker_id in ids],
        partitions=chance.randint(1, 3 * size + 5),
        rf=chance.choice((chance.randint(1, size), min(size, 3))),
        start=chance.choice((chance.randint(0, 2 * size), chance.randint(0, 2**62))),
        shift=chance.choice((chance.randint(0, 2 * size), chance.randint(0, 2**62))),
        first_partition=chance.choice((0, size, chance.randint(0, 3 * size), chance.randint(0, 2**30))),
    )


@given(asked())
# One rack with nearly everybody: followers are found in round 0 only, from anywhere in the ring's tail.
@example(Asked([(i, "a" if i < 17 else "bcd"[i - 17]) for i in range(20)], 65, 6, 3, 5, 0))
# Racks of four sizes, and more replicas than racks.
@example(Asked([(i, "abcd"[min(3, i // 2 % 5 % 4)]) for i in range(20)], 85, 20, 0, 1, 7))
def test_round_robin_agrees_with_a_plain_loop(asked: Asked) -> None:
    assert asked.place() == place_one_by_one(*asked)


@given(
    st.sampled_from([49, 100, FEW_BROKERS, FEW_BROKERS + 1]),
    st.integers(0, 4),
    st.integers(1, 8),
    st.integers(1, 6),
    st.integers(0, 300),
    st.integers(0, 300),
)
def test_few_rows_on_many_brokers_are_the_first_of_many_rows(
    brokers: int, racks: int, partitions: int, rf: int, start: int, shift: int
) -> None:
    """Few are placed one by one, many as arrays. The racks are uneven: each has half of those that are left."""
    of_rack = [str(min(racks, (broker + 1).bit_length())) if racks else None for broker in range(brokers)]
    few = Asked([(100 + broker, of_rack[broker]) for broker in range(brokers)], partitions, rf, start, shift, 0)
    many = few._replace(partitions=FEW_REPLICAS + 1)
    assert few.place() == many.place()[:partitions]


@given(asked())
def test_brokers_of_a_row_are_distinct_and_known(asked: Asked) -> None:
    known = {broker_id for broker_id, _ in asked.brokers}
    for row in asked.place():
        assert len(row) == len(set(row)) == asked.rf
        assert set(row) <= known


@given(asked())
def test_leaders_are_even_within_one(asked: Asked) -> None:
    led = Counter(row[0] for row in asked.place())
    counts = [led[broker_id] for broker_id, _ in asked.brokers]
    assert max(counts) - min(counts) <= 1


@given(asked(racked=True))
def test_a_row_spans_as_many_racks_as_it_can(asked: Asked) -> None:
    rack_of = dict(asked.brokers)
    most = min(asked.rf, len(set(rack_of.values())))
    assert all(len({rack_of[broker_id] for broker_id in row}) == most for row in asked.place())


@given(asked(racked=True), st.randoms(use_true_random=False))
def test_with_racks_the_order_of_the_brokers_does_not_matter(asked: Asked, dice: random.Random) -> None:
    shuffled = asked.brokers.copy()
    dice.shuffle(shuffled)
    assert asked._replace(brokers=shuffled).place() == asked.place()


@given(asked(), st.data())
def test_placing_in_two_parts_with_the_shift_carried_on_is_placing_at_once(asked: Asked, data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, asked.partitions))
    at_once = asked.place()
    carried = asked.shift + sum(
        partition > 0 and partition % len(asked.brokers) == 0
        for partition in range(asked.first_partition, asked.first_partition + cut)
    )
    first = asked._replace(partitions=cut).place()
    rest: list[list[int]] = []
    if cut < asked.partitions:
        rest = asked._replace(
            partitions=asked.partitions - cut, shift=carried, first_partition=asked.first_partition + cut
        ).place()
    assert first + rest == at_once


def test_chunks_do_not_change_a_placement() -> None:
    brokers: list[tuple[int, str | None]] = [(broker_id, f"rack-{broker_id % 7}") for broker_id in range(50)]
    assert Asked(brokers, 100_000, 3, 11, 4, 3).place() == place_one_by_one(brokers, 100_000, 3, 11, 4, 3)


BROKERS_3 = ClusterView(np.arange(3, dtype=np.int32), (None,) * 3)


@pytest.mark.parametrize(
    ("partitions", "rf", "first_partition", "reason", "numbers"),
    [
        (0, 3, 0, CannotPlaceReason.INVALID_PARTITIONS, ["0"]),
        (-1, -1, 0, CannotPlaceReason.INVALID_PARTITIONS, ["0"]),
        (1, 0, 0, CannotPlaceReason.INVALID_REPLICATION_FACTOR, ["0"]),
        (1, -32768, 0, CannotPlaceReason.INVALID_REPLICATION_FACTOR, ["0"]),
        (1, 32767, 0, CannotPlaceReason.INVALID_REPLICATION_FACTOR, ["32767", "3"]),
        (2**31 - 1, 3, 0, CannotPlaceReason.INVALID_PARTITIONS, ["6442450941", "100000000"]),
        (10**18, 3, 0, CannotPlaceReason.INVALID_PARTITIONS, ["100000000"]),
        (10, 3, 2**31 - 5, CannotPlaceReason.INVALID_PARTITIONS, ["2147483643", "2147483646"]),
    ],
)
def test_impossible_placements_are_refused_with_their_numbers(
    partitions: int, rf: int, first_partition: int, reason: CannotPlaceReason, numbers: list[str]
) -> None:
    with pytest.raises(CannotPlace) as refused:
        place_round_robin(BROKERS_3, partitions, rf, 0, 0, first_partition)
    assert refused.value.reason is reason
    assert all(number in refused.value.message for number in numbers)


def test_some_racks_known_and_some_not_is_an_error_of_its_own() -> None:
    with pytest.raises(CannotPlace) as refused:
        place_round_robin(ClusterView(np.arange(3, dtype=np.int32), ("a", None, "b")), 1, 1, 0, 0)
    assert refused.value.reason is CannotPlaceReason.MIXED_RACKS


@pytest.mark.parametrize(("start", "shift"), [(-1, 0), (0, -1)])
def test_a_negative_start_or_shift_raises_value_error(start: int, shift: int) -> None:
    with pytest.raises(ValueError, match="-1"):
        place_round_robin(BROKERS_3, 1, 1, start, shift)


def test_the_last_partition_id_there_is_can_be_placed() -> None:
    assert place_round_robin(BROKERS_3, 1, 3, 0, 0, 2**31 - 2).tolist() == place_one_by_one(
        [(0, None), (1, None), (2, None)], 1, 3, 0, 0, 2**31 - 2
    )
