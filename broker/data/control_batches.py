"""Control batches that end a transaction in a partition: the markers COMMIT and ABORT (KIP-98).

The key of the one record is its version and its type (int16 each; 0: abort, 1: commit), the value its version (int16)
and the epoch of the transaction coordinator (int32). Source: Kafka's ControlRecordType and EndTxnMarker.
"""

import struct
from typing import Final, NamedTuple

import google_crc32c

from klamm.broker.data.record_batches import CONTROL, HEADER_BYTES, TRANSACTIONAL, ProducedBatch, decode_header
from klamm.protocol.codec.varints import decode_zigzag

_HEADER: Final = struct.Struct(">qiibI")
_CHECKED: Final = struct.Struct(">hiqqqhii")
_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1
NO_SEQUENCE: Final = -1


class EndMarker(NamedTuple):
    """The end of a producer's transaction."""

    is_commit: bool
    coordinator_epoch: int


def encode_marker(producer_id: int, producer_epoch: int, marker: EndMarker, now_ms: int) -> ProducedBatch:
    """The control batch of a marker."""
    key = _KEY.pack(0, _COMMIT if marker.is_commit else _ABORT)
    value = _VALUE.pack(0, marker.coordinator_epoch)
    # Attributes and both deltas are 0; lengths are zigzag varints, one byte each; there are no headers.
    body = b"\0\0\0" + bytes([2 * len(key)]) + key + bytes([2 * len(value)]) + value + b"\0"
    content = bytes([2 * len(body)]) + body
    attributes = TRANSACTIONAL | CONTROL
    checked = _CHECKED.pack(attributes, 0, now_ms, now_ms, producer_id, producer_epoch, NO_SEQUENCE, 1) + content
    front = _HEADER.pack(0, len(checked) + HEADER_BYTES - _CHECKED.size - 12, -1, 2, google_crc32c.value(checked))
    return decode_header(front + checked)


def read_marker(batch: ProducedBatch) -> EndMarker:
    """The marker in a control batch."""
    data = batch.records
    _, at = decode_zigzag(data, HEADER_BYTES, 5)
    _, at = decode_zigzag(data, at + 1, 10)
    _, at = decode_zigzag(data, at, 5)
    key_size, at = decode_zigzag(data, at, 5)
    _, kind = _KEY.unpack_from(data, at)
    _, at = decode_zigzag(data, at + key_size, 5)
    _, coordinator_epoch = _VALUE.unpack_from(data, at)
    return EndMarker(kind == _COMMIT, coordinator_epoch)
