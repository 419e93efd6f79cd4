"""Random ids: which values are excluded."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.random_ids import new_uuid, random_bytes


@given(st.lists(st.binary(min_size=16, max_size=16), min_size=1))
def test_an_id_never_starts_with_a_dash_and_is_a_random_one_by_its_bits(drawn: list[bytes]) -> None:
    source = iter([*drawn, bytes([0xFB]) * 16, bytes(16)])
    made = new_uuid(lambda _count: next(source))
    assert not str(made).startswith("-")
    assert (made[6] >> 4, made[8] >> 6) == (4, 2)


def test_ids_that_would_start_with_a_dash_are_drawn_again() -> None:
    source = iter([bytes([0xFB]) * 16, bytes(16)])
    assert str(new_uuid(lambda _count: next(source))).startswith("A")


def test_ids_come_from_the_raw_words_of_the_generator_low_byte_first() -> None:
    """So one seed gives the same ids on every machine and with every NumPy 2."""
    words = np.random.PCG64([7, 1]).random_raw(4).tolist()
    drawn = random_bytes(np.random.Generator(np.random.PCG64([7, 1])))
    assert drawn(16) + drawn(16) == b"".join(word.to_bytes(8, "little") for word in words)
