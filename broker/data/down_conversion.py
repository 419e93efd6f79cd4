"""Stored batches as message sets, for Fetch v0 to v3: format 0 up to v1, format 1 from v2 on.

As Kafka's RecordsUtil.downConvert: control batches and headers are left out, records of an uncompressed batch begin
with the offset that was asked for, and a compressed batch becomes one message in the same codec, with the offset of its
last record. The work of one answer is bounded: the client asks for what is behind it.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from klamm.broker.data.codecs import LZ4, UNCOMPRESSED, ZSTD, broken_lz4, pack
from klamm.broker.data.message_sets import FORMAT_0, FORMAT_1, Message, encode_message
from klamm.broker.data.record_batches import HEADER_BYTES, LOG_APPEND_TIME, NO_TIMESTAMP, ProducedBatch
from klamm.broker.data.record_contents import RecordContents, UnreadableRecords, decode_records, split_batches
from klamm.broker.data.records import MAX_RECORDS, MAX_UNPACKED_BYTES
from klamm.protocol.errors import ErrorCode

MAX_CONVERTED_RECORDS: Final = 5_000
"""So many records are converted for one answer, which takes about 15 ms; partitions share them."""
MAX_CONVERTED_BYTES: Final = 16 * 1024 * 1024
"""So many bytes are read for one answer, uncompressed. Partitions behind them get no records."""


LAST_VERSION_WITH_FORMAT_0: Final = 1
LAST_VERSION_WITH_FORMAT_1: Final = 3


def target_format(api_version: int) -> int | None:
    """The format for a version of Fetch; None: that in which records are stored."""
    if api_version > LAST_VERSION_WITH_FORMAT_1:
        return None
    return FORMAT_0 if api_version <= LAST_VERSION_WITH_FORMAT_0 else FORMAT_1


class Conversion:
    """What the conversion of one answer may still take."""

    __slots__ = ("bytes", "records_of_partition")

    def __init__(self, partitions: int = 1) -> None:
        self.bytes = MAX_CONVERTED_BYTES
        self.records_of_partition = max(1, MAX_CONVERTED_RECORDS // max(1, partitions))


def down_converted(data: bytes, fetch_offset: int, magic: int, room: Conversion) -> bytes | ErrorCode:
    """The records from `fetch_offset` on in format `magic`; an error if the first batch has no such form."""
    pieces: list[bytes] = []
    left = room.records_of_partition
    for batch in split_batches(data):
        if left <= 0 or room.bytes <= 0:
            break
        if batch.is_control:
            continue
        converted = _converted(batch, fetch_offset, magic, left)
        if isinstance(converted, ErrorCode):
            if pieces:
                break  # the client gets the error when it asks for this batch
            return converted
        count, message_set, read_bytes = converted
        left -= count
        room.bytes -= max(len(batch.records), read_bytes)
        pieces.append(message_set)
    return b"".join(pieces)


def overflow(max_bytes: int) -> bytes:
    """The beginning of a message that is longer than `max_bytes`: clients see that they asked for too few bytes."""
    size = max(max_bytes + 1, HEADER_BYTES)
    begin = (-1).to_bytes(8, "big", signed=True) + size.to_bytes(4, "big")
    return begin.ljust(min(max_bytes, HEADER_BYTES), b"\0")[: max(max_bytes, 0)]


def _converted(batch: ProducedBatch, fetch_offset: int, magic: int, most: int) -> tuple[int, bytes, int] | ErrorCode:
    """The number of records, their form, and the bytes that were read uncompressed."""
    if batch.compression == ZSTD:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if batch.record_count > MAX_RECORDS:
        return ErrorCode.MESSAGE_TOO_LARGE
    is_compressed = batch.compression != UNCOMPRESSED
    try:
        records = decode_records(batch, MAX_UNPACKED_BYTES)
        if not is_compressed or batch.record_count > most:
            records = (one for one in records if one.offset >= fetch_offset)
        found = list(islice(records, most))
    except UnreadableRecords:
        return ErrorCode.MESSAGE_TOO_LARGE
    if not found:
        return 0, b"", MAX_UNPACKED_BYTES if is_compressed else 0
    read_bytes = sum(len(one.key or b"") + len(one.value or b"") for one in found)
    if is_compressed:
        return (
            len(found),
            _wrapped(batch, found, magic),
            MAX_UNPACKED_BYTES if batch.record_count > most else read_bytes,
        )
    message_set = b"".join(encode_message(one.offset, _message(batch, one, magic)) for one in found)
    return len(found), message_set, read_bytes


def _wrapped(batch: ProducedBatch, records: Sequence[RecordContents], magic: int) -> bytes:
    """One compressed message. Inside, format 1 has offsets relative to the first record."""
    first, last = records[0].offset, records[-1].offset
    base = first if magic == FORMAT_1 else 0
    payload = b"".join(encode_message(one.offset - base, _message(batch, one, magic)) for one in records)
    packed = pack(batch.compression, payload)
    if batch.compression == LZ4 and magic == FORMAT_0:
        packed = broken_lz4(packed)
    latest_ms = max(one.timestamp_ms for one in records) if magic == FORMAT_1 else NO_TIMESTAMP
    return encode_message(last, Message(magic, batch.compression | _time_bit(batch, magic), latest_ms, None, packed))


def _message(batch: ProducedBatch, record: RecordContents, magic: int) -> Message:
    return Message(magic, _time_bit(batch, magic), record.timestamp_ms, record.key, record.value)


def _time_bit(batch: ProducedBatch, magic: int) -> int:
    return LOG_APPEND_TIME if magic == FORMAT_1 and batch.has_log_append_time else 0
