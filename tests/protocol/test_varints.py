"""Varints of each length and at the ends of 31 and 32 bits, from both sides, in each function for varints.

The expected values are those of the plain reader, which shares no code with `klamm.protocol.codec`.
"""

from collections.abc import Callable, Iterator

import pytest

from klamm.protocol import ProtocolError
from klamm.protocol.codec.varints import (
    MAX_STRING_BYTES,
    decode_length,
    decode_string_length,
    decode_tag_count,
    decode_uvarint,
    decode_zigzag,
    encode_string_length,
    encode_uvarint,
    encode_zigzag,
)
from tests.protocol.plain_reader import PlainReader, Refused, spelled

EDGES = [0, *(1 << bits for bits in (7, 14, 21, 28, 31, 32, 35, 42, 49, 56, 62, 63, 64, 70))]
"""Where a varint takes another byte, and where a signed or unsigned number of 32 or 64 bits ends."""
AROUND_EDGES = sorted({edge + step for edge in EDGES for step in (-1, 0, 1) if edge + step >= 0})
AROUND_STRINGS = [MAX_STRING_BYTES - 1, MAX_STRING_BYTES, MAX_STRING_BYTES + 1, MAX_STRING_BYTES + 2]
BEFORE, BEHIND = b"\xff\x01", b"\x80\x00"


SPELLINGS = sorted({spelled(value, size) for value in AROUND_EDGES + AROUND_STRINGS for size in range(12)})


def outcome(decode: Callable[[bytes, int], tuple[int, int]], raw: bytes, at: int) -> tuple[int, int] | str:
    try:
        return decode(raw, at)
    except ProtocolError as error:
        return "refused" if error.offset == at else f"refused at {error.offset}"
    except IndexError:
        return "ends too early"


def told(read: Callable[[PlainReader], int], raw: bytes, at: int) -> tuple[int, int] | str:
    reader = PlainReader(raw, at)
    try:
        return read(reader), reader.at
    except Refused as refused:
        return "ends too early" if "not there" in str(refused) else "refused"


def read_length(reader: PlainReader) -> int:
    """One more than the length, 0 for null."""
    size = reader.size(compact=True, code="", nullable=True)
    return 0 if size is None else size + 1


def read_string_length(reader: PlainReader) -> int:
    size = read_length(reader)
    if size > 32767 + 1:
        raise Refused("a string longer than Kafka's")
    return size


DECODERS = {
    "unsigned": (decode_uvarint, PlainReader.uvarint),
    "length": (decode_length, read_length),
    "string length": (decode_string_length, read_string_length),
    "tag count": (decode_tag_count, lambda reader: max(reader.java_int(), 0)),
    "signed, 32 bits": (lambda raw, at: decode_zigzag(raw, at, 5), lambda reader: reader.zigzag(5)),
    "signed, 64 bits": (lambda raw, at: decode_zigzag(raw, at, 10), lambda reader: reader.zigzag(10)),
}


@pytest.mark.parametrize(("decode", "read"), DECODERS.values(), ids=DECODERS)
def test_varints_at_every_boundary_are_read_or_refused_as_by_the_plain_reader(
    decode: Callable[[bytes, int], tuple[int, int]], read: Callable[[PlainReader], int]
) -> None:
    """Whole, with other bytes around it, and cut short at every byte."""
    outcomes = []
    for raw in SPELLINGS:
        framed = BEFORE + raw + BEHIND
        outcomes.append(outcome(decode, framed, len(BEFORE)))
        assert outcomes[-1] == told(read, framed, len(BEFORE)), raw.hex()
        for size in range(len(raw)):
            cut = BEFORE + raw[:size]
            assert outcome(decode, cut, len(BEFORE)) == told(read, cut, len(BEFORE)), (raw.hex(), size)
    assert "refused" in outcomes
    assert len({found for found in outcomes if isinstance(found, tuple)}) > 20


@pytest.mark.parametrize("value", [value for value in AROUND_EDGES if value < 2**32])
def test_a_number_of_up_to_32_bits_is_written_in_the_fewest_bytes(value: int) -> None:
    assert encode_uvarint(value) == spelled(value)


@pytest.mark.parametrize("value", [2**32, 2**32 + 1, 2**63])
def test_a_number_of_more_than_32_bits_is_not_written(value: int) -> None:
    with pytest.raises(ProtocolError, match=f"{value} exceeds 32 bits"):
        encode_uvarint(value)


def signed_edges() -> Iterator[int]:
    for edge in AROUND_EDGES:
        yield from (value for value in (edge, -edge) if -(2**63) <= value < 2**63)


@pytest.mark.parametrize("value", sorted(set(signed_edges())))
def test_a_signed_number_is_written_in_the_fewest_bytes_and_read_back(value: int) -> None:
    raw = encode_zigzag(value)
    assert raw == spelled(2 * value if value >= 0 else -2 * value - 1)
    assert decode_zigzag(raw, 0, 10) == (value, len(raw))


def test_a_string_has_up_to_32767_bytes() -> None:
    assert encode_string_length(MAX_STRING_BYTES + 1) == spelled(32768)
    with pytest.raises(ProtocolError, match="string of 32768 bytes exceeds 32767"):
        encode_string_length(MAX_STRING_BYTES + 2)
