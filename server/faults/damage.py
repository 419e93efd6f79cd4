"""Damage to the bytes of answers, and to the record batches of messages. Which byte it hits is fixed."""

from copy import copy
from typing import Any, Final

from klamm.protocol.fields import Array, Message, wire_fields

CORRELATION_ID_BYTES: Final = 4
BATCH_HEADER_BYTES: Final = 21
"""The bytes of a batch up to and with its CRC. A later byte that is another one makes the CRC wrong."""
FLIPPED: Final = 0x01


def flip_frame(payload: bytes | bytearray) -> bytes:
    """The answer with one bit of its middle byte changed; that byte is behind the correlation id."""
    damaged = bytearray(payload)
    damaged[max(CORRELATION_ID_BYTES, len(damaged) // 2) % len(damaged)] ^= FLIPPED
    return bytes(damaged)


def rename(payload: bytes | bytearray) -> bytes:
    """The answer with the next correlation id."""
    correlation_id = int.from_bytes(payload[:CORRELATION_ID_BYTES], "big", signed=True)
    following = (correlation_id + 1 + 2**31) % 2**32 - 2**31
    return following.to_bytes(CORRELATION_ID_BYTES, "big", signed=True) + payload[CORRELATION_ID_BYTES:]


def half(payload: bytes | bytearray) -> bytes:
    """The first half of the answer."""
    return bytes(payload[: len(payload) // 2])


def flip_batch(message: Message) -> Message:
    """A copy of a message in which the last byte of its first batch of records is another one; the message itself if it
    has no records."""
    changed = _flipped(message)
    return message if changed is None else changed


def _flipped(message: Any) -> Any:
    for wire in wire_fields(type(message)):
        value = getattr(message, wire.name)
        changed: Any = None
        if wire.type == "records" and value and len(value) > BATCH_HEADER_BYTES:
            end = min(len(value), 12 + int.from_bytes(value[8:12], "big"))
            changed = bytearray(value)
            changed[end - 1] ^= FLIPPED
            changed = bytes(changed)
        elif isinstance(wire.type, Array) and isinstance(wire.type.of, type):
            changed = _flipped_array(value or ())
        if changed is not None:
            damaged = copy(message)
            setattr(damaged, wire.name, changed)
            return damaged
    return None


def _flipped_array(elements: Any) -> list[Any] | None:
    for index, element in enumerate(elements):
        changed = _flipped(element)
        if changed is not None:
            damaged = list(elements)
            damaged[index] = changed
            return damaged
    return None
