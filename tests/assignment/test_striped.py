"""Striped placement compared with recorded results of Apache Kafka's StripedReplicaPlacer, and general properties.

The recordings (tests/golden/placement/) have broker ids and random draws.
"""

import hashlib
import json
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from klamm.assignment import CannotPlace, CannotPlaceReason, ClusterView, JavaRandom
from klamm.assignment.kafka import striped, stripes_in_bulk
from klamm.assignment.kafka.java_hash_map import hash_map_order
from klamm.assignment.kafka.striped import place_striped
from klamm.assignment.kafka.stripes_in_bulk import is_regular
from klamm.assignment.random_source import random_source
from tests.assignment.strategies import seeded

GOLDEN = Path(__file__).parent.parent / "golden" / "placement"
RACK_NAMES = [None, "", "a", "b", "rack-10", "rack-9", "ä", "\U0001f600", "\uff5e", "\ud800"]


class RecordingRandom:
    """A JavaRandom that writes down what was drawn."""

    def __init__(self, seed: int) -> None:
        self._random = JavaRandom(seed)
        self.draws: list[list[int]] = []

    def next_int(self, bound: int) -> int:
        drawn = self._random.next_int(bound)
        self.draws.append([bound, drawn])
        return drawn


def cases(name: str) -> list[Any]:
    with (GOLDEN / name).open(encoding="utf-8") as lines:
        return [pytest.param(json.loads(line), id=f"{name}-{number}") for number, line in enumerate(lines, start=1)]


ALL_CASES = cases("striped.jsonl") + cases("striped-more.jsonl")


def view_of(brokers: list[Any]) -> ClusterView:
    return ClusterView(
        broker_ids=np.array([broker_id for broker_id, _, _ in brokers], dtype=np.int32),
        racks=tuple(rack for _, rack, _ in brokers),
        fenced=np.array([fenced for _, _, fenced in brokers], dtype=np.bool_),
    )


def sha256(numbers: Any) -> str:
    return hashlib.sha256(np.asarray(numbers).astype("<i4").tobytes()).hexdigest()


@pytest.mark.parametrize("case", ALL_CASES)
def test_striped_places_draws_and_refuses_as_kafka_did(case: dict[str, Any]) -> None:
    view, source = view_of(case["usableBrokers"]), RecordingRandom(case["seed"])
    for call in case["calls"]:
        source.draws.clear()
        requested = call["spec"]["numPartitions"], call["spec"]["numReplicas"]
        if "error" in call:
            with pytest.raises(CannotPlace) as refused:
                place_striped(view, *requested, source)
            assert refused.value.reason is CannotPlaceReason.INVALID_REPLICATION_FACTOR
            assert refused.value.message == call["error"]["message"]
            assert call["error"]["class"].endswith(".InvalidReplicationFactorException")
        else:
            placed = place_striped(view, *requested, source)
            assert placed.dtype == np.int32
            assert placed.shape == requested
            if "replicas" in call:
                assert placed.tolist() == call["replicas"]
            else:
                assert sha256(placed) == call["replicasSha256"]
        if "draws" in call:
            assert source.draws == call["draws"]
        else:
            assert sha256(source.draws) == call["drawsSha256"]


@pytest.mark.parametrize("case", ALL_CASES)
def test_racks_are_in_the_order_of_kafkas_hash_map(case: dict[str, Any]) -> None:
    racks = list(dict.fromkeys(rack for _, rack, _ in case["usableBrokers"]))
    assert [racks[index] for index in hash_map_order(racks)] == case["rackMapOrder"]


def test_the_golden_files_have_all_cases() -> None:
    assert (len(cases("striped.jsonl")), len(cases("striped-more.jsonl"))) == (60, 23)


def test_a_tree_bin_does_not_change_the_order_of_other_racks() -> None:
    """Eleven racks of one hash code: JDK 17 had them in another order each time, the eight others as below."""
    racks = ["".join(halves) for halves in product(("Aa", "BB"), repeat=4)][:11] + [f"rack-{n}" for n in range(8)]
    assert hash_map_order(racks) == [*range(11), 18, 17, 14, 13, 16, 15, 12, 11]


