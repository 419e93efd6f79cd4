"""A walk over the records of a batch that are as they should be: their structure, timestamps, keys and offsets.

Few records are read one by one, many as arrays, which takes a tenth of the time. Whatever is unusual ends the walk:
`klamm.broker.data.exact_records` then reads the records as Kafka does, one by one, and finds what is wrong.
"""

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from klamm.protocol.codec.varints import decode_zigzag
from klamm.protocol.errors import ProtocolError

FEW_RECORDS: Final = 48
"""So many records are read one by one: NumPy would need longer to begin."""
CHUNK_RECORDS: Final = 32_768
"""So many records are read as arrays at once. They take 2 MiB."""
_SHORTEST_RUN: Final = 16
"""Records of one length are found together, if so many follow each other."""
_SINGLY: Final = 32
"""So many records are found one by one before the next run is looked for; twice as many after each vain search."""
_BYTES, _BYTES_OF_TIME = 4, 7
"""Longer lengths and offset deltas, and longer timestamp deltas, are unusual."""

_Positions: TypeAlias = NDArray[np.int64]
_Bytes: TypeAlias = NDArray[np.uint8]


class Walk(NamedTuple):
    """What the records of a batch say. Timestamps are relative to the batch's first one, in ms."""

    earliest_delta: int
    latest_delta: int
    all_have_keys: bool
    are_in_order: bool
    """Whether the offset deltas are 0, 1, 2 and so on."""
    is_plain: bool
    """Whether no record has attributes."""
    first_delta: int
    """The timestamp of the first record."""


class _Unusual(Exception):
    """The walk cannot go on."""


def walk(data: bytes, at: int, record_count: int) -> Walk | None:
    """Walk over all records, which begin at `at` and end with the data; None if that is not so, or unusual."""
    try:
        if record_count <= FEW_RECORDS:
            found, end = _walk_singly(data, at, record_count)
        else:
            found, end = _walk_together(data, at, record_count)
    except (IndexError, ProtocolError, _Unusual):
        return None
    return found if end == len(data) else None


def _walk_singly(data: bytes, at: int, record_count: int) -> tuple[Walk, int]:
    deltas = []
    attributes = disorder = signs = 0
    for place in range(record_count):
        length, at = _varint(data, at)
        end = at + length
        attributes |= data[at]
        delta, at = _varint(data, at + 1, _BYTES_OF_TIME)
        deltas.append(delta)
        offset_delta, at = _varint(data, at)
        disorder |= offset_delta ^ place
        key_length, at = _varint(data, at)
        if key_length > 0:
            at += key_length
        signs |= key_length
        value_length, at = _varint(data, at)
        if value_length > 0:
            at += value_length
        at = at + 1 if data[at] == 0 else _behind_headers(data, at)
        if at != end:
            raise _Unusual
    return Walk(min(deltas), max(deltas), signs >= 0, not disorder, not attributes, deltas[0]), at


def _varint(data: bytes, at: int, most_bytes: int = _BYTES) -> tuple[int, int]:
    """The signed varint at a position, and the position behind it; written out, because most have one or two bytes."""
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    second = data[at + 1]
    if second < 0x80:
        byte = byte & 0x7F | second << 7
        return (byte >> 1) ^ -(byte & 1), at + 2
    return decode_zigzag(data, at, most_bytes)


def _behind_headers(data: bytes, at: int) -> int:
    """The position behind the headers whose number is at `at`."""
    number, at = _varint(data, at)
    if number < 0:
        raise _Unusual
    for _ in range(number):
        length, at = _varint(data, at)
        if length < 0:
            raise _Unusual
        length, at = _varint(data, at + length)
        at += max(length, 0)
    return at


def _walk_together(data: bytes, at: int, record_count: int) -> tuple[Walk, int]:
    view = np.frombuffer(data, np.uint8)
    found: Walk | None = None
    for place in range(0, record_count, CHUNK_RECORDS):
        bodies, ends = _bodies(data, view, at, min(CHUNK_RECORDS, record_count - place))
        at = int(ends[-1])
        chunk = _walk_chunk(data, view, bodies, ends, place)
        found = chunk if found is None else _joined(found, chunk)
    assert found is not None, "there are many records"
    return found, at


