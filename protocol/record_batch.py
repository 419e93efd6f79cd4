"""Record batches v2: the metadata log's records as bytes, and back. No files, no compression.

One append is one batch. A metadata record's value is a frame version (1), the record's id, its version and its body;
a control record's key is a version (0) and a type. Checksums are CRC-32C over everything after the checksum.
"""

import mmap
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import google_crc32c

from klamm.protocol.codec.messages import encode_message_into, message_decoder
from klamm.protocol.codec.streams import Buffer
from klamm.protocol.codec.varints import decode_uvarint, decode_zigzag, encode_uvarint, encode_zigzag
from klamm.protocol.columns import Columns
from klamm.protocol.errors import ProtocolError
from klamm.protocol.fields import Message, cached
from klamm.protocol.record_versions import (
    LATEST_METADATA_VERSION,
    depends_on_content,
    load_control_type,
    load_record_type,
    metadata_record_version,
    record_type_of,
    written_version,
)
from klamm.quick_dataclasses import dataclass

MAX_BATCH_BYTES = 1 << 30
FRAME_VERSION = 1
CONTROL_VERSION = 0
"""The version of every control record's key and value. Readers expect it, whatever the schemas declare."""

_MAGIC = 2
_CONTROL_ATTRIBUTE = 1 << 5
_COMPRESSION_MASK = 0b111
# base offset, length of what follows, leader epoch, magic, checksum; the checksum covers what comes after it
_FRONT = struct.Struct(">qiibI")
# attributes, last offset delta, first and last timestamp, producer id, producer epoch, base sequence, record count
_CHECKED = struct.Struct(">hiqqqhii")
_LENGTH_AT = 8
_LENGTH_END = 12
# Producer id, producer epoch and base sequence, all -1 in every batch of a metadata log: a batch is found by them.
_NO_PRODUCER = b"\xff" * 14
_NO_PRODUCER_AT = 43
HEADER_BYTES = _FRONT.size + _CHECKED.size
_CONTROL_KEY = struct.Struct(">hh")
_SHORT_DELTAS = 64
"""Offset deltas below are one byte: twice the number, for they are signed varints."""
_MIN_RECORDS_WITH_RUNS = 32
"""The least number of records in a batch for which runs of records are searched."""


class CorruptBatch(ProtocolError):
    """A batch that cannot be read. `position` is its first byte; `torn` is True if the bytes end too early.

    A tail of zeros counts as torn, too, because file systems leave such tails after a crash. A batch with a damaged
    length may also seem torn. A caller with the whole file therefore checks whether sound batches follow.
    """

    def __init__(self, reason: str, *, position: int, torn: bool) -> None:
        super().__init__(reason, offset=position, path="batch")
        self.position = position
        self.torn = torn


class BatchHeader(NamedTuple):
    """The offsets and the leader epoch of a batch."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    is_control: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """One decoded batch: its records, the control records of a control batch included, in order."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    timestamp_ms: int
    is_control: bool
    contents: list[Message | Columns[Any]]
    """The records. A long run of partition records is a `Columns`, which is faster to replay."""
    size_bytes: int

    @property
    def records(self) -> list[Message]:
        """The records one by one; records in columns are created by this call."""
        return [
            record for content in self.contents for record in (content if isinstance(content, Columns) else (content,))
        ]


class BatchBuilder:
    """Encodes a batch of metadata records in steps, each record in the version that `metadata_version` requires. The
    offset is given at the end, to `finish`."""

    def __init__(self, metadata_version: int) -> None:
        self.metadata_version: Final = metadata_version
        self._out = Buffer(HEADER_BYTES)
        self._count = 0

    def add(self, records: Iterable[Message | Columns[Any]]) -> None:
        """Add records after the earlier ones. Each row of a `Columns` is one record."""
        for record in records:
            if isinstance(record, Message):
                _append_metadata_record(self._out, self._count, record, self.metadata_version)
                self._count += 1
            else:
                _append_columns(self._out, self._count, record, self.metadata_version)
                self._count += len(record)

    def finish(self, base_offset: int, leader_epoch: int, timestamp_ms: int) -> bytes:
        """The bytes of the batch. Do not add records after this call."""
        return _finish(self._out, base_offset, leader_epoch, timestamp_ms, self._count, 0)


