"""The iteration order of Java's HashMap, compared with a plain simulation of its table, entry by entry.

test_striped.py compares it with recordings of Kafka, for the racks in these.
"""

from functools import reduce
from itertools import product
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from klamm.assignment.kafka.java_hash_map import hash_map_order
from tests.assignment.strategies import seeded

OF_ONE_HASH = ["".join(halves) for halves in product(("Aa", "BB"), repeat=4)]
"""Sixteen names of the same hash code: 31 · "A" + "a" is 31 · "B" + "B"."""


def java_hash(rack: str | None) -> int:
    """`HashMap.hash(Optional.hashCode)`: the string's hash over its UTF-16 units, the high half mixed into the low."""
    raw = b"" if rack is None else rack.encode("utf-16-be", "surrogatepass")
    units = [int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2)]
    code = reduce(lambda before, unit: (31 * before + unit) % 2**32, units, 0)
    return code ^ code >> 16


def visited(racks: list[str | None]) -> list[str | None]:
    """The racks as a table of chains has them, which doubles as the documentation says; no chain becomes a tree."""
    bins: list[list[str | None]] = [[] for _ in range(16)]

    def doubled() -> list[list[str | None]]:
        larger: list[list[str | None]] = [[] for _ in range(2 * len(bins))]
        for chain in bins:
            for rack in chain:
                larger[java_hash(rack) % len(larger)].append(rack)
        return larger

    for count, rack in enumerate(racks, start=1):
        chain = bins[java_hash(rack) % len(bins)]
        chain.append(rack)
        if len(chain) > 8 and len(bins) < 64:
            bins = doubled()
        if count > len(bins) * 0.75:
            bins = doubled()
    return [rack for chain in bins for rack in chain]


@st.composite
def racks(draw: st.DrawFn) -> list[str | None]:
    """Distinct names, short and long, of any characters; in some cases many of one hash code."""
    chance: Random = draw(seeded())
    letters = chance.choice(("abcdefghijklmnop", "AQaq1!", "\u0141\uffff\U0001f600\ud800é~"))
    some = ["".join(chance.choices(letters, k=chance.randint(0, 9))) for _ in range(chance.randint(1, 60))]
    alike = OF_ONE_HASH[: chance.choice((0, 0, 8, 9, 10))]
    names: list[str | None] = [*some, *alike, *chance.choice(([], [None]))]
    names = list(dict.fromkeys(names))
    chance.shuffle(names)
    return names


@given(racks())
@example([f"rack-{number}" for number in range(12)])
@example([f"rack-{number}" for number in range(13)])
def test_racks_are_in_the_order_of_a_simulated_hash_map(racks: list[str | None]) -> None:
    assert [racks[index] for index in hash_map_order(racks)] == visited(racks)


@pytest.mark.parametrize(("colliding", "first"), [(8, "Q"), (9, "A")])
def test_a_table_doubles_when_a_ninth_name_comes_to_one_bin(colliding: int, first: str) -> None:
    """Q and A share a bin of sixteen, and are apart in 32."""
    names: list[str | None] = ["Q", "A", *OF_ONE_HASH[:colliding]]
    order = [names[index] for index in hash_map_order(names)]
    assert next(name for name in order if name in ("Q", "A")) == first


@pytest.mark.parametrize(("count", "first"), [(12, "Q"), (13, "A")])
def test_a_table_doubles_when_it_is_more_than_three_quarters_full(count: int, first: str) -> None:
    names: list[str | None] = ["Q", "A", *"BCDEFGHIJKLM"][:count]
    order = [names[index] for index in hash_map_order(names)]
    assert next(name for name in order if name in ("Q", "A")) == first