def _joined(found: Walk, more: Walk) -> Walk:
    return Walk(
        min(found.earliest_delta, more.earliest_delta),
        max(found.latest_delta, more.latest_delta),
        found.all_have_keys and more.all_have_keys,
        found.are_in_order and more.are_in_order,
        found.is_plain and more.is_plain,
        found.first_delta,
    )


def _bodies(data: bytes, view: _Bytes, at: int, record_count: int) -> tuple[_Positions, _Positions]:
    """Where the records begin, behind their lengths, and where they end."""
    bodies, ends = np.empty(record_count, np.int64), np.empty(record_count, np.int64)
    place, singly = 0, _SINGLY
    while place < record_count:
        length, body = _varint(data, at)
        if length <= 0:
            raise _Unusual
        behind = body + length
        if behind > len(data):
            raise _Unusual
        alike = _alike(view, at, body, behind, record_count - place)
        if alike >= _SHORTEST_RUN:
            steps = np.arange(alike) * (behind - at)
            bodies[place : place + alike] = steps + body
            ends[place : place + alike] = steps + behind
            at += alike * (behind - at)
            place, singly = place + alike, _SINGLY
        else:
            many = min(singly, record_count - place)
            at = _bodies_singly(data, at, bodies[place : place + many], ends[place : place + many])
            place, singly = place + many, 2 * singly
    return bodies, ends


def _alike(view: _Bytes, at: int, body: int, behind: int, most: int) -> int:
    """How many records from `at` on have the length of the first one."""
    stride = behind - at
    most = min(most, (len(view) - at) // stride)
    for position in range(at, body):
        same = view[position : position + (most - 1) * stride + 1 : stride] == view[position]
        if not same.all():
            most = int(same.argmin())
    return most


def _bodies_singly(data: bytes, at: int, bodies: _Positions, ends: _Positions) -> int:
    found_bodies, found_ends = [], []
    for _ in range(len(bodies)):
        byte = data[at]
        if byte < 0x80:  # written out: nearly all lengths have one or two bytes
            length = byte >> 1
            at += 1
        elif (second := data[at + 1]) < 0x80:
            length = (byte & 0x7F | second << 7) >> 1
            at += 2
        else:
            length, at = decode_zigzag(data, at, _BYTES)
            byte = 0
        if length <= 0 or byte & 1:  # an odd varint is a number below 0
            raise _Unusual
        found_bodies.append(at)
        at += length
        found_ends.append(at)
    if at > len(data):
        raise _Unusual
    bodies[:], ends[:] = found_bodies, found_ends
    return at


def _walk_chunk(data: bytes, view: _Bytes, at: _Positions, ends: _Positions, place: int) -> Walk:
    is_plain = not view[at].any()
    deltas, at = _varints(view, at + 1, _BYTES_OF_TIME)
    offset_deltas, at = _varints(view, at)
    key_lengths, at = _varints(view, at)
    at = at + np.maximum(key_lengths, 0)
    if (at >= ends).any():
        raise _Unusual
    value_lengths, at = _varints(view, at)
    at = at + np.maximum(value_lengths, 0)
    if (at >= ends).any():
        raise _Unusual
    without = (view[at] == 0) & (at + 1 == ends)
    for index in np.flatnonzero(~without).tolist():
        if _behind_headers(data, int(at[index])) != ends[index]:
            raise _Unusual
    return Walk(
        int(deltas.min()),
        int(deltas.max()),
        bool((key_lengths >= 0).all()),
        bool((offset_deltas == np.arange(place, place + len(ends))).all()),
        is_plain,
        int(deltas[0]),
    )


def _varints(view: _Bytes, at: _Positions, most_bytes: int = _BYTES) -> tuple[_Positions, _Positions]:
    """The signed varints at these positions, and the positions behind them."""
    values = view.take(at, mode="clip").astype(np.int64)  # a position behind the end is noticed by its record's end
    at = at + 1
    longer = np.flatnonzero(values & 0x80)
    shift = 7
    while len(longer):
        if shift >= 7 * most_bytes:
            raise _Unusual
        more = view.take(at[longer], mode="clip").astype(np.int64)
        values[longer] += (more - 1) << shift
        at[longer] += 1
        longer = longer[more & 0x80 != 0]
        shift += 7
    return (values >> 1) ^ -(values & 1), at
