"""Record batches as clients produce and fetch them (magic 2): their headers, their checks, and what a leader writes
into them.

Nothing is uncompressed here. Error codes and the order of the checks are those of Kafka's
ProduceRequest.validateRecords (`find_batch`), UnifiedLog.analyzeAndValidateRecords and LogValidator.validateBatch
(`check_batch`).
`klamm.broker.data.records` reads the records inside.
"""

import struct
from dataclasses import replace
from typing import Final

import google_crc32c

from klamm.broker.data.codecs import ZSTD
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.quick_dataclasses import dataclass

HEADER_BYTES: Final = 61
NO_TIMESTAMP: Final = -1
LAST_SEQUENCE: Final = 2**31 - 1
"""The largest sequence number; the next one is 0."""

_CODECS: Final = 5
_FIRST_VERSION_WITH_ZSTD: Final = 7  # of Produce (KIP-110)
_COMPRESSION_MASK: Final = 0b111
LOG_APPEND_TIME: Final = 1 << 3
TRANSACTIONAL: Final = 1 << 4
CONTROL: Final = 1 << 5
_KNOWN_ATTRIBUTES: Final = 0x7F
"""Bits of a batch's attributes. A leader that changes one of them clears the unknown ones."""

_MAGIC: Final = 2
_MAGIC_POSITION: Final = 16
_LENGTH_END: Final = 12
_SMALLEST_LENGTH: Final = 14  # of a message of magic 0, which Kafka looks for before it looks at the magic
# base offset, length of what follows, leader epoch, magic, checksum; the checksum covers what comes after it
_FRONT = struct.Struct(">qiibI")
# the same, then attributes, last offset delta, first and last timestamp, producer id and epoch, base sequence, count
_HEADER = struct.Struct(">qiibIhiqqqhii")
_CHECKED = struct.Struct(">hiqqqhii")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_POSITION: Final = 14  # behind the checksum
_BEYOND_AN_INT: Final = (1 << 31) - _LENGTH_END  # lengths that overflow in Kafka when the front is added
_CHECKED_AT_ONCE: Final = 64 * 1024  # bytes, which fit into the processor's cache


@dataclass(frozen=True, slots=True)
class RefusedBatch(ApiError):
    """Why nothing of a batch was written. The message is for the request log."""

    record_errors: tuple[tuple[int, str], ...] = ()
    """The invalid records, if single ones are: index in the batch, and the reason (KIP-467)."""
    by_log: bool = False
    """Whether Kafka's log, not an earlier check, would refuse the batch. The response then has the log start offset."""
    kafka_message: str | None = None
    """The text of the response, in Kafka's words; for most errors there is none."""


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
        return bool(self.attributes & LOG_APPEND_TIME)

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
    """The one batch for a partition in a Produce request of this version, or why it is refused. Its records are not
    looked at."""
    data = find_batch(records, api_version)
    return data if isinstance(data, RefusedBatch) else check_batch(data, max_message_bytes)


def find_batch(records: bytes | memoryview | None, api_version: int) -> bytes | RefusedBatch:
    """The bytes of the one batch for a partition in a Produce request of this version. As in Kafka, bytes after it that
    are no whole batch are dropped."""
    data = records if isinstance(records, bytes) else bytes(records or b"")
    size = _whole_batch(data, 0)
    if isinstance(size, RefusedBatch):
        return size
    if size is None:
        return _invalid("There is no whole record batch.")
    if data[_MAGIC_POSITION] != _MAGIC:
        return _invalid(f"Record batches have magic {_MAGIC}, this one has {data[_MAGIC_POSITION]}.")
    compression = data[_FRONT.size + 1] & _COMPRESSION_MASK if size > _FRONT.size + 1 else 0
    if compression >= ZSTD and api_version < _FIRST_VERSION_WITH_ZSTD:
        reason = f"Produce version {api_version} knows no compression {compression}."
        code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE if compression == ZSTD else ErrorCode.UNKNOWN_SERVER_ERROR
        return RefusedBatch(code, reason)
    if size < len(data):
        another = _whole_batch(data, size)
        if another is not None:
            return another if isinstance(another, RefusedBatch) else _invalid("There is more than one record batch.")
        data = data[:size]
    return data


def look_at_front(records: bytes | memoryview | None) -> RefusedBatch | bool:
    """Whether the first batch, which is not checked yet, is complete and transactional. An error if Kafka could not
    look for that either: it then refuses the whole request, with a text."""
    if records is None:
        return False
    size = _whole_batch(records, 0)
    if isinstance(size, RefusedBatch):
        has_text = size.code == ErrorCode.CORRUPT_MESSAGE
        return replace(size, kafka_message=size.message) if has_text else size
    if size is None or size < _FRONT.size + _ATTRIBUTES.size or records[_MAGIC_POSITION] != _MAGIC:
        return False
    return bool(records[_FRONT.size + 1] & TRANSACTIONAL)


def decode_header(records: bytes) -> ProducedBatch:
    """Decode the header of a batch that was checked before."""
    base_offset, _, leader_epoch, _, _, *checked = _HEADER.unpack_from(records)
    return ProducedBatch(records, base_offset, leader_epoch, *checked)


