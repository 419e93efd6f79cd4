"""Record batches as clients produce and fetch them (magic 2): their headers, their checks, and what a leader writes
into them.

The bytes of a batch are stored as received, and are never uncompressed here. Error codes and the order of the checks
are those of Kafka's ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords and LogValidator.
`klamm.broker.data.records` reads the records inside.
"""

import struct
from dataclasses import dataclass
from typing import Final

import google_crc32c

from klamm.protocol.codec.varints import decode_zigzag
from klamm.protocol.errors import ApiError, ErrorCode, ProtocolError

HEADER_BYTES: Final = 61
NO_TIMESTAMP: Final = -1
LAST_SEQUENCE: Final = 2**31 - 1
"""The largest sequence number; the next one is 0."""

UNCOMPRESSED, GZIP, ZSTD = 0, 1, 4
_CODECS: Final = 5
_FIRST_VERSION_WITH_ZSTD: Final = 7  # of Produce (KIP-110)
_COMPRESSION_MASK: Final = 0b111
_LOG_APPEND_TIME: Final = 1 << 3
TRANSACTIONAL: Final = 1 << 4
CONTROL: Final = 1 << 5
"""Bits of a batch's attributes."""

_MAGIC: Final = 2
_MAGIC_POSITION: Final = 16
_LENGTH_END: Final = 12
_SMALLEST_LENGTH: Final = 14  # of a message of magic 0, which Kafka looks for before it looks at the magic
# base offset, length of what follows, leader epoch, magic, checksum; the checksum covers what comes after it
_FRONT = struct.Struct(">qiibI")
# the same, then attributes, last offset delta, first and last timestamp, producer id and epoch, base sequence, count
_HEADER = struct.Struct(">qiibIhiqqqhii")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_POSITION: Final = 14  # behind the checksum
_SMALLEST_RECORD: Final = 6  # attributes, two deltas, two lengths, number of headers


@dataclass(frozen=True, slots=True)
class RefusedBatch(ApiError):
    """Why nothing of a batch was written."""

    record_errors: tuple[tuple[int, str], ...] = ()
    """The invalid records, if single ones are: index in the batch, and the reason (KIP-467)."""
    by_log: bool = False
    """Whether Kafka's log, not an earlier check, would refuse the batch. The response then has the log start offset."""


@dataclass(frozen=True, slots=True)
class ProducedBatch:
    """One batch: its bytes and what its header says. Times are ms since 1970, sizes bytes."""

    records: bytes
    """The whole batch, header included."""
    base_offset: int
    leader_epoch: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def compression(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & _COMPRESSION_MASK

    @property
    def has_log_append_time(self) -> bool:
        """Whether `max_timestamp_ms`, set by a broker, is the time of all records."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether it holds markers of transactions, not records of a producer."""
        return bool(self.attributes & CONTROL)

    @property
    def is_idempotent(self) -> bool:
        """Whether an idempotent producer wrote the batch (KIP-98)."""
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """The sequence number of its last record."""
        return (self.base_sequence + self.last_offset_delta) & LAST_SEQUENCE


def read_produced(
    records: bytes | memoryview | None, *, api_version: int, max_message_bytes: int
) -> ProducedBatch | RefusedBatch:
    """The one batch for a partition in a Produce request of this version, or why it is refused.

    As in Kafka, bytes after it that are no whole batch are dropped. The records of an uncompressed batch are counted by
    their lengths, and not decoded.
    """
    data = records if isinstance(records, bytes) else bytes(records or b"")
    size = _whole_batch(data, 0)
    if isinstance(size, RefusedBatch):
        return size
    if size is None:
        return _invalid("There is no whole record batch.")
    if data[_MAGIC_POSITION] != _MAGIC:
        return _invalid(f"Record batches have magic {_MAGIC}, this one has {data[_MAGIC_POSITION]}.")
    compression = data[_FRONT.size + 1] & _COMPRESSION_MASK
    if compression >= _CODECS or (compression == ZSTD and api_version < _FIRST_VERSION_WITH_ZSTD):
        reason = f"Produce version {api_version} knows no compression {compression}."
        return RefusedBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, reason)
    if size < len(data):
        another = _whole_batch(data, size)
        if another is not None:
            return another if isinstance(another, RefusedBatch) else _invalid("There is more than one record batch.")
        data = data[:size]
    return _read_whole(data, max_message_bytes)


def begins_transactional(records: bytes | memoryview | None) -> bool:
    """Whether the first batch, which is not checked yet, is complete and has the attribute of a transactional one."""
    if records is None or len(records) < _FRONT.size + _ATTRIBUTES.size:
        return False
    if not records[_FRONT.size + 1] & TRANSACTIONAL or records[_MAGIC_POSITION] != _MAGIC:
        return False
    return isinstance(_whole_batch(records, 0), int)