def encode_batch(
    base_offset: int,
    leader_epoch: int,
    timestamp_ms: int,
    records: Sequence[Message | Columns[Any]],
    metadata_version: int = LATEST_METADATA_VERSION,
) -> bytes:
    """One batch of metadata records (`BatchBuilder`)."""
    batch = BatchBuilder(metadata_version)
    batch.add(records)
    return batch.finish(base_offset, leader_epoch, timestamp_ms)


def encode_control_batch(base_offset: int, leader_epoch: int, timestamp_ms: int, records: Sequence[Message]) -> bytes:
    """One batch of control records (LeaderChangeMessage, SnapshotHeaderRecord, ...), all in version 0."""
    out = Buffer(HEADER_BYTES)
    for index, record in enumerate(records):
        control_type = record_type_of(type(record))
        value = Buffer()
        encode_message_into(value, record, CONTROL_VERSION, control_type.flexible(CONTROL_VERSION))
        _append_record(out, index, _CONTROL_KEY.pack(CONTROL_VERSION, control_type.id), value)
    return _finish(out, base_offset, leader_epoch, timestamp_ms, len(records), _CONTROL_ATTRIBUTE)


def _append_columns(out: Buffer, offset_delta: int, columns: Columns[Any], metadata_version: int) -> None:
    from klamm.protocol.codec.columns import build_records  # NumPy is not imported before its first use

    fixed = _fixed_version(columns.message_class, metadata_version)
    if fixed is not None:
        version, prefix, flexible = fixed
        if build_records(out, columns, version, flexible, offset_delta, prefix):
            return
    for index, row in enumerate(columns, offset_delta):
        _append_metadata_record(out, index, row, metadata_version)


@cached
def _value_prefix(record_id: int, version: int) -> bytes:
    return encode_uvarint(FRAME_VERSION) + encode_uvarint(record_id) + encode_uvarint(version)


def _append_metadata_record(out: Buffer, offset_delta: int, record: Message, metadata_version: int) -> None:
    fixed = _fixed_version(type(record), metadata_version)
    if fixed is None:
        record_type = record_type_of(type(record))
        version = written_version(record_type, record, metadata_version)
        prefix, flexible = _value_prefix(record_type.id, version), record_type.flexible(version)
    else:
        version, prefix, flexible = fixed
    value = Buffer(prefix)
    encode_message_into(value, record, version, flexible)
    _append_record(out, offset_delta, None, value)


@cached
def _fixed_version(message_class: type[Message], metadata_version: int) -> tuple[int, bytes, bool] | None:
    """The version in which all records of the class are written, the prefix of their values, and whether that version
    is flexible; None if the version also depends on a record's fields."""
    record_type = record_type_of(message_class)
    if depends_on_content(record_type):
        return None
    version = metadata_record_version(record_type, metadata_version)
    return version, _value_prefix(record_type.id, version), record_type.flexible(version)


def _append_record(out: Buffer, offset_delta: int, key: bytes | None, value: Buffer) -> None:
    # attributes 0, timestamp delta 0: all records of a batch have its time
    head = b"\0\0" + encode_zigzag(offset_delta)
    head += b"\1" if key is None else encode_zigzag(len(key)) + key
    head += encode_zigzag(len(value))
    out += encode_zigzag(len(head) + len(value) + 1)
    out += head
    out += value
    out.append(0)  # no record headers


def _finish(out: Buffer, base_offset: int, leader_epoch: int, timestamp_ms: int, count: int, attributes: int) -> bytes:
    if not count:
        raise ValueError("a batch has at least one record")
    _CHECKED.pack_into(out, _FRONT.size, attributes, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count)
    checksum = google_crc32c.value(bytes(memoryview(out)[_FRONT.size :]))
    _FRONT.pack_into(out, 0, base_offset, len(out) - _LENGTH_END, leader_epoch, _MAGIC, checksum)
    return bytes(out)


def decode_batches(data: bytes, position: int = 0) -> Iterator[Batch]:
    """The batches of `data` from `position` on. Raises CorruptBatch at the first bytes that are no batch."""
    while position < len(data):
        batch = decode_batch(data, position)
        position += batch.size_bytes
        yield batch