def stamp(batch: ProducedBatch, base_offset: int, leader_epoch: int, log_append_time_ms: int | None) -> bytes:
    """The bytes of the batch as a leader writes it. With a log append time, all its records have that timestamp.
    Without, they keep the producer's timestamps, and the batch's timestamp type is set to CreateTime. The latest
    timestamp is that of `batch`, whatever the producer wrote."""
    records = batch.records
    _, length, _, magic, checksum = _FRONT.unpack_from(records)
    latest_ms = batch.max_timestamp_ms if log_append_time_ms is None else log_append_time_ms
    (written_ms,) = _MAX_TIMESTAMP.unpack_from(records, _FRONT.size + _MAX_TIMESTAMP_POSITION)
    if log_append_time_ms is None and not batch.has_log_append_time and written_ms == latest_ms:
        front = _FRONT.pack(base_offset, length, leader_epoch, magic, checksum)
        return b"".join((front, memoryview(records)[_FRONT.size :]))
    attributes = batch.attributes & _KNOWN_ATTRIBUTES & ~LOG_APPEND_TIME
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME
    checked = b"".join(
        (
            _ATTRIBUTES.pack(attributes),
            records[_FRONT.size + _ATTRIBUTES.size : _FRONT.size + _MAX_TIMESTAMP_POSITION],
            _MAX_TIMESTAMP.pack(latest_ms),
            memoryview(records)[_FRONT.size + _MAX_TIMESTAMP_POSITION + _MAX_TIMESTAMP.size :],
        )
    )
    return _FRONT.pack(base_offset, length, leader_epoch, magic, google_crc32c.value(checked)) + checked


def encode_batch(batch: ProducedBatch, payload: bytes) -> ProducedBatch:
    """The batch with other bytes behind its header, and the header that its fields say."""
    checked = _CHECKED.pack(
        batch.attributes,
        batch.last_offset_delta,
        batch.base_timestamp_ms,
        batch.max_timestamp_ms,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.record_count,
    )
    checked += payload
    size = len(checked) + _FRONT.size - _LENGTH_END
    front = _FRONT.pack(batch.base_offset, size, batch.leader_epoch, _MAGIC, google_crc32c.value(checked))
    return replace(batch, records=front + checked)


def _checksum(data: bytes, position: int) -> int:
    """The checksum of the bytes from a position on. In pieces, because a large slice costs more than its checksum."""
    found: int = google_crc32c.value(data[position : position + _CHECKED_AT_ONCE])
    for at in range(position + _CHECKED_AT_ONCE, len(data), _CHECKED_AT_ONCE):
        found = google_crc32c.extend(found, data[at : at + _CHECKED_AT_ONCE])
    return found


def _whole_batch(data: bytes | memoryview, position: int) -> int | RefusedBatch | None:
    """The size of the batch at `position`; None if it is not complete."""
    available = len(data) - position
    if available < _LENGTH_END:
        return None
    length = int.from_bytes(data[position + 8 : position + _LENGTH_END], "big", signed=True)
    if length < _SMALLEST_LENGTH:
        reason = f"Record size {length} is less than the minimum record overhead ({_SMALLEST_LENGTH})"
        return RefusedBatch(ErrorCode.CORRUPT_MESSAGE, reason)
    if available <= _MAGIC_POSITION:
        return None
    magic = data[position + _MAGIC_POSITION]
    if magic > _MAGIC:
        return _corrupt(f"Invalid magic found in record: {magic - 256 if magic > 127 else magic}")
    if length >= _BEYOND_AN_INT:
        return RefusedBatch(ErrorCode.UNKNOWN_SERVER_ERROR, f"No record batch has a length of {length}.")
    return _LENGTH_END + length if _LENGTH_END + length <= available else None


def check_batch(data: bytes, max_message_bytes: int) -> ProducedBatch | RefusedBatch:
    """The batch, if its header is as a producer's has to be."""
    if any(data[:8]):
        return _invalid_to_log("The base offset of a record batch that is produced is 0.")
    size = len(data)
    if size > max_message_bytes:
        reason = f"The record batch has {size} bytes, more than max.message.bytes ({max_message_bytes})."
        return RefusedBatch(ErrorCode.MESSAGE_TOO_LARGE, reason)
    if size < HEADER_BYTES:
        return _corrupt(f"{size} bytes are no record batch.")
    checksum = int.from_bytes(data[_FRONT.size - 4 : _FRONT.size], "big")
    if _checksum(data, _FRONT.size) != checksum:
        return _corrupt("The checksum of the record batch is wrong.")
    batch = decode_header(data)
    if batch.compression >= _CODECS:
        reason = f"There is no compression {batch.compression}."
        return RefusedBatch(ErrorCode.UNKNOWN_SERVER_ERROR, reason, by_log=True)
    if not 0 < batch.record_count == batch.last_offset_delta + 1:
        return _invalid_to_log(f"{batch.record_count} records have no last offset delta of {batch.last_offset_delta}.")
    if batch.is_control:
        return _invalid_to_log("Clients do not write control records.")
    if batch.is_idempotent and batch.base_sequence < 0:
        return _invalid_to_log(f"A producer's batches have no sequence number {batch.base_sequence}.")
    return batch


def _invalid(reason: str) -> RefusedBatch:
    return RefusedBatch(ErrorCode.INVALID_RECORD, reason)


def _invalid_to_log(reason: str) -> RefusedBatch:
    return RefusedBatch(ErrorCode.INVALID_RECORD, reason, by_log=True)


def _corrupt(reason: str) -> RefusedBatch:
    return RefusedBatch(ErrorCode.CORRUPT_MESSAGE, reason)
