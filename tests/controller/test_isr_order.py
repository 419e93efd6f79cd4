"""The order of the ISRs that leaders ask for, compared with recordings of the sets of Apache Kafka 4.3's brokers
(tests/golden/isr_order)."""

import gzip
from pathlib import Path
from typing import Final

import numpy as np

from klamm.controller.transitions.isr_order import listed_grown_isrs, listed_isr

GOLDEN: Final = Path(__file__).parent.parent / "golden" / "isr_order" / "isrs.txt.gz"
CASES: Final = [
    [tuple(int(one) for one in field.split(",") if one) for field in line.split("|")]
    for line in gzip.decompress(GOLDEN.read_bytes()).decode().splitlines()
]


def test_a_grown_isr_is_listed_as_kafkas_leaders_list_it() -> None:
    assert len(CASES) == 1_000
    for isr, joining, grown, _, _ in CASES:
        assert listed_isr((*isr, *joining), isr) == grown


def test_grown_isrs_of_many_partitions_are_listed_alike() -> None:
    by_length: dict[int, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {}
    for isr, joining, grown, _, _ in CASES:
        by_length.setdefault(len(grown), []).append(((*joining, *isr), grown))
    assert len(by_length) > 20
    for cases in by_length.values():
        isrs, grown = zip(*cases, strict=True)
        listed = listed_grown_isrs(np.array(isrs, dtype=np.int32))
        assert listed.dtype == np.int32
        assert np.array_equal(listed, np.array(grown))


def test_a_shrunk_isr_is_listed_as_kafkas_leaders_list_it() -> None:
    assert sum(bool(leaving) for *_, leaving, _ in CASES) > 500
    for isr, _, _, leaving, shrunk in CASES:
        if leaving:
            assert listed_isr([one for one in isr if one not in leaving], isr) == shrunk


def test_an_isr_with_the_same_members_keeps_its_order() -> None:
    assert listed_isr((1, 2, 3), (3, 1, 2)) == (3, 1, 2)


def test_an_isr_that_grows_and_shrinks_at_once_is_listed_as_one_that_grows() -> None:
    assert listed_isr((2, 9, 16), (2, 9, 3)) == (16, 9, 2)