def decode_batch_header(data: bytes, position: int) -> BatchHeader:
    """The header of the batch at `position`, which must be whole (`check_batch`). The checksum covers neither the base
    offset nor the leader epoch nor the length: a log has to check those against their neighbours itself."""
    base_offset, _, leader_epoch, _, _ = _FRONT.unpack_from(data, position)
    attributes, last_delta, *_ = _CHECKED.unpack_from(data, position + _FRONT.size)
    return BatchHeader(base_offset, base_offset + last_delta, leader_epoch, bool(attributes & _CONTROL_ATTRIBUTE))


def batch_timestamp_ms(data: bytes, position: int) -> int:
    """The time of the newest record of the batch at `position`, which must be whole."""
    timestamp_ms: int = _CHECKED.unpack_from(data, position + _FRONT.size)[3]
    return timestamp_ms


def batch_end(data: bytes, position: int) -> int:
    """Where the batch at `position` ends, by the length in its header, which must be there; the rest need not be."""
    length: int = _FRONT.unpack_from(data, position)[1]
    return position + _LENGTH_END + length


def decode_batch(data: bytes, position: int) -> Batch:
    """The batch that begins at `position`."""
    end = check_batch(data, position)
    base_offset, _, leader_epoch, _, _ = _FRONT.unpack_from(data, position)
    attributes, last_delta, timestamp_ms, _, _, _, _, count = _CHECKED.unpack_from(data, position + _FRONT.size)
    is_control = bool(attributes & _CONTROL_ATTRIBUTE)
    decode = _decode_control_record if is_control else _decode_metadata_record
    contents: list[Message | Columns[Any]] = []
    index, at = 0, position + HEADER_BYTES
    try:
        if attributes & _COMPRESSION_MASK:
            raise ProtocolError("compressed batch")
        runs = {} if is_control else _decode_runs(data, at, end, count)
        while at < end:
            if index in runs:
                columns, at = runs[index]
                contents.append(columns)
                index += len(columns)
            else:
                record, at = _decode_record(data, at, index, decode)
                contents.append(record)
                index += 1
        if at != end or index != count or count != last_delta + 1:
            raise ProtocolError(f"batch of {count} records, last offset delta {last_delta}, has {index}")
    except IndexError:
        raise CorruptBatch("record exceeds its batch", position=position, torn=False) from None
    except ProtocolError as error:
        reason = f"record {index} of the batch at offset {base_offset}: {error}"
        raise CorruptBatch(reason, position=position, torn=False) from error
    return Batch(
        base_offset=base_offset,
        last_offset=base_offset + last_delta,
        leader_epoch=leader_epoch,
        timestamp_ms=timestamp_ms,
        is_control=is_control,
        contents=contents,
        size_bytes=end - position,
    )


def _decode_runs(data: bytes, at: int, end: int, count: int) -> Mapping[int, tuple[Columns[Any], int]]:
    if count < _MIN_RECORDS_WITH_RUNS:
        return {}
    from klamm.protocol.codec.column_records import decode_runs  # NumPy is not imported before its first use

    return decode_runs(data, at, end, count)


def check_batch(data: bytes, position: int) -> int:
    """The end of the batch at `position`. Raises CorruptBatch if its header or its checksum is wrong."""
    available = len(data) - position
    if available < HEADER_BYTES:
        raise CorruptBatch(f"{available} bytes are no batch", position=position, torn=True)
    _, length, _, magic, checksum = _FRONT.unpack_from(data, position)
    if length == 0 and not any(memoryview(data)[position:]):
        raise CorruptBatch(f"{available} zero bytes", position=position, torn=True)
    if magic != _MAGIC:
        raise CorruptBatch(f"batch format {magic}, not {_MAGIC}", position=position, torn=False)
    size = _LENGTH_END + length
    if size < HEADER_BYTES or size > MAX_BATCH_BYTES:
        raise CorruptBatch(f"batch of {size} bytes", position=position, torn=False)
    if size > available:
        raise CorruptBatch(f"batch of {size} bytes, {available} are there", position=position, torn=True)
    actual: int = google_crc32c.value(data[position + _FRONT.size : position + size])
    if actual != checksum:
        reason = f"checksum {actual:08x}, the batch says {checksum:08x}"
        raise CorruptBatch(reason, position=position, torn=False)
    return position + int(size)


