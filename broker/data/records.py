"""The records inside a batch: their timestamps, whether they have keys, and which of them a topic refuses.

Records are read only if a rule or a request needs them, and only from uncompressed and gzip batches, because Python has
no other codecs. Batches of other codecs are checked by their headers.
"""

import zlib
from typing import Final, NamedTuple

from klamm.broker.data.record_batches import (
    GZIP,
    HEADER_BYTES,
    NO_TIMESTAMP,
    UNCOMPRESSED,
    ProducedBatch,
    RefusedBatch,
)
from klamm.protocol.codec.varints import decode_zigzag
from klamm.protocol.errors import ErrorCode, ProtocolError

MAX_UNPACKED_BYTES: Final = 4 * 1024 * 1024
MAX_RECORDS: Final = 20_000
"""The records of larger batches are not read, so that one batch blocks the event loop for about 30 ms at most."""
ANY_AGE: Final = 2**63 - 1
"""The default of message.timestamp.before.max.ms."""

_GZIP_FORMAT: Final = 31  # of zlib: a gzip header, and the largest window


class RecordHead(NamedTuple):
    """The timestamp of one record, and whether it has a key."""

    timestamp_ms: int
    has_key: bool


def look_inside(batch: ProducedBatch) -> list[RecordHead] | None:
    """The heads of all records, in order; None if they cannot be read."""
    payload = _payload(batch)
    if payload is None or batch.record_count > MAX_RECORDS:
        return None
    heads: list[RecordHead] = []
    at = 0
    try:
        for _ in range(batch.record_count):
            head, at = _decode_head(payload, at, batch.base_timestamp_ms)
            heads.append(head)
    except (IndexError, ProtocolError):
        return None
    if batch.has_log_append_time:
        return [head._replace(timestamp_ms=batch.max_timestamp_ms) for head in heads]
    return heads


def validate_records(
    batch: ProducedBatch,
    *,
    now_ms: int,
    before_max_ms: int = ANY_AGE,
    after_max_ms: int,
    log_append_time: bool = False,
    needs_keys: bool = False,
) -> RefusedBatch | None:
    """Why a topic refuses a well-formed batch: INVALID_TIMESTAMP (KIP-937), or INVALID_RECORD for records without a key
    in a compacted topic; None if the batch is accepted.

    `before_max_ms`, `after_max_ms` and `log_append_time` are the topic's message.timestamp.*. Records are read only if
    the header is not sufficient; if they cannot be read, the header decides.
    """
    earliest, latest = now_ms - before_max_ms, now_ms + after_max_ms
    own_times = not log_append_time
    out_of_range = own_times and not (earliest <= batch.base_timestamp_ms and batch.max_timestamp_ms <= latest)
    in_doubt = own_times and before_max_ms < ANY_AGE
    if not (out_of_range or in_doubt or needs_keys or batch.has_log_append_time):
        return None
    seen = look_inside(batch)
    header_times = batch.base_timestamp_ms, batch.max_timestamp_ms
    heads = [RecordHead(time, has_key=True) for time in header_times] if seen is None else seen
    late: dict[int, str] = {}
    keyless: dict[int, str] = {}
    for index, head in enumerate(heads):
        if needs_keys and not head.has_key:
            keyless[index] = "Records of a compacted topic have a key."
        elif own_times and head.timestamp_ms != NO_TIMESTAMP:
            if not earliest <= head.timestamp_ms <= latest:
                late[index] = f"Timestamp {head.timestamp_ms} is not within [{earliest}, {latest}]."
        elif batch.has_log_append_time:
            late[index] = "Producers do not set LogAppendTime."
    if not late and not keyless:
        return None
    record_errors = () if seen is None else tuple(sorted((keyless | late).items()))
    if late:
        return RefusedBatch(ErrorCode.INVALID_TIMESTAMP, "Records have invalid timestamps.", record_errors, by_log=True)
    return RefusedBatch(ErrorCode.INVALID_RECORD, "Records have no key.", record_errors, by_log=True)


def _payload(batch: ProducedBatch) -> bytes | None:
    """The bytes after the header, uncompressed; None if they cannot be uncompressed."""
    if batch.compression not in (UNCOMPRESSED, GZIP):
        return None
    payload = batch.records[HEADER_BYTES:]
    if batch.compression == UNCOMPRESSED:
        return payload
    unpacking = zlib.decompressobj(_GZIP_FORMAT)
    try:
        unpacked = unpacking.decompress(payload, MAX_UNPACKED_BYTES)
    except zlib.error:
        return None
    return unpacked if unpacking.eof else None


def _decode_head(payload: bytes, at: int, base_timestamp_ms: int) -> tuple[RecordHead, int]:
    length, at = decode_zigzag(payload, at, 5)
    end = at + length
    timestamp_delta, at = decode_zigzag(payload, at + 1, 10)  # after the attributes
    _, at = decode_zigzag(payload, at, 5)  # the offset delta: a producer's records have no gaps
    key_length, at = decode_zigzag(payload, at, 5)
    if at + max(key_length, 0) > end or end > len(payload):
        raise ProtocolError(f"record of {length} bytes", offset=at)
    return RecordHead(base_timestamp_ms + timestamp_delta, key_length >= 0), end
