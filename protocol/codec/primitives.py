"""Primitive types: numbers, uuids, strings and bytes.

A type of fixed size has a struct code, so that one struct reads a run of such values. Strings and bytes begin with a
*head*, their length, which belongs to the run before it; the *tail* follows. Any negative length is null, as in Kafka's
readers.
"""

import struct
from typing import Any

from klamm.protocol.codec.streams import Buffer, Cursor
from klamm.protocol.codec.varints import (
    MAX_STRING_BYTES,
    decode_length,
    decode_string_length,
    encode_string_length,
    encode_uvarint,
)
from klamm.protocol.codec.wire_type import Source, WireType
from klamm.protocol.errors import ProtocolError
from klamm.protocol.uuid import Uuid

NUMBER_CODES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
}


class FixedType(WireType):
    """A type of fixed width, with the struct code that reads and writes it."""

    code: str

    value_class: tuple[str, str] | None = None
    """Module and name of the class of decoded values; None if they are the values that the struct returns."""

    def emit_parsed(self, source: Source, raw: str) -> str:
        """The expression that makes a value from `raw`, the result of the struct."""
        return raw if self.value_class is None else f"{source.imported(*self.value_class)}({raw})"

    def emit_parsed_array(self, source: Source, raw: str) -> str:
        """The expression that makes a tuple of values from a tuple of results of the struct."""
        return raw if self.value_class is None else f"tuple(map({source.imported(*self.value_class)}, {raw}))"

    def emit_check(self, source: Source, value: str) -> None:
        """Write lines that raise an error for wrong values that the struct would accept."""

    def emit_parse(self, source: Source, target: str) -> None:
        source.line(f"{target}, = {source.struct_method('unpack_from', self.code)}(data, pos)")
        source.line(f"pos += {self.min_width}")
        parsed = self.emit_parsed(source, target)
        if parsed != target:
            source.line(f"{target} = {parsed}")

    def emit_build(self, source: Source, value: str, out: str) -> None:
        self.emit_check(source, value)
        source.line(f"{out} += {source.struct_method('pack', self.code)}({value})")


