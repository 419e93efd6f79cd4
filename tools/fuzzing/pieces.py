"""Splits the bytes of a message into pieces, one for each field, which the server's fuzzers change one by one.

The pieces are made from the declarations, without the codec; joined, they are the bytes that the codec writes.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from klamm.protocol import Api, Message
from klamm.protocol.codec.primitives import NUMBER_CODES
from klamm.protocol.fields import Array, WireField, wire_fields
from klamm.protocol.messages.headers import REQUEST_HEADER, RequestHeader


@dataclass(frozen=True, slots=True)
class Piece:
    """One field, or what stands in front of an array: `head` is a length or a count, `content` what follows it.

    `kind` is the field's type; `array` and `tags` are counts alone, `null` stands for a null of any kind. `head_width`
    is that of a fixed head; 0 where the head is a varint, one more than what it counts.
    """

    path: str
    kind: str
    content: bytes = b""
    head: bytes = b""
    head_width: int = 0

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def data(self) -> bytes:
        return self.head + self.content

    def with_content(self, content: bytes) -> "Piece":
        """The same piece with other content, and the head for it."""
        return replace(self, content=content, head=head_of(len(content), self.head_width) if self.head else b"")


def head_of(size: int, width: int) -> bytes:
    """A length or count in its fixed width, or as a varint of one more. A fixed one wraps around: it is to be wrong."""
    if width:
        return (size % (1 << 8 * width)).to_bytes(width, "big")
    return uvarint(size + 1)


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def request_pieces(
    api: Api[Any, Any], version: int, correlation_id: int, client_id: str | None, body: Message
) -> list[Piece]:
    """A request, header and body."""
    header = RequestHeader(
        request_api_key=api.key, request_api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    header_version = api.request_header_version(version)
    return [
        *message_pieces(header, header_version, REQUEST_HEADER.flexible(header_version), "header"),
        *message_pieces(body, version, api.flexible(version), ""),
    ]


def message_pieces(message: Message, version: int, flexible: bool, path: str) -> Iterator[Piece]:
    """The pieces of a message that this version can have, in wire order."""
    wires = [wire for wire in wire_fields(type(message)) if wire.in_version(version)]
    for wire in wires:
        if wire.tag is None:
            yield from _value(wire, getattr(message, wire.name), version, flexible, f"{path}.{wire.name}")
    if not flexible:
        return
    tagged = [wire for wire in wires if wire.tag is not None and getattr(message, wire.name) != wire.default]
    tags = {
        wire.tag or 0: list(_value(wire, getattr(message, wire.name), version, True, f"{path}.{wire.name}"))
        for wire in tagged
    }
    for tag, content in (message.unknown_tags or {}).items():
        tags[tag] = [Piece(f"{path}.tag{tag}", "unknown", content)]
    yield Piece(f"{path}.tags", "tags", head=uvarint(len(tags)))
    for tag in sorted(tags):
        size = sum(len(piece.data) for piece in tags[tag])
        yield Piece(f"{path}.tag{tag}.number", "tag", uvarint(tag))
        yield Piece(f"{path}.tag{tag}.size", "tag", uvarint(size))
        yield from tags[tag]


def _value(wire: WireField, value: Any, version: int, flexible: bool, path: str) -> Iterator[Piece]:
    compact = flexible and not wire.never_flexible
    if isinstance(wire.type, Array):
        width = 0 if compact else 4
        if value is None:
            yield Piece(path, "null", head=_null(width), head_width=width)
            return
        yield Piece(path, "array", head=head_of(len(value), width), head_width=width)
        for index, element in enumerate(value):
            yield from _element(wire.type.of, element, version, compact, f"{path}[{index}]")
    elif isinstance(wire.type, type):
        if wire.nullable_in(version):
            yield Piece(path, "int8", b"\xff" if value is None else b"\1")
        if value is not None:
            yield from message_pieces(value, version, flexible, path)
    else:
        yield from _element(wire.type, value, version, compact, path)


def _element(kind: Any, value: Any, version: int, compact: bool, path: str) -> Iterator[Piece]:
    if isinstance(kind, type):
        yield from message_pieces(value, version, compact, path)
    elif kind in NUMBER_CODES:
        yield Piece(path, kind, struct.pack(f">{NUMBER_CODES[kind]}", value))
    elif kind == "uuid":
        yield Piece(path, kind, bytes(value))
    else:
        width = 0 if compact else 2 if kind == "string" else 4
        if value is None:
            yield Piece(path, "null", head=_null(width), head_width=width)
        else:
            content = value.encode() if isinstance(value, str) else bytes(value)
            yield Piece(path, kind, content, head_of(len(content), width), width)


def _null(width: int) -> bytes:
    return b"\xff" * width if width else b"\0"


def joined(pieces: Sequence[Piece]) -> bytes:
    return b"".join(piece.data for piece in pieces)
