"""The records of a batch, one by one, read as Kafka reads them: also where that is not what their writer meant.

Kafka has two ways. It reads whole records, where the length of each decides, if the batch is not compressed or will be
written in another codec. Of other compressed batches it skims the fields and skips their contents; there the length of
a record is not looked at. Sources: DefaultRecord.readFrom and readPartiallyFrom; faults are recorded in
`tests/golden/records`.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from klamm.protocol.errors import ErrorCode

_LARGEST_INT: Final = 1 << 31
_LARGEST_LONG: Final = 1 << 63


class RecordHead(NamedTuple):
    """One record without its contents. `offset_delta` and the sizes are those of the record; a size below 0: null."""

    offset_delta: int
    timestamp_ms: int
    attributes: int
    key_size: int
    value_size: int
    key_at: int
    """Where its key begins, with its size; behind it are the value and the headers."""
    end: int


class UnreadableRecord(Exception):
    """Kafka cannot read a record. `code` is the error of the whole batch."""

    def __init__(self, code: ErrorCode = ErrorCode.INVALID_RECORD) -> None:
        super().__init__(code.name)
        self.code = code


def read_heads(
    data: bytes, at: int, record_count: int, base_timestamp_ms: int, *, skims: bool, is_compressed: bool
) -> Iterator[RecordHead]:
    """The records from `at` on. Raises UnreadableRecord, also if they do not end with the data."""
    try:
        for _ in range(record_count):
            body = at
            length, body = _sized_at(data, at, is_compressed=is_compressed)
            if not skims and not 0 <= length <= len(data) - body:
                raise UnreadableRecord
            head = _read_head(data, body, base_timestamp_ms)
            if not skims and head.end != body + length:
                raise UnreadableRecord
            yield head
            at = head.end
    except (IndexError, ValueError) as error:
        raise UnreadableRecord from error
    if at != len(data):
        raise UnreadableRecord


def _sized_at(data: bytes, at: int, *, is_compressed: bool) -> tuple[int, int]:
    try:
        return _varint(data, at)
    except ValueError as error:
        # In a batch without compression no handler of Kafka's expects that.
        raise UnreadableRecord(ErrorCode.INVALID_RECORD if is_compressed else ErrorCode.UNKNOWN_SERVER_ERROR) from error


def _read_head(data: bytes, at: int, base_timestamp_ms: int) -> RecordHead:
    attributes = data[at]
    timestamp_delta, at = _varlong(data, at + 1)
    offset_delta, key_at = _varint(data, at)
    key_size, value_at = _skip(data, key_at)
    value_size, at = _skip(data, value_at)
    headers, at = _varint(data, at)
    if headers < 0:
        raise UnreadableRecord
    for _ in range(headers):
        name_size, at = _skip(data, at)
        if name_size < 0:
            raise UnreadableRecord
        _, at = _skip(data, at)
    timestamp_ms = wrapped(base_timestamp_ms + timestamp_delta)
    return RecordHead(offset_delta, timestamp_ms, attributes, key_size, value_size, key_at, at)


def _skip(data: bytes, at: int) -> tuple[int, int]:
    """The size of a field, and the position behind the field."""
    size, at = _varint(data, at)
    if size <= 0:
        return size, at
    if at + size > len(data):
        raise UnreadableRecord
    return size, at + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value, at = _unsigned(data, at, 5)
    value &= 2 * _LARGEST_INT - 1
    return (value >> 1) ^ -(value & 1), at


def _varlong(data: bytes, at: int) -> tuple[int, int]:
    value, at = _unsigned(data, at, 10)
    value &= 2 * _LARGEST_LONG - 1
    return (value >> 1) ^ -(value & 1), at


def _unsigned(data: bytes, at: int, most_bytes: int) -> tuple[int, int]:
    """Raises ValueError if it is longer, and IndexError at the end of the data."""
    value = 0
    for place in range(most_bytes):
        byte = data[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise ValueError(most_bytes)


def wrapped(value: int) -> int:
    """A sum of two timestamps as Java computes it, in 64 bits."""
    return (value + _LARGEST_LONG) % (2 * _LARGEST_LONG) - _LARGEST_LONG