class Number(FixedType):
    """A big-endian number, or a bool (any byte but zero is true)."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.code = NUMBER_CODES[kind]
        self._struct = struct.Struct(">" + self.code)
        self.min_width = self._struct.size

    def _parse(self, stream: Cursor, _context: Any, path: str) -> Any:
        return self._struct.unpack(stream.take(self.min_width, path))[0]

    def _build(self, obj: Any, stream: Buffer, _context: Any, path: str) -> None:
        if obj is None:
            raise ProtocolError("null where null is not allowed", path=path)
        try:
            stream += self._struct.pack(obj)
        except (struct.error, OverflowError, TypeError) as error:
            raise ProtocolError(f"{obj!r} is no {self.kind}: {error}", path=path) from None

    def emit_check(self, source: Source, value: str) -> None:
        # The struct would write None as false.
        if self.kind == "bool":
            with source.block(f"if {value} is None:"):
                source.line("raise ProtocolError('null where null is not allowed')")


class UuidType(FixedType):
    """Sixteen bytes."""

    code = "16s"
    min_width = 16
    value_class = ("klamm.protocol.uuid", "Uuid")

    def _parse(self, stream: Cursor, _context: Any, path: str) -> Uuid:
        return Uuid(stream.take(16, path))

    def _build(self, obj: Any, stream: Buffer, _context: Any, path: str) -> None:
        if not isinstance(obj, bytes) or len(obj) != 16:
            raise ProtocolError(f"{obj!r} is no uuid of 16 bytes", path=path)
        stream += obj

    def emit_check(self, source: Source, value: str) -> None:
        # The struct would cut or pad a value of another length.
        with source.block(f"if len({value}) != 16:"):
            source.line("raise ProtocolError('a uuid has 16 bytes')")


class HeadedType(WireType):
    """A value of variable length after a head, its count or length. A compact head is a varint of one more than the
    length; other heads have a fixed width."""

    head_code: str
    compact: bool
    nullable: bool
    string_length = False
    """Whether the head is the length of a string, for which Kafka's limit of 32767 bytes applies."""

    def _init_head(self, *, compact: bool, nullable: bool, wide_code: str) -> None:
        super().__init__()
        self.compact = compact
        self.nullable = nullable
        self.head_code = "B" if compact else wide_code
        self._head_struct = struct.Struct(">" + self.head_code)
        self.min_width = self._head_struct.size

    # -- interpreted ------------------------------------------------------------------------------------------------

    def _parse_head(self, stream: Cursor, path: str) -> int | None:
        """The length or count; None for null."""
        at = stream.pos
        if self.compact:
            decode = decode_string_length if self.string_length else decode_length
            try:
                size, stream.pos = decode(stream.data, at)
            except IndexError:
                raise ProtocolError("bytes end inside a length", offset=at, path=path) from None
            except ProtocolError as error:
                raise ProtocolError(error.reason, offset=at, path=path) from None
            size -= 1
        else:
            (size,) = self._head_struct.unpack(stream.take(self._head_struct.size, path))
        if size >= 0:
            return int(size)
        if not self.nullable:
            raise ProtocolError("null where null is not allowed", offset=at, path=path)
        return None

    def _build_head(self, size: int | None, stream: Buffer, path: str) -> None:
        if size is None:
            if not self.nullable:
                raise ProtocolError("null where null is not allowed", path=path)
            size = -1
        try:
            if self.compact:
                stream += encode_string_length(size + 1) if self.string_length else encode_uvarint(size + 1)
            else:
                stream += self._head_struct.pack(size)
        except struct.error:
            raise ProtocolError(f"length {size} is too large", path=path) from None
        except ProtocolError as error:
            raise ProtocolError(error.reason, path=path) from None

    # -- emitted ----------------------------------------------------------------------------------------------------

    def emit_parse(self, source: Source, target: str) -> None:
        head = source.fresh("n")
        source.line(f"{head}, = {source.struct_method('unpack_from', self.head_code)}(data, pos)")
        source.line(f"pos += {self._head_struct.size}")
        self.emit_parse_tail(source, head, target)

    def emit_parse_tail(self, source: Source, head: str, target: str) -> None:
        """Write lines that read the value after its head. The local `head` holds the head, or its first byte if it is
        compact."""
        if self.compact:
            decode = "decode_string_length" if self.string_length else "decode_length"
            with source.block(f"if {head} > 127:"):
                source.line(f"{head}, pos = {source.imported('klamm.protocol.codec.varints', decode)}(data, pos - 1)")
        with source.block(f"if {head}:" if self.compact else f"if {head} >= 0:"):
            self.emit_parse_content(source, head, target)
        with source.block("else:"):
            source.line(f"{target} = None" if self.nullable else "raise ProtocolError('null where it is not allowed')")

    def emit_parse_content(self, source: Source, head: str, target: str) -> None:
        """Write lines that read the content of a value that is not null. A compact `head` is one more than the size."""
        raise NotImplementedError

    def emit_build(self, source: Source, value: str, out: str) -> None:
        self.emit_build_run(source, "", "", self.emit_measure(source, value), out)

    def emit_measure(self, source: Source, value: str) -> tuple[str, str]:
        """Write lines that compute the head of `value`. Returns the names of the locals for head and content.

        The content of null is empty, so that later lines do not check for null again.
        """
        head, content = source.fresh("n"), source.fresh("v")
        source.line(f"{content} = {value}")
        if not self.nullable:
            self.emit_measure_content(source, head, content)
            return head, content
        with source.block(f"if {content} is None:"):
            source.line(f"{head} = {0 if self.compact else -1}")
            source.line(f"{content} = {self.empty}")
        with source.block("else:"):
            self.emit_measure_content(source, head, content)
        return head, content

    empty = "()"
    """The expression for an empty content."""

    def emit_measure_content(self, source: Source, head: str, content: str) -> None:
        source.line(f"{head} = len({content})" + (" + 1" if self.compact else ""))

    def emit_build_run(self, source: Source, codes: str, values: str, measured: tuple[str, str], out: str) -> None:
        """Write lines that append a run of fixed values, followed by this value, whose head is already computed."""
        head, content = measured
        packed = f"{source.struct_method('pack', codes + self.head_code)}({values}{head})"
        if self.compact:
            encode = "encode_string_length" if self.string_length else "encode_uvarint"
            encode = source.imported("klamm.protocol.codec.varints", encode)
            run = f"{source.struct_method('pack', codes)}({values}) + " if codes else ""
            packed += f" if {head} < 128 else {run}{encode}({head})"
        source.line(f"{out} += {packed}")
        self.emit_build_content(source, content, out)

    def emit_build_content(self, source: Source, content: str, out: str) -> None:
        source.line(f"{out} += {content}")