def find_sound_batch(data: bytes | mmap.mmap, start: int) -> int | None:
    """The first position from `start` on where a whole batch without a producer and with the right checksum begins,
    as all of a metadata log are; None if there is none."""
    marker = data.find(_NO_PRODUCER, start + _NO_PRODUCER_AT)
    while marker >= 0:
        position = marker - _NO_PRODUCER_AT
        end = position + _LENGTH_END + int.from_bytes(data[position + _LENGTH_AT : position + _LENGTH_END], "big")
        if position + HEADER_BYTES <= end <= len(data) and is_sound_batch(data[position:end]):
            return position
        marker = data.find(_NO_PRODUCER, marker + 1)
    return None


def is_sound_batch(data: bytes) -> bool:
    """Whether these bytes are one whole batch with the right checksum."""
    try:
        return check_batch(data, 0) == len(data)
    except CorruptBatch:
        return False


def _decode_record(data: bytes, at: int, index: int, decode: Any) -> tuple[Message, int]:
    length, at = decode_zigzag(data, at, 5)
    end = at + length
    if length < 0 or end > len(data):
        raise ProtocolError(f"record of {length} bytes", offset=at)
    if index < _SHORT_DELTAS and data[at + 1] == 0 and data[at + 2] == 2 * index and data[at + 3] == 1:
        key, at = b"", at + 4  # the head of most records, at once: no timestamp delta, a short offset delta, no key
    else:
        _, at = decode_zigzag(data, at + 1, 10)  # after the attributes: the timestamp delta
        delta, at = decode_zigzag(data, at, 5)
        if delta != index:
            raise ProtocolError(f"offset delta {delta}, not {index}", offset=at)
        key_length, at = decode_zigzag(data, at, 5)
        key = data[at : at + max(key_length, 0)]
        at += max(key_length, 0)
    value_length, at = decode_zigzag(data, at, 5)
    if value_length < 0 or at + value_length + 1 != end or data[end - 1] != 0:
        raise ProtocolError(f"value of {value_length} bytes, or headers", offset=at)
    record: Message = decode(key, data, at, at + value_length)
    return record, end


_Decoder = Callable[[bytes, int], tuple[Message, int]]
_decoders: dict[bytes, _Decoder] = {}
"""By the first three bytes of a value (frame version, id, version): only ids and versions that exist are in it."""


def _decode_metadata_record(_key: bytes, data: bytes, at: int, end: int) -> Message:
    decode = _decoders.get(data[at : at + 3])
    if decode is None:
        decode = _metadata_decoder(data, at)
    message, after = decode(data, at + 3)
    if after != end:
        raise ProtocolError(f"{type(message).__name__} takes {after - at} bytes of {end - at}", offset=at)
    return message


def _metadata_decoder(data: bytes, at: int) -> _Decoder:
    start = at
    frame_version, at = decode_uvarint(data, at)
    record_id, at = decode_uvarint(data, at)
    version, at = decode_uvarint(data, at)
    if frame_version != FRAME_VERSION:
        raise ProtocolError(f"frame version {frame_version}", offset=start)
    record_type = load_record_type(record_id)
    if record_type is None or version not in record_type.versions:
        raise ProtocolError(f"no metadata record {record_id} of version {version}", offset=start)
    decode = message_decoder(record_type.message, version, record_type.flexible(version))
    if at != start + 3:  # written in more bytes than needed
        return lambda data, _: decode(data, at)
    return _decoders.setdefault(data[start:at], decode)


def _decode_control_record(key: bytes, data: bytes, at: int, end: int) -> Message:
    if len(key) != _CONTROL_KEY.size:
        raise ProtocolError(f"control record key of {len(key)} bytes", offset=at)
    _, control_id = _CONTROL_KEY.unpack(key)
    control_type = load_control_type(control_id)
    if control_type is None:
        raise ProtocolError(f"no control record {control_id}", offset=at)
    flexible = control_type.flexible(CONTROL_VERSION)
    message, after = message_decoder(control_type.message, CONTROL_VERSION, flexible)(data, at)
    if after != end:
        raise ProtocolError(f"{control_type.name} takes {after - at} bytes of {end - at}", offset=at)
    return message