class Asked(NamedTuple):
    brokers: list[tuple[int, str | None, bool]]
    partitions: int
    replication_factor: int
    seed: int

    @property
    def unfenced(self) -> set[int]:
        return {broker_id for broker_id, _, fenced in self.brokers if not fenced}

    @property
    def rack_of(self) -> dict[int, str | None]:
        return {broker_id: rack for broker_id, rack, _ in self.brokers}

    def place(self) -> list[list[int]]:
        rows: list[list[int]] = place_striped(
            view_of(self.brokers), self.partitions, self.replication_factor, JavaRandom(self.seed)
        ).tolist()
        return rows


@st.composite
def asked(draw: st.DrawFn) -> Asked:
    """Up to twelve brokers, one of them unfenced at least, in racks of any sizes; no rack is one of these."""
    chance = draw(seeded())
    size, fenced = chance.randint(1, 12), chance.choice((0, 0, 0.2, 0.6))
    ids = chance.sample(range(31 if chance.random() < 0.8 else 2**31), size)
    racks = chance.sample(RACK_NAMES, chance.choice((1, 2, 3, 4, len(RACK_NAMES))))
    leader = chance.choice(ids)
    return Asked(
        brokers=[(broker, chance.choice(racks), chance.random() < fenced and broker != leader) for broker in ids],
        partitions=chance.randint(1, 3 * size + 5),
        replication_factor=chance.choice((chance.randint(1, size), min(size, 3))),
        seed=chance.choice((chance.randint(-(2**63), 2**63 - 1), chance.randint(0, 20))),
    )


ONE_EACH = Asked([(n, f"r{n}", False) for n in range(4)], 40, 2, 0)
"""Racks that are passed over after a shuffle, for they were last asked just as long after the one before."""
FENCED_BESIDE = Asked([(n, f"r{n % 4}", n >= 4) for n in range(8)], 40, 3, 4)
"""The same, and the rack that is passed over gives a fenced broker instead."""
MOSTLY_FENCED = Asked([(n, "ab"[n % 2], n > 0) for n in range(6)], 30, 4, 1)
"""One unfenced broker, so that nothing is ever shuffled."""


@given(asked())
@example(ONE_EACH)
@example(FENCED_BESIDE)
@example(MOSTLY_FENCED)
def test_brokers_of_a_row_are_distinct_and_known_and_an_unfenced_one_leads(asked: Asked) -> None:
    rows = asked.place()
    assert len(rows) == asked.partitions
    for row in rows:
        assert len(set(row)) == len(row) == asked.replication_factor
        assert set(row) <= asked.rack_of.keys()
        assert row[0] in asked.unfenced


@given(asked())
@example(ONE_EACH)
@example(FENCED_BESIDE)
@example(MOSTLY_FENCED)
def test_a_row_spans_as_many_racks_as_it_can(asked: Asked) -> None:
    """Also after a shuffle, when racks may be passed over: never so many that another must serve twice."""
    most = min(asked.replication_factor, len(set(asked.rack_of.values())))
    assert all(len({asked.rack_of[broker_id] for broker_id in row}) == most for row in asked.place())


@given(asked())
@example(FENCED_BESIDE)
def test_until_the_first_shuffle_a_rack_gives_all_its_unfenced_brokers_before_a_fenced_one(asked: Asked) -> None:
    for row in asked.place()[: len(asked.unfenced)]:
        with_fenced = {asked.rack_of[broker_id] for broker_id in row if broker_id not in asked.unfenced}
        assert {broker_id for broker_id in asked.unfenced if asked.rack_of[broker_id] in with_fenced} <= set(row)


@given(st.data(), st.integers(1, 5), st.integers(2, 5), st.integers(1, 3), st.integers(0, 2**40))
def test_racks_of_one_size_give_all_their_brokers_equally_often_between_two_shuffles(
    data: st.DataObject, racks: int, size: int, cycles: int, seed: int
) -> None:
    replication_factor = data.draw(st.integers(1, racks))
    brokers: list[tuple[int, str | None, bool]] = [(n, f"rack-{n % racks}", False) for n in range(racks * size)]
    rows = Asked(brokers, cycles * len(brokers), replication_factor, seed).place()
    times = Counter(broker_id for row in rows for broker_id in row)
    assert times == dict.fromkeys(range(len(brokers)), cycles * replication_factor)


@given(asked(), st.data())
def test_more_partitions_do_not_change_the_first_ones(asked: Asked, data: st.DataObject) -> None:
    partitions = data.draw(st.integers(0, asked.partitions))
    assert asked._replace(partitions=partitions).place() == asked.place()[:partitions]


