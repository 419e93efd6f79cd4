"""Record batches with valid or invalid values in any field. Written only from Kafka's description of the format: this
module shares no code with what it tests."""

import gzip
from collections.abc import Sequence
from typing import Any

import google_crc32c

NOW_MS = 1_700_000_000_000
FRONT_BYTES = 21
HEADER_BYTES = 61
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 8, 16, 32


def zigzag(value: int) -> bytes:
    rest, out = (value << 1) ^ (value >> 63), bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*out, rest))


def sized(value: bytes | None) -> bytes:
    return zigzag(-1) if value is None else zigzag(len(value)) + value


def record(
    offset_delta: int = 0,
    *,
    timestamp_delta: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: Sequence[tuple[bytes, bytes | None]] = (),
) -> bytes:
    """One record, with its length at the beginning."""
    body = b"\0" + zigzag(timestamp_delta) + zigzag(offset_delta) + sized(key) + sized(value) + zigzag(len(headers))
    for name, content in headers:
        body += sized(name) + sized(content)
    return zigzag(len(body)) + body


def batch(
    records: int | Sequence[bytes] = 1, *, timestamp_ms: int = NOW_MS, value: bytes = b"v", **wrong: Any
) -> bytes:
    """A batch of this number of records, or of these records; `wrong` sets fields of the header, `payload`, `length`
    and `crc`."""
    if isinstance(records, int):
        records = [record(offset_delta, value=value) for offset_delta in range(records)]
    attributes = wrong.get("attributes", 0)
    together = b"".join(records)
    payload: bytes = wrong.get("payload", gzip.compress(together, mtime=0) if attributes & 7 == GZIP else together)
    checked: bytes = (
        attributes.to_bytes(2, "big")
        + signed(wrong.get("last_offset_delta", len(records) - 1), 4)
        + signed(timestamp_ms, 8)
        + signed(wrong.get("max_timestamp_ms", timestamp_ms), 8)
        + signed(wrong.get("producer_id", -1), 8)
        + signed(wrong.get("producer_epoch", -1), 2)
        + signed(wrong.get("base_sequence", -1), 4)
        + signed(wrong.get("record_count", len(records)), 4)
        + payload
    )
    front: bytes = (
        signed(wrong.get("base_offset", 0), 8)
        + signed(wrong.get("length", len(checked) + 9), 4)
        + signed(wrong.get("leader_epoch", -1), 4)
        + signed(wrong.get("magic", 2), 1)
        + wrong.get("crc", google_crc32c.value(checked)).to_bytes(4, "big")
    )
    return front + checked


def signed(value: int, size: int) -> bytes:
    return value.to_bytes(size, "big", signed=True)
