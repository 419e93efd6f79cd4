"""Tagged fields (KIP-482): the last section of every struct of a flexible version, and whether a field is in it."""

from collections.abc import Mapping
from typing import Any

from klamm.protocol.codec.varints import decode_tag_count, decode_uvarint, encode_uvarint
from klamm.protocol.codec.wire_type import Source
from klamm.protocol.errors import ProtocolError
from klamm.protocol.fields import Array, Message, WireField, wire_fields


def build_tag_section(out: bytearray, tags: Mapping[int, bytes]) -> None:
    """Append the section of these values, by tag in ascending order."""
    out += encode_uvarint(len(tags))
    for tag in sorted(tags):
        if not 0 <= tag < 2**32:  # as far as readers take them
            raise ProtocolError(f"{tag} is no tag")
        value = tags[tag]
        out += encode_uvarint(tag)
        out += encode_uvarint(len(value))
        out += value


def decode_unknown_tags(data: bytes, position: int, first: int) -> tuple[dict[int, bytes] | None, int]:
    """Values by tag, and the position after the section. The first byte of the section, which is not zero, is before
    `position`."""
    count = first
    if count > 127:
        count, position = decode_tag_count(data, position - 1)
    unknown = {}
    for _ in range(count):
        tag, position = decode_uvarint(data, position)
        length, position = decode_uvarint(data, position)
        unknown[tag] = data[position : position + length]
        position += length
    return unknown or None, position


def differs(wire: WireField, value: Any) -> bool:
    """Whether a field's value differs from its default. A null and an empty array differ."""
    if value is None or wire.default is None:
        return value is not wire.default
    if isinstance(wire.type, Array):
        return len(value) > 0
    return bool(value != wire.default)


class DefaultTest:
    """Emits an expression with the result of `differs`."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def differs(self, wire: WireField, value: str) -> str:
        default = wire.default
        if default is None:
            return f"{value} is not None"
        if isinstance(wire.type, Array):
            return f"({value} is None or len({value}))"
        if isinstance(default, Message):
            parts = [self.differs(inner, f"{value}.{inner.name}") for inner in wire_fields(type(default))]
            null = [] if wire.nullable_since is None else [f"{value} is None"]
            return "(" + " or ".join([*null, *parts, f"{value}.unknown_tags"]) + ")"
        return f"{value} != {bytes(default)!r}" if wire.type == "uuid" else f"{value} != {default!r}"
