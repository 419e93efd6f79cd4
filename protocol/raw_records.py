"""The records of one batch before they are decoded, for readers that skip records of an unknown type."""

from struct import Struct
from typing import Final, NamedTuple

from klamm.protocol.codec.messages import message_decoder
from klamm.protocol.codec.varints import decode_uvarint, decode_zigzag
from klamm.protocol.errors import ProtocolError
from klamm.protocol.fields import Message
from klamm.protocol.record_batch import CONTROL_VERSION, FRAME_VERSION
from klamm.protocol.record_versions import load_control_type, load_record_type

_CONTROL_KEY: Final = Struct(">hh")


class RawRecord(NamedTuple):
    """A record of a batch, with its value not decoded."""

    offset_delta: int
    key: bytes
    value: bytes


class UnknownRecord(ProtocolError):
    """A metadata record with an id or a version that is not declared, most likely of a newer Kafka."""

    def __init__(self, record_id: int, version: int) -> None:
        super().__init__(f"no metadata record {record_id} of version {version}", offset=0)
        self.record_id = record_id
        self.version = version


def read_record(data: bytes, at: int, end: int) -> tuple[RawRecord, int]:
    """The record that begins at `at` in a batch that ends at `end`, and the position after it. A null key or value is
    returned as an empty one. Raises ProtocolError for bytes that are no record."""
    try:
        length, at = decode_zigzag(data, at, 5)
        record_end = at + length
        if length < 0 or record_end > end:
            raise ProtocolError(f"record of {length} bytes", offset=at)
        _, at = decode_zigzag(data, at + 1, 10)  # after the attributes: the timestamp delta
        delta, at = decode_zigzag(data, at, 5)
        key_length, at = decode_zigzag(data, at, 5)
        key = data[at : at + max(key_length, 0)]
        at += len(key)
        value_length, at = decode_zigzag(data, at, 5)
    except IndexError:
        raise ProtocolError("record exceeds its batch", offset=at) from None
    value_end = at + max(value_length, 0)
    if value_end > record_end:
        raise ProtocolError(f"value of {value_length} bytes", offset=at)
    return RawRecord(delta, key, data[at:value_end]), record_end


def decode_metadata_value(value: bytes) -> tuple[Message, int]:
    """The metadata record in a value, and its version. Raises UnknownRecord, or ProtocolError if it is damaged."""
    try:
        frame_version, at = decode_uvarint(value, 0)
        record_id, at = decode_uvarint(value, at)
        version, at = decode_uvarint(value, at)
        if frame_version != FRAME_VERSION:
            raise ProtocolError(f"frame version {frame_version}", offset=0)
        record_type = load_record_type(record_id)
        if record_type is None or version not in record_type.versions:
            raise UnknownRecord(record_id, version)
        message, after = message_decoder(record_type.message, version, record_type.flexible(version))(value, at)
    except IndexError:
        raise ProtocolError("the value ends too early", offset=len(value)) from None
    if after != len(value):
        raise ProtocolError(f"{len(value) - after} bytes left over", offset=after)
    return message, version


def decode_control_value(key: bytes, value: bytes) -> Message:
    """The control record with this key. Raises UnknownRecord, or ProtocolError if it is damaged."""
    if len(key) != _CONTROL_KEY.size:
        raise ProtocolError(f"control record key of {len(key)} bytes", offset=0)
    _, control_id = _CONTROL_KEY.unpack(key)
    control_type = load_control_type(control_id)
    if control_type is None:
        raise UnknownRecord(control_id, CONTROL_VERSION)
    try:
        decode = message_decoder(control_type.message, CONTROL_VERSION, control_type.flexible(CONTROL_VERSION))
        message, after = decode(value, 0)
    except IndexError:
        raise ProtocolError("the value ends too early", offset=len(value)) from None
    if after != len(value):
        raise ProtocolError(f"{len(value) - after} bytes left over", offset=after)
    return message
