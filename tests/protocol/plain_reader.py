"""A plain decoder of Kafka's wire format, byte by byte: the oracle for the faster decoders.

It uses the same declarations as `klamm.protocol.codec`, but shares no code with it. The rules are those of Kafka's
generated readers and the stricter ones of `klamm.protocol.codec.messages`: a varint has at most 32 bits, a known tagged
field has exactly its declared size, a string is UTF-8, and a count is at most the number of bytes that follow it.
"""

import struct
from typing import Any

from klamm.protocol import Message, Uuid
from klamm.protocol.fields import Array, WireField, wire_fields

FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
}


def spelled(value: int, size: int = 0) -> bytes:
    """The varint of any value, in at least so many bytes."""
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F)
    groups += [0] * (size - len(groups))
    return bytes(group | 0x80 for group in groups[:-1]) + bytes(groups[-1:])


class Refused(Exception):
    """Raised for bytes that are not valid."""


class PlainReader:
    """Bytes, and where the next value begins."""

    def __init__(self, raw: bytes, at: int = 0, errors: str = "strict") -> None:
        self.raw = raw
        self.at = at
        self.errors = errors

    def take(self, size: int) -> bytes:
        if size > len(self.raw) - self.at:
            raise Refused(f"{size} bytes are not there")
        self.at += size
        return self.raw[self.at - size : self.at]

    def uvarint(self) -> int:
        """Seven bits a byte, the low ones first: five bytes and 32 bits at most, and padding is allowed."""
        value = 0
        for place in range(5):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                if value.bit_length() > 32:
                    raise Refused("more than 32 bits")
                return value
        raise Refused("more than five bytes")

    def java_int(self) -> int:
        """An unsigned varint as Kafka has it: in an int, which is negative from 2^31 on."""
        value = self.uvarint()
        return value - 2**32 if value >= 2**31 else value

    def zigzag(self, max_bytes: int) -> int:
        """A signed varint of so many bytes at most."""
        value = 0
        for place in range(max_bytes):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return -(value + 1) // 2 if value % 2 else value // 2
        raise Refused(f"more than {max_bytes} bytes")

    def size(self, compact: bool, code: str, nullable: bool) -> int | None:
        """A length or a count; None where it is negative, which is null."""
        if compact:
            size = self.java_int() - 1
            if size < -(2**31):  # one less than the least int is the greatest
                size += 2**32
        else:
            (size,) = struct.unpack(code, self.take(struct.calcsize(code)))
        if size >= 0:
            return size
        if not nullable:
            raise Refused("null")
        return None

    def value(self, kind: Any, version: int, compact: bool, nullable: bool) -> Any:
        if isinstance(kind, Array):
            count = self.size(compact, ">i", nullable)
            return None if count is None else self.elements(kind.of, count, version, compact)
        if isinstance(kind, type):
            if nullable and struct.unpack("b", self.take(1))[0] < 0:
                return None
            return self.message(kind, version, compact)
        if kind == "string":
            size = self.size(compact, ">h", nullable)
            return None if size is None else self.text(size)
        if kind in ("bytes", "records"):
            size = self.size(compact, ">i", nullable)
            return None if size is None else self.take(size)
        if kind == "uuid":
            return Uuid(self.take(16))
        return struct.unpack(FORMATS[kind], self.take(struct.calcsize(FORMATS[kind])))[0]

    def elements(self, kind: Any, count: int, version: int, compact: bool) -> tuple[Any, ...]:
        if count > len(self.raw) - self.at:
            raise Refused("more elements than bytes")
        return tuple([self.value(kind, version, compact, False) for _ in range(count)])

    def text(self, size: int) -> str:
        if size > 32767:
            raise Refused("a string longer than Kafka's")
        try:
            return self.take(size).decode(errors=self.errors)
        except UnicodeDecodeError:
            raise Refused("no UTF-8") from None

    def message(self, message_class: type[Message], version: int, flexible: bool) -> Message:
        wires = [wire for wire in wire_fields(message_class) if wire.in_version(version)]
        values = {wire.name: self._field(wire, version, flexible) for wire in wires if wire.tag is None}
        unknown: dict[int, bytes] = {}
        tagged = {wire.tag: wire for wire in wires if wire.tag is not None}
        for _ in range(max(self.java_int(), 0) if flexible else 0):
            tag, size = self.uvarint(), self.uvarint()
            end = self.at + size
            if tag in tagged:
                values[tagged[tag].name] = self._field(tagged[tag], version, flexible)
                if self.at != end:
                    raise Refused("a tagged field of another size")
            else:
                unknown[tag] = self.take(size)
        message = message_class(**values)
        message.unknown_tags = unknown or None
        return message

    def _field(self, wire: WireField, version: int, flexible: bool) -> Any:
        return self.value(wire.type, version, flexible and not wire.never_flexible, wire.nullable_in(version))
