"""A walk over the records of a batch that are as they should be: their structure, timestamps, keys and offsets.

Few records are read one by one, many as arrays, which takes a tenth of the time. Whatever is unusual ends the walk:
`klamm.broker.data.exact_records` then reads the records as Kafka does, one by one, and finds what is wrong.
"""

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from klamm.protocol.codec.varints import decode_zigzag
from klamm.protocol.errors import ProtocolError

FEW_RECORDS: Final = 24
"""So many records are read one by one: NumPy would need longer to begin."""
CHUNK_RECORDS: Final = 32_768
"""So many records are read as arrays at once. They take 2 MiB."""
_SHORTEST_RUN: Final = 16
"""Records of one length are found together, if so many follow each other."""
_MIXED_RECORDS: Final = 512
"""So many records of other lengths are read before the next run is looked for; twice as many after each vain search."""
_BYTES, _BYTES_OF_TIME = 4, 7
"""Longer lengths and offset deltas, and longer timestamp deltas, are unusual."""

_PLACES: Final = np.arange(1 << 13)
_TWO_BYTES: Final = np.stack((2 * _PLACES & 0x7F | 0x80, _PLACES >> 6), axis=1).astype(np.uint8)
"""The offset deltas as varints of two bytes."""

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
            found, end = _walk_singly(data, at, 0, record_count)
        else:
            found, end = _walk_together(data, at, record_count)
    except (IndexError, ProtocolError, _Unusual):
        return None
    return found if end == len(data) else None


def deltas_of(data: bytes, record_count: int) -> list[tuple[int, int]] | None:
    """The offset and the timestamp (ms) of each record, relative to those of the batch; None if the records are
    unusual."""
    view, at = np.frombuffer(data, np.uint8), 0
    found: list[tuple[int, int]] = []
    try:
        for place in range(0, record_count, CHUNK_RECORDS):
            bodies, ends = _bodies(data, view, at, min(CHUNK_RECORDS, record_count - place))
            timestamp_deltas, offsets_at = _varints(view, bodies + 1, _BYTES_OF_TIME)
            offset_deltas, _ = _varints(view, offsets_at)
            found += zip(offset_deltas.tolist(), timestamp_deltas.tolist(), strict=True)
            at = int(ends[-1])
    except (IndexError, ProtocolError, _Unusual):
        return None
    return found if at == len(data) else None


def _walk_singly(data: bytes, at: int, first: int, record_count: int) -> tuple[Walk, int]:
    """The next records, the first of which has the offset delta `first`."""
    deltas = []
    attributes = disorder = signs = 0
    for place in range(first, first + record_count):
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
    view, found, place, mixed = np.frombuffer(data, np.uint8), None, 0, _MIXED_RECORDS
    while place < record_count:
        most = record_count - place
        run, behind = _walk_run(data, view, at, place, most)
        if run is None and most <= FEW_RECORDS:
            walked, behind = _walk_singly(data, at, place, most)
            run = walked, most
        elif run is None:  # after each vain attempt, more are read before the next one
            most = min(mixed, most)
            bodies, ends = _bodies(data, view, at, most)
            run, behind = (_walk_chunk(data, view, bodies, ends, place), most), int(ends[-1])
            mixed = min(2 * mixed, CHUNK_RECORDS)
        walked, number = run
        found = walked if found is None else _joined(found, walked)
        at, place = behind, place + number
    assert found is not None, "there are many records"
    return found, at


def _walk_run(data: bytes, view: _Bytes, at: int, place: int, most: int) -> tuple[tuple[Walk, int] | None, int]:
    """Walk over the next records, as far as they have the layout of the first one: their number, and their end. None if
    that are only a few."""
    length, body = _varint(data, at)
    stride = body + length - at
    if length <= 0 or at + _SHORTEST_RUN * stride > len(data):
        return None, at
    timestamp_at = body + 1
    first_delta, offset_at = _varint(data, timestamp_at, _BYTES_OF_TIME)
    _, key_at = _varint(data, offset_at)
    key_length, key = _varint(data, key_at)
    value_at = key + max(key_length, 0)
    value_length, value = _varint(data, value_at)
    headers_at = value + max(value_length, 0)
    if headers_at + 1 != at + stride or data[headers_at]:
        return None, at
    rows = view[at : at + min(most, (len(data) - at) // stride, CHUNK_RECORDS) * stride].reshape(-1, stride)
    fixed = [*range(timestamp_at - at), *range(key_at - at, key - at), *range(value_at - at, value - at), stride - 1]
    rows = _right_rows(rows, rows[:, fixed] == rows[0, fixed])
    deltas = _fixed_varints(rows, timestamp_at - at, offset_at - at)
    rows = rows[: len(deltas)]
    are_in_order, number = _offsets_of(rows, offset_at - at, key_at - at, place)
    if number < _SHORTEST_RUN:
        return None, at
    earliest, latest = int(deltas[:number].min()), int(deltas[:number].max())
    found = Walk(earliest, latest, key_length >= 0, are_in_order, not data[body], first_delta)
    return (found, number), at + number * stride


def _right_rows(rows: _Bytes, are_right: NDArray[np.bool_]) -> _Bytes:
    """The rows before the first one for which something is not right."""
    if are_right.all():
        return rows
    return rows[: int((are_right.all(1) if are_right.ndim > 1 else are_right).argmin())]


def _fixed_varints(rows: _Bytes, first: int, behind: int) -> _Positions | _Bytes:
    """The signed varints in these columns, of the rows before the first one that has another width."""
    last = rows[:, behind - 1]
    if behind - first == 1 and not (last & 0x81).any():  # one byte each, none below 0
        return last >> 1
    values = last.astype(np.int64) << (7 * (behind - 1 - first))
    are_right = last < 0x80
    for column in range(first, behind - 1):
        byte = rows[:, column]
        are_right &= byte >= 0x80
        values |= (byte & 0x7F).astype(np.int64) << (7 * (column - first))
    if not are_right.all():
        values = values[: int(are_right.argmin())]
    return (values >> 1) ^ -(values & 1)


def _offsets_of(rows: _Bytes, first: int, behind: int, place: int) -> tuple[bool, int]:
    """Whether the offset deltas in these columns are those from `place` on, for the rows before the first one that has
    another width, and the number of these rows."""
    expected = _TWO_BYTES[place : place + len(rows)]
    if behind - first == 2 and len(expected) == len(rows) and (rows[:, first:behind] == expected).all():
        return True, len(rows)
    deltas = _fixed_varints(rows, first, behind)
    number = len(deltas)
    return bool((deltas == np.arange(place, place + number)).all()), number


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
    """Where the next records begin, behind their lengths, and where they end."""
    begins = [at]
    for _ in range(record_count):
        byte = data[at]
        if byte < 0x80:  # written out: nearly all lengths have one or two bytes
            at += (byte >> 1) + 1
        elif (second := data[at + 1]) < 0x80:
            at += ((byte & 0x7F | second << 7) >> 1) + 2
        else:
            length, behind = decode_zigzag(data, at, _BYTES)
            if length < 0:
                raise _Unusual
            at = behind + length
        begins.append(at)
    if at > len(data):
        raise _Unusual
    positions = np.array(begins, np.int64)
    lengths, bodies = _varints(view, positions[:-1])
    if (lengths <= 0).any():  # of a negative length the loop has taken the half
        raise _Unusual
    return bodies, positions[1:]


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
