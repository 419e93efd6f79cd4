"""Numbers at the ends of their ranges are encoded or refused, single ones, in arrays and as columns."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from klamm.protocol import Columns, Message, ProtocolError, Ragged, decode_message, encode_message
from klamm.protocol.codec import columns as column_builder
from klamm.protocol.codec.arrays import BUILT_AT_ONCE
from klamm.protocol.codec.columns import build_rows
from klamm.protocol.codec.schema import schema
from klamm.protocol.codec.streams import Buffer
from tests.protocol.probes import RANGES, Int8s, Int16s, Int32s, Int64s, Numbers, Tagged, Uint16s, Uint32s, Untagged

ARRAY_OF = {"int8": Int8s, "int16": Int16s, "uint16": Uint16s, "int32": Int32s, "uint32": Uint32s, "int64": Int64s}


def written(message: Message, flexible: bool = True) -> bytes | None:
    """The bytes by the emitted and the interpreted way, which must agree; None where both refuse."""
    try:
        emitted = encode_message(message, 0, flexible)
    except ProtocolError:
        emitted = None
    try:
        interpreted = schema(type(message), 0, flexible).build(message)
    except ProtocolError:
        interpreted = None
    assert emitted == interpreted
    return emitted


def around(kind: str) -> Iterator[tuple[int, bool]]:
    """Numbers at both ends of a range and one beyond, and whether they are in it."""
    low, high = RANGES[kind]
    yield from ((low, True), (high, True), (low - 1, False), (high + 1, False))


@pytest.mark.parametrize("kind", RANGES)
def test_a_number_is_written_if_and_only_if_it_is_in_range(kind: str) -> None:
    for value, fits in around(kind):
        message = Numbers()
        setattr(message, kind, value)
        raw = written(message)
        assert (raw is not None) == fits
        assert raw is None or decode_message(Numbers, 0, True, raw) == message


@pytest.mark.parametrize("count", [1, BUILT_AT_ONCE - 1, BUILT_AT_ONCE, BUILT_AT_ONCE + 1])
@pytest.mark.parametrize("kind", RANGES)
def test_an_array_is_written_if_and_only_if_its_last_number_is_in_range(kind: str, count: int) -> None:
    array = ARRAY_OF[kind]
    for value, fits in around(kind):
        message = array(value=[0] * (count - 1) + [value])
        raw = written(message)
        assert (raw is not None) == fits
        assert raw is None or decode_message(array, 0, True, raw) == message


def at_once(columns: Columns[Any]) -> bytes | None:
    """All rows encoded field by field; None where a number is refused, and nothing may be left behind then."""
    out = Buffer(b"before")
    try:
        assert build_rows(out, schema(columns.message_class, 0, True), columns)
    except ProtocolError:
        assert out == b"before"
        return None
    return bytes(out).removeprefix(b"before")


def held(kind: str, dtype: Any) -> Iterator[int]:
    """Those numbers at the ends of the range of a kind, and one beyond, that an array of this type can hold."""
    limits = np.iinfo(dtype)
    yield from (value for value, _ in around(kind) if limits.min <= value <= limits.max)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, ">i2", np.uint16, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("kind", RANGES)
def test_a_column_is_written_if_and_only_if_all_its_numbers_are_in_range(kind: str, dtype: Any) -> None:
    """Of any integer type of NumPy, in the first row and in the last one, and again when the layout is known."""
    low, high = RANGES[kind]
    for value in held(kind, dtype):
        for row in (0, -1):
            column = np.zeros(9, dtype)
            column[row] = value
            for _ in range(2):
                raw = at_once(Columns(Numbers, 9, {kind: column}))
                assert (raw is not None) == (low <= value <= high)
                rows = list(Columns(Numbers, 9, {kind: column}))
                assert raw is None or raw == b"".join(encode_message(row, 0, True) for row in rows)


def test_a_cached_layout_still_checks_ranges() -> None:
    """It was made for numbers of the same type that fitted."""
    column_builder._LAYOUTS.clear()
    assert at_once(Columns(Numbers, 9, {"int16": np.arange(9)})) is not None
    assert len(column_builder._LAYOUTS) == 1
    assert at_once(Columns(Numbers, 9, {"int16": np.arange(9) + 2**15})) is None


@pytest.mark.parametrize("kind", RANGES)
def test_padding_of_a_ragged_column_may_be_out_of_range(kind: str) -> None:
    """Behind a row's length stands padding of any value."""
    for value, fits in around(kind):
        if not -(2**63) <= value < 2**63:
            continue
        rows = np.zeros((9, 3), np.int64)
        rows[:, 2] = value
        beside = Ragged(rows, np.array([2, 1, 0] * 3))
        inside = Ragged(rows, np.array([2, 1, 0] * 2 + [2, 1, 3]))
        assert at_once(Columns(ARRAY_OF[kind], 9, {"value": beside})) is not None
        assert (at_once(Columns(ARRAY_OF[kind], 9, {"value": inside})) is not None) == fits


@pytest.mark.parametrize(("length", "fits"), [(-1, False), (0, True), (3, True), (4, False)])
@pytest.mark.parametrize("others", [0, 2])
def test_a_row_of_a_ragged_column_is_at_most_as_long_as_the_widest(length: int, fits: bool, others: int) -> None:
    lengths = np.array([others] * 8 + [length])
    rows = np.arange(27).reshape(9, 3)
    raw = at_once(Columns(Int32s, 9, {"value": Ragged(rows, lengths)}))
    assert (raw is not None) == fits
    messages = [Int32s(value=row[:size]) for row, size in zip(rows.tolist(), lengths.tolist(), strict=True)]
    assert raw is None or raw == b"".join(encode_message(message, 0, True) for message in messages)


@pytest.mark.parametrize("kind", ["bool", "int8"])
def test_null_is_no_number(kind: str) -> None:
    message = Numbers()
    setattr(message, kind, None)
    assert written(message) is None
    assert written(message, flexible=False) is None


@pytest.mark.parametrize(
    ("tag", "fits"), [(0, True), (127, True), (128, True), (2**32 - 1, True), (2**32, False), (-1, False)]
)
def test_a_tag_is_a_number_of_32_bits(tag: int, fits: bool) -> None:
    message = Untagged()
    message.unknown_tags = {tag: b"?"}
    assert (written(message) is not None) == fits


@pytest.mark.parametrize("size", [0, 126, 127, 128, 16383, 16384])
def test_tags_and_their_values_are_read_back_at_every_size(size: int) -> None:
    for message in (Tagged(), Untagged()):
        message.unknown_tags = {1000 + size: b"?" * size}
        raw = written(message)
        assert raw is not None
        assert decode_message(type(message), 0, True, raw) == message


@pytest.mark.parametrize("count", [1, 127, 128, 200])
def test_tags_are_read_back_however_many_they_are(count: int) -> None:
    for message in (Tagged(number=7, numbers=(1,)), Untagged()):
        message.unknown_tags = dict.fromkeys(range(1000, 1000 + count), b"?")
        raw = written(message)
        assert raw is not None
        assert decode_message(type(message), 0, True, raw) == message
