"""Message sets: records in the formats 0 and 1 (magic 0 and 1), which Produce v0 to v2 carry. Apache Kafka 4.0 removed
these versions (KIP-896).

A message has a checksum, a key and a value, and in format 1 a timestamp; a compressed message holds a message set. A
set is written to the log as one batch of format 2, as by Kafka since 0.11. Errors and their order are those of Kafka's
UnifiedLog.analyzeAndValidateRecords and LogValidator. Offsets in a set mean nothing to a broker, which gives new ones.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from klamm.broker.data.codecs import LZ4, UNCOMPRESSED, DamagedPayload, pack, repaired_lz4
from klamm.broker.data.exact_records import wrapped
from klamm.broker.data.record_batches import LOG_APPEND_TIME, NO_TIMESTAMP, ProducedBatch, RefusedBatch, encode_batch
from klamm.broker.data.records import Room
from klamm.protocol.codec.varints import encode_zigzag
from klamm.protocol.errors import ErrorCode

MAGIC_POSITION: Final = 16
FORMAT_0, FORMAT_1, FORMAT_2 = range(3)
_FRONT: Final = struct.Struct(">qiIbB")
"""Offset, size of what follows, checksum of what follows it, magic, attributes."""
_SET_FRONT: Final = 12
_CHECKED_FROM: Final = 4  # behind the size
_CODEC_MASK: Final = 0b111
_LOG_APPEND_TIME_BIT: Final = 1 << 3
_SMALLEST: Final = (14, 22)
"""The smallest message of each format: checksum, magic, attributes, timestamp, two lengths."""
_LONG: Final = struct.Struct(">q")
_INT: Final = struct.Struct(">i")


class Message(NamedTuple):
    """One message. `timestamp_ms` is -1 in format 0."""

    magic: int
    attributes: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None

    @property
    def codec(self) -> int:
        return self.attributes & _CODEC_MASK


class _Refused(Exception):
    """The set is refused for a reason."""

    def __init__(self, refusal: RefusedBatch) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def is_message_set(records: bytes | memoryview | None) -> bool:
    """Whether the records begin with a message of format 0 or 1."""
    return records is not None and len(records) > MAGIC_POSITION and records[MAGIC_POSITION] < FORMAT_2


def is_without_message(records: bytes | memoryview | None) -> bool:
    """Whether there is no whole message or batch, which Kafka appends in Produce v0 to v2 without an error."""
    if records is None or len(records) <= MAGIC_POSITION:
        return True
    size = _INT.unpack_from(records, 8)[0]
    return bool(size >= _SMALLEST[0] and len(records) < _SET_FRONT + size)


def read_message_set(data: bytes, max_message_bytes: int, room: Room) -> ProducedBatch | RefusedBatch:
    """The messages as a batch of format 2 in the same compression, or why they are refused. Raises NoRoom."""
    try:
        codec, messages = _all_messages(data, max_message_bytes, room)
        return _batch_of(codec, messages)
    except _Refused as refused:
        return refused.refusal
    except DamagedPayload:
        return RefusedBatch(ErrorCode.UNKNOWN_SERVER_ERROR, "A compressed message cannot be uncompressed.", by_log=True)


def _all_messages(data: bytes, max_message_bytes: int, room: Room) -> tuple[int, list[Message]]:
    outer: list[Message] = []
    for message, size in _messages(data, room):
        if size > max_message_bytes:
            reason = f"The message has {size} bytes, more than max.message.bytes ({max_message_bytes})."
            raise _Refused(RefusedBatch(ErrorCode.MESSAGE_TOO_LARGE, reason))
        outer.append(message)
    codec = max((message.codec for message in outer), default=UNCOMPRESSED)
    if codec == UNCOMPRESSED:
        return codec, outer
    if len(outer) > 1:
        raise _invalid("There is a compressed message, and others beside it.")
    return codec, _inner(outer[0], room)


def _messages(data: bytes, room: Room) -> Iterator[tuple[Message, int]]:
    """The whole messages of a set with their sizes; what follows the last one is dropped."""
    at = 0
    while len(data) - at > MAGIC_POSITION:
        _, size, checksum, magic, attributes = _FRONT.unpack_from(data[at : at + _FRONT.size].ljust(_FRONT.size, b"\0"))
        if size < _SMALLEST[0]:
            raise _corrupt(f"Record size {size} is less than the minimum record overhead ({_SMALLEST[0]})")
        if magic not in (FORMAT_0, FORMAT_1):
            raise _corrupt(f"Invalid magic found in record: {magic}") if magic != FORMAT_2 else _invalid("Two formats.")
        end = at + _SET_FRONT + size
        if end > len(data):
            return
        room.take_exact_records(1)
        body = data[at + _SET_FRONT + _CHECKED_FROM : end]
        if size < _SMALLEST[magic] or zlib.crc32(body) != checksum:
            raise _corrupt(f"Record is corrupt (stored crc = {checksum}, computed crc = {zlib.crc32(body)})")
        yield _message(magic, attributes, body), end - at
        at = end


def _message(magic: int, attributes: int, body: bytes) -> Message:
    """`body` begins with the magic."""
    at, timestamp_ms = 2, NO_TIMESTAMP
    if magic == FORMAT_1:
        (timestamp_ms,) = _LONG.unpack_from(body, at)
        at += _LONG.size
    key, at = _bytes_at(body, at)
    value, at = _bytes_at(body, at)
    return Message(magic, attributes, timestamp_ms, key, value)


def _bytes_at(body: bytes, at: int) -> tuple[bytes | None, int]:
    if at + _INT.size > len(body):
        raise _corrupt("A message ends within a field.")
    (size,) = _INT.unpack_from(body, at)
    at += _INT.size
    if size < 0:
        return None, at
    if at + size > len(body):
        raise _corrupt(f"A field of a message has {size} bytes, more than the message.")
    return body[at : at + size], at + size


def _inner(outer: Message, room: Room) -> list[Message]:
    """The messages in a compressed one."""
    codec = outer.codec
    if codec > LZ4:
        raise _Refused(RefusedBatch(ErrorCode.UNKNOWN_SERVER_ERROR, f"Format {outer.magic} has no codec {codec}."))
    if outer.value is None:
        raise _invalid(f"Found invalid compressed record set with null value (magic = {outer.magic})")
    payload = outer.value
    if codec == LZ4 and outer.magic == FORMAT_0:
        payload = repaired_lz4(payload)
    inner = []
    for message, _ in _messages(room.unpacked(codec, payload), room):
        if message.magic != outer.magic:
            raise _invalid(f"Compressed message magic {outer.magic} does not match inner magic {message.magic}")
        if message.codec != UNCOMPRESSED:
            raise _invalid("Compressed outer record should not have an inner record with a compression attribute set")
        inner.append(message)
    if not inner:
        raise _invalid("Found invalid compressed record set with no inner records")
    if outer.attributes & _LOG_APPEND_TIME_BIT and outer.magic == FORMAT_1:
        inner[0] = inner[0]._replace(attributes=inner[0].attributes | _LOG_APPEND_TIME_BIT)
    return inner


def _batch_of(codec: int, messages: list[Message]) -> ProducedBatch | RefusedBatch:
    if not messages:
        return RefusedBatch(ErrorCode.INVALID_RECORD, "There is no whole message.")
    base_ms = messages[0].timestamp_ms
    payload = bytearray()
    for place, message in enumerate(messages):
        front = b"\0" + encode_zigzag(wrapped(message.timestamp_ms - base_ms)) + encode_zigzag(place)
        record = b"".join((front, _field(message.key), _field(message.value), b"\0"))
        payload += encode_zigzag(len(record))
        payload += record
    has_log_append_time = any(message.attributes & _LOG_APPEND_TIME_BIT for message in messages if message.magic)
    batch = ProducedBatch(
        records=b"",
        base_offset=0,
        leader_epoch=-1,
        attributes=codec | (LOG_APPEND_TIME if has_log_append_time else 0),
        last_offset_delta=len(messages) - 1,
        base_timestamp_ms=base_ms,
        max_timestamp_ms=max(message.timestamp_ms for message in messages),
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=len(messages),
    )
    return encode_batch(batch, pack(codec, bytes(payload)))


def _field(value: bytes | None) -> bytes:
    return encode_zigzag(-1) if value is None else encode_zigzag(len(value)) + value


def encode_message(offset: int, message: Message) -> bytes:
    """The message in its format, with its offset."""
    timestamp = _LONG.pack(message.timestamp_ms) if message.magic == FORMAT_1 else b""
    body = b"".join((bytes((message.magic, message.attributes)), timestamp, _sized(message.key), _sized(message.value)))
    return struct.pack(">qiI", offset, len(body) + _CHECKED_FROM, zlib.crc32(body)) + body


def _sized(value: bytes | None) -> bytes:
    return _INT.pack(-1) if value is None else _INT.pack(len(value)) + value


def _invalid(reason: str) -> _Refused:
    return _Refused(RefusedBatch(ErrorCode.INVALID_RECORD, reason, by_log=True))


def _corrupt(reason: str) -> _Refused:
    return _Refused(RefusedBatch(ErrorCode.CORRUPT_MESSAGE, reason))
