"""Whole records of the batches in a log, uncompressed: keys, values and headers as bytes.

Nothing that decides needs them; they are read for tests that ask what a topic holds.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from klamm.broker.data.codecs import CODEC_NAMES, DamagedPayload, PayloadTooLarge, unpack
from klamm.broker.data.record_batches import HEADER_BYTES, ProducedBatch, decode_header
from klamm.protocol.codec.varints import decode_zigzag
from klamm.protocol.errors import ProtocolError

_LENGTH_END: Final = 12


class UnreadableRecords(Exception):
    """The records of a batch cannot be read. The text is one clause for users."""


class RecordContents(NamedTuple):
    """One record. `key`, `value` and the values of headers may be None; the time is in ms since 1970."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def split_batches(data: bytes) -> Iterator[ProducedBatch]:
    """The batches in the bytes of a log, which are whole."""
    position = 0
    while position < len(data):
        size = _LENGTH_END + int.from_bytes(data[position + 8 : position + _LENGTH_END], "big")
        yield decode_header(data[position : position + size])
        position += size


def decode_records(batch: ProducedBatch, most_bytes: int) -> Iterator[RecordContents]:
    """The records of a batch, in order. Raises UnreadableRecords if they are damaged, or if they have
    more than `most_bytes` uncompressed."""
    codec = CODEC_NAMES[batch.compression]
    try:
        payload = unpack(batch.compression, batch.records[HEADER_BYTES:], most_bytes)
    except DamagedPayload:
        raise UnreadableRecords(f"the {codec} batch at offset {batch.base_offset} cannot be uncompressed") from None
    except PayloadTooLarge:
        raise UnreadableRecords(
            f"the {codec} batch at offset {batch.base_offset} has more than {most_bytes} bytes uncompressed"
        ) from None
    position = 0
    try:
        for _ in range(batch.record_count):
            record, position = _decode_record(payload, position, batch)
            yield record
    except (IndexError, ProtocolError, UnicodeDecodeError):
        raise UnreadableRecords(f"the batch at offset {batch.base_offset} has a damaged record") from None


def _decode_record(payload: bytes, position: int, batch: ProducedBatch) -> tuple[RecordContents, int]:
    length, position = decode_zigzag(payload, position, 5)
    end = position + length
    timestamp_delta, position = decode_zigzag(payload, position + 1, 10)  # after the attributes
    offset_delta, position = decode_zigzag(payload, position, 5)
    key, position = _decode_bytes(payload, position)
    value, position = _decode_bytes(payload, position)
    count, position = decode_zigzag(payload, position, 5)
    headers = []
    for _ in range(count):
        name, position = _decode_bytes(payload, position)
        held, position = _decode_bytes(payload, position)
        headers.append(((name or b"").decode(), held))
    if position != end:
        raise ProtocolError(f"record of {length} bytes", offset=position)
    timestamp_ms = batch.max_timestamp_ms if batch.has_log_append_time else batch.base_timestamp_ms + timestamp_delta
    return RecordContents(batch.base_offset + offset_delta, timestamp_ms, key, value, tuple(headers)), end


def _decode_bytes(payload: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = decode_zigzag(payload, position, 5)
    if length < 0:
        return None, position
    end = position + length
    if end > len(payload):
        raise ProtocolError(f"{length} bytes", offset=position)
    return payload[position:end], end