def decode_header(records: bytes) -> ProducedBatch:
    """Decode the header of a batch that was checked before."""
    base_offset, _, leader_epoch, _, _, *checked = _HEADER.unpack_from(records)
    return ProducedBatch(records, base_offset, leader_epoch, *checked)


def stamp(batch: ProducedBatch, base_offset: int, leader_epoch: int, log_append_time_ms: int | None) -> bytes:
    """The bytes of the batch as a leader writes it. With a log append time, all its records have that timestamp.
    Without, they keep the producer's timestamps, and the batch's timestamp type is set to CreateTime."""
    records = batch.records
    _, length, _, magic, checksum = _FRONT.unpack_from(records)
    checked = records[_FRONT.size :]
    if log_append_time_ms is not None:
        checked = (
            _ATTRIBUTES.pack(batch.attributes | _LOG_APPEND_TIME)
            + checked[_ATTRIBUTES.size : _MAX_TIMESTAMP_POSITION]
            + _MAX_TIMESTAMP.pack(log_append_time_ms)
            + checked[_MAX_TIMESTAMP_POSITION + _MAX_TIMESTAMP.size :]
        )
        checksum = google_crc32c.value(checked)
    elif batch.has_log_append_time:
        checked = _ATTRIBUTES.pack(batch.attributes & ~_LOG_APPEND_TIME) + checked[_ATTRIBUTES.size :]
        checksum = google_crc32c.value(checked)
    return _FRONT.pack(base_offset, length, leader_epoch, magic, checksum) + checked


def _whole_batch(data: bytes | memoryview, position: int) -> int | RefusedBatch | None:
    """The size of the batch at `position`; None if it is not complete."""
    available = len(data) - position
    if available < _LENGTH_END:
        return None
    length = int.from_bytes(data[position + 8 : position + _LENGTH_END], "big", signed=True)
    if length < _SMALLEST_LENGTH:
        return _corrupt(f"No record batch has a length of {length}.")
    if available <= _MAGIC_POSITION:
        return None
    magic = data[position + _MAGIC_POSITION]
    if magic > _MAGIC:
        return _corrupt(f"No record batch has magic {magic}.")
    return _LENGTH_END + length if _LENGTH_END + length <= available else None


def _read_whole(data: bytes, max_message_bytes: int) -> ProducedBatch | RefusedBatch:
    if any(data[:8]):
        return _invalid_to_log("The base offset of a record batch that is produced is 0.")
    size = len(data)
    if size > max_message_bytes:
        reason = f"The record batch has {size} bytes, more than max.message.bytes ({max_message_bytes})."
        return RefusedBatch(ErrorCode.MESSAGE_TOO_LARGE, reason)
    if size < HEADER_BYTES:
        return _corrupt(f"{size} bytes are no record batch.")
    checksum = int.from_bytes(data[_FRONT.size - 4 : _FRONT.size], "big")
    if google_crc32c.value(data[_FRONT.size :]) != checksum:
        return _corrupt("The checksum of the record batch is wrong.")
    batch = decode_header(data)
    if not 0 < batch.record_count == batch.last_offset_delta + 1:
        return _invalid_to_log(f"{batch.record_count} records have no last offset delta of {batch.last_offset_delta}.")
    if batch.is_control:
        return _invalid_to_log("Clients do not write control records.")
    if batch.is_idempotent and batch.base_sequence < 0:
        return _invalid_to_log(f"A producer's batches have no sequence number {batch.base_sequence}.")
    if batch.compression == UNCOMPRESSED and not _holds(data, batch.record_count):
        return _invalid_to_log(f"The record batch does not hold {batch.record_count} records.")
    return batch


def _holds(data: bytes, record_count: int) -> bool:
    """Whether the bytes after the header are exactly `record_count` records."""
    at = HEADER_BYTES
    try:
        for _ in range(record_count):
            byte = data[at]
            if byte < 0x80:  # written out: nearly all lengths have one or two bytes
                length = byte >> 1
                at += 1
            elif (second := data[at + 1]) < 0x80:
                length = (byte & 0x7F | second << 7) >> 1
                at += 2
            else:
                length, at = decode_zigzag(data, at, 5)
                byte = 0
            if length < _SMALLEST_RECORD or byte & 1:  # an odd varint is a number below 0
                return False
            at += length
    except (IndexError, ProtocolError):
        return False
    return at == len(data)


def _invalid(reason: str) -> RefusedBatch:
    return RefusedBatch(ErrorCode.INVALID_RECORD, reason)


def _invalid_to_log(reason: str) -> RefusedBatch:
    return RefusedBatch(ErrorCode.INVALID_RECORD, reason, by_log=True)


def _corrupt(reason: str) -> RefusedBatch:
    return RefusedBatch(ErrorCode.CORRUPT_MESSAGE, reason)