@given(asked(), st.data())
def test_only_the_order_of_racks_in_the_view_matters(asked: Asked, data: st.DataObject) -> None:
    racks = list(dict.fromkeys(rack for _, rack, _ in asked.brokers))
    shuffled = data.draw(st.permutations(asked.brokers))
    by_rack = sorted(shuffled, key=lambda broker: racks.index(broker[1]))
    assert asked._replace(brokers=by_rack).place() == asked.place()


ROOMY: Final = Asked([(n, f"r{n % 3}", n == 11) for n in range(12)], 100, 5, 3)
"""More replicas than racks, and one broker fenced."""
FEW_OF_THE_RACKS: Final = Asked([(n, f"r{n % 5}", False) for n in range(20)], 90, 2, 1)


@given(asked(), st.integers(0, 80), st.sampled_from((JavaRandom, np.random.default_rng)), st.integers(1, 40))
@example(ROOMY, 0, JavaRandom, 7)
@example(FEW_OF_THE_RACKS, 0, np.random.default_rng, 9)
@example(ONE_EACH, 0, JavaRandom, 40)
@example(FENCED_BESIDE, 40, JavaRandom, 40)
@example(MOSTLY_FENCED, 10, np.random.default_rng, 3)
def test_placing_in_bulk_agrees_with_placing_one_by_one(
    asked: Asked, more: int, rng: type[JavaRandom], cells: int
) -> None:
    """In chunks of any size; and what is drawn afterwards is the same, too."""
    view, placed, next_draws = view_of(asked.brokers), [], []
    for few_replicas in (0, 2**31):
        source = random_source(rng(asked.seed % 2**63))
        with (
            patch.object(striped, "FEW_REPLICAS", few_replicas),
            patch.object(stripes_in_bulk, "_MAX_CHUNK_CELLS", cells),
        ):
            rows = place_striped(view, asked.partitions + more, asked.replication_factor, source)
        placed.append(rows.tolist())
        next_draws.append([source.next_int(1000) for _ in range(3)])
    assert placed[0] == placed[1]
    assert next_draws[0] == next_draws[1]


@pytest.mark.parametrize(
    ("unfenced", "replication_factor", "regular"),
    [
        ([2, 2, 2], 3, True),
        ([2, 2, 2], 6, True),
        ([2, 2, 1], 4, False),  # the third rack may be passed over
        ([3, 0, 3], 2, False),
        ([1], 1, False),  # never shuffled
        ([4], 4, True),
        ([1, 1, 1, 1], 3, True),
        ([1, 1, 1, 1], 2, False),  # a rack may be asked as long after one shuffle as before
        ([2, 1, 1, 1], 2, False),
        ([2, 2, 1, 1], 2, True),
    ],
)
def test_bulk_placement_is_used_if_no_rack_is_skipped(
    unfenced: list[int], replication_factor: int, regular: bool
) -> None:
    assert is_regular(unfenced, replication_factor) is regular


def test_a_numpy_generator_is_accepted_and_its_seed_matters() -> None:
    view = view_of([[broker_id, "abc"[broker_id % 3], False] for broker_id in range(9)])
    placed = [
        place_striped(view, 30, 3, random_source(np.random.Generator(np.random.PCG64(seed)))).tolist()
        for seed in (1, 1, 2)
    ]
    assert placed[0] == placed[1]
    assert placed[0] != placed[2]


@pytest.mark.parametrize(
    ("partitions", "replication_factor", "reason", "numbers"),
    [
        (-1, 1, CannotPlaceReason.INVALID_PARTITIONS, ["-1"]),
        (-1, 0, CannotPlaceReason.INVALID_REPLICATION_FACTOR, ["0"]),
        (1, 32767, CannotPlaceReason.INVALID_REPLICATION_FACTOR, ["32767", "3"]),
        (2**31 - 1, 3, CannotPlaceReason.INVALID_PARTITIONS, ["6442450941", "100000000"]),
        (10**18, 1, CannotPlaceReason.INVALID_PARTITIONS, ["100000000"]),
    ],
)
def test_impossible_placements_are_refused_with_their_numbers(
    partitions: int, replication_factor: int, reason: CannotPlaceReason, numbers: list[str]
) -> None:
    view = view_of([[1, None, False], [2, None, False], [3, None, True]])
    with pytest.raises(CannotPlace) as refused:
        place_striped(view, partitions, replication_factor, JavaRandom(0))
    assert refused.value.reason is reason
    assert all(number in refused.value.message for number in numbers)
