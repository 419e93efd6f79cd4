"""Coordinator records as record batches (magic 2) of a partition, and back."""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import google_crc32c

from klamm.broker.data.record_batches import HEADER_BYTES, ProducedBatch, decode_header
from klamm.protocol.codec.varints import decode_zigzag, encode_zigzag

_HEADER: Final = struct.Struct(">qiibI")
_CHECKED: Final = struct.Struct(">hiqqqhii")
_TRANSACTIONAL: Final = 1 << 4
_CONTROL: Final = 1 << 5
_NULL: Final = encode_zigzag(-1)
_CONTROL_KEY: Final = struct.Struct(">hh")
_COMMIT: Final = 1


class RawRecord(NamedTuple):
    """Key and value of one record as bytes."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class EndOfTransaction(NamedTuple):
    """A control batch: the transaction of `producer_id` has ended."""

    producer_id: int
    committed: bool


def encode_batch(
    records: Sequence[tuple[bytes | None, bytes | None]], now_ms: int, producer_id: int = -1, producer_epoch: int = -1
) -> ProducedBatch:
    """One uncompressed batch of these keys and values with the timestamp `now_ms`. With a producer id it is
    transactional."""
    content = bytearray()
    for index, (key, value) in enumerate(records):
        body = b"\0\0" + encode_zigzag(index)
        body += _NULL if key is None else encode_zigzag(len(key)) + key
        body += _NULL if value is None else encode_zigzag(len(value)) + value
        body += b"\0"
        content += encode_zigzag(len(body)) + body
    attributes = _TRANSACTIONAL if producer_id >= 0 else 0
    count = len(records)
    checked = _CHECKED.pack(attributes, count - 1, now_ms, now_ms, producer_id, producer_epoch, -1, count) + content
    front = _HEADER.pack(0, len(checked) + HEADER_BYTES - _CHECKED.size - 12, -1, 2, google_crc32c.value(checked))
    return decode_header(front + checked)


def decode_records(batch: ProducedBatch) -> Iterator[RawRecord | EndOfTransaction]:
    """The records of an uncompressed batch. A control batch gives one `EndOfTransaction`. Other batches than those of a
    coordinator (compressed ones) give nothing."""
    if batch.compression:
        return
    data, at = batch.records, HEADER_BYTES
    for _ in range(batch.record_count):
        size, at = decode_zigzag(data, at, 5)
        end = at + size
        timestamp_delta, at = decode_zigzag(data, at + 1, 10)
        offset_delta, at = decode_zigzag(data, at, 5)
        key, at = _sized(data, at)
        value, at = _sized(data, at)
        if batch.attributes & _CONTROL:
            _, outcome = _CONTROL_KEY.unpack(key or b"")
            yield EndOfTransaction(batch.producer_id, committed=outcome == _COMMIT)
        else:
            yield RawRecord(batch.base_offset + offset_delta, batch.base_timestamp_ms + timestamp_delta, key, value)
        at = end


def _sized(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = decode_zigzag(data, at, 5)
    return (None, at) if size < 0 else (data[at : at + size], at + size)