class Text(HeadedType):
    """A string in UTF-8 of at most 32767 bytes."""

    empty = 'b""'
    string_length = True

    def __init__(self, *, compact: bool, nullable: bool, errors: str) -> None:
        self._init_head(compact=compact, nullable=nullable, wide_code="h")
        self.errors = errors

    def _parse(self, stream: Cursor, _context: Any, path: str) -> str | None:
        size = self._parse_head(stream, path)
        if size is None:
            return None
        at = stream.pos
        try:
            return stream.take(size, path).decode(errors=self.errors)
        except UnicodeDecodeError as error:
            raise ProtocolError("string is no UTF-8", offset=at + error.start, path=path) from None

    def _build(self, obj: Any, stream: Buffer, _context: Any, path: str) -> None:
        if obj is not None and not isinstance(obj, str):
            raise ProtocolError(f"{type(obj).__name__} where a string belongs", path=path)
        try:
            content = b"" if obj is None else obj.encode()
        except UnicodeEncodeError:
            raise ProtocolError("string has lone surrogates", path=path) from None
        if len(content) > MAX_STRING_BYTES:
            raise ProtocolError(f"string of {len(content)} bytes exceeds {MAX_STRING_BYTES}", path=path)
        self._build_head(None if obj is None else len(content), stream, path)
        stream += content

    def emit_parse_content(self, source: Source, head: str, target: str) -> None:
        source.line(f"end = pos + {head}" + (" - 1" if self.compact else ""))
        errors = "" if self.errors == "strict" else f"errors={self.errors!r}"
        source.line(f"{target} = data[pos:end].decode({errors})")
        source.line("pos = end")

    def emit_measure_content(self, source: Source, head: str, content: str) -> None:
        source.line(f"{content} = {content}.encode()")
        super().emit_measure_content(source, head, content)


class Blob(HeadedType):
    """Bytes, or the raw batches of a records field."""

    empty = 'b""'

    def __init__(self, *, compact: bool, nullable: bool) -> None:
        self._init_head(compact=compact, nullable=nullable, wide_code="i")

    def _parse(self, stream: Cursor, _context: Any, path: str) -> bytes | None:
        size = self._parse_head(stream, path)
        return None if size is None else stream.take(size, path)

    def _build(self, obj: Any, stream: Buffer, _context: Any, path: str) -> None:
        if obj is not None and not isinstance(obj, (bytes, bytearray)):
            raise ProtocolError(f"{type(obj).__name__} where bytes belong", path=path)
        self._build_head(None if obj is None else len(obj), stream, path)
        stream += obj or b""

    def emit_parse_content(self, source: Source, head: str, target: str) -> None:
        source.line(f"end = pos + {head}" + (" - 1" if self.compact else ""))
        source.line(f"{target} = data[pos:end]")
        source.line("pos = end")
