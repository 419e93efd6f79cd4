"""Varints: seven bits per byte, the low bits first, at most five bytes for 32 bits.

Emitted code handles one-byte values inline and calls these functions for longer ones.
"""

from klamm.protocol.errors import ProtocolError

MAX_STRING_BYTES = 32767


def decode_uvarint(data: bytes, position: int) -> tuple[int, int]:
    """The value at `position` and the position after it. Raises IndexError at the end of the data.

    The loop is unrolled for speed, because each batch of records is preceded by a length of three bytes.
    """
    value = data[position]
    if value < 0x80:
        return value, position + 1
    second = data[position + 1]
    value += (second << 7) - 0x80
    if second < 0x80:
        return value, position + 2
    third = data[position + 2]
    value += (third << 14) - 0x4000
    if third < 0x80:
        return value, position + 3
    fourth = data[position + 3]
    value += (fourth << 21) - 0x20_0000
    if fourth < 0x80:
        return value, position + 4
    fifth = data[position + 4]
    if fifth >= 0x80:
        raise ProtocolError("varint longer than 5 bytes", offset=position)
    if fifth >= 0x10:
        raise ProtocolError("varint exceeds 32 bits", offset=position)
    return value + (fifth << 28) - 0x1000_0000, position + 5


def encode_uvarint(value: int) -> bytes:
    """The varint of `value`, 0 <= value < 2**32."""
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value > 0xFFFFFFFF:
        raise ProtocolError(f"{value} exceeds 32 bits")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_string_length(size_plus_one: int) -> bytes:
    """The compact length of a string; Kafka allows 32767 bytes in either encoding."""
    if size_plus_one > MAX_STRING_BYTES + 1:
        raise ProtocolError(f"string of {size_plus_one - 1} bytes exceeds {MAX_STRING_BYTES}")
    return encode_uvarint(size_plus_one)


def decode_length(data: bytes, position: int) -> tuple[int, int]:
    """A compact length plus one, decoded like `decode_uvarint`: 0 (null) if it is negative as Kafka's 32-bit int."""
    value, after = decode_uvarint(data, position)
    return value if value <= 1 << 31 else 0, after


def decode_tag_count(data: bytes, position: int) -> tuple[int, int]:
    """The number of tagged fields, decoded like `decode_uvarint`: 0 if it is negative as Kafka's 32-bit int."""
    value, after = decode_uvarint(data, position)
    return value if value < 1 << 31 else 0, after


def decode_string_length(data: bytes, position: int) -> tuple[int, int]:
    """Like `decode_length`, for a string."""
    size_plus_one, after = decode_length(data, position)
    if size_plus_one > MAX_STRING_BYTES + 1:
        raise ProtocolError(f"string of {size_plus_one - 1} bytes exceeds {MAX_STRING_BYTES}", offset=position)
    return size_plus_one, after


def decode_zigzag(data: bytes, position: int, max_bytes: int) -> tuple[int, int]:
    """The signed varint at `position`, of at most `max_bytes` (5 for 32 bits, 10 for 64), and the position after it."""
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value = shift = 0
    for at in range(position, position + max_bytes):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + 1
        shift += 7
    raise ProtocolError(f"varint longer than {max_bytes} bytes", offset=position)


_ONE_BYTE = tuple(bytes((value,)) for value in range(0x80))


def encode_zigzag(value: int) -> bytes:
    """The signed varint of `value`, of up to 64 bits."""
    rest = (value << 1) ^ (value >> 63)
    if rest < 0x80:
        return _ONE_BYTE[rest]
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
