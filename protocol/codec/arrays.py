"""Arrays: a count and that many elements, none of them null. Decoded arrays are tuples.

A count is not believed beyond the bytes that follow: no more elements than bytes left, whatever their width.
"""

from typing import Any

from protocol.codec.primitives import FixedType, HeadedType
from protocol.codec.streams import Buffer, Cursor
from protocol.codec.wire_type import Source, WireType
from protocol.errors import ProtocolError


class ArrayOf(HeadedType):
    """An array of strings, bytes or messages: one element after the other."""

    def __init__(self, element: WireType, *, compact: bool, nullable: bool) -> None:
        self._init_head(compact=compact, nullable=nullable, wide_code="i")
        self.element = element

    def _parse(self, stream: Cursor, _context: Any, path: str) -> tuple[Any, ...] | None:
        at = stream.pos
        count = self._parse_head(stream, path)
        if count is None:
            return None
        if count > stream.remaining():
            raise ProtocolError(f"{count} elements in {stream.remaining()} bytes", offset=at, path=path)
        return tuple([self.element._parse(stream, _context, f"{path}[{index}]") for index in range(count)])

    def _build(self, obj: Any, stream: Buffer, _context: Any, path: str) -> None:
        try:
            count = None if obj is None else len(obj)
        except TypeError:
            raise ProtocolError(f"{type(obj).__name__} where an array belongs", path=path) from None
        self._build_head(count, stream, path)
        for index, element in enumerate(obj or ()):
            self.element._build(element, stream, _context, f"{path}[{index}]")

    def emit_parse_content(self, source: Source, head: str, target: str) -> None:
        count = f"{head} - 1" if self.compact else head
        _emit_count_check(source, count)
        items, item = source.fresh("items"), source.fresh("item")
        source.line(f"{items} = []")
        with source.block(f"for _ in range({count}):"):
            self.element.emit_parse(source, item)
            source.line(f"{items}.append({item})")
        source.line(f"{target} = tuple({items})")

    def emit_build_content(self, source: Source, content: str, out: str) -> None:
        item = source.fresh("item")
        with source.block(f"for {item} in {content}:"):
            self.element.emit_build(source, item, out)


class FixedArray(ArrayOf):
    """An array of numbers or uuids: one struct for all elements."""

    element: FixedType

    def __init__(self, element: FixedType, *, compact: bool, nullable: bool) -> None:
        super().__init__(element, compact=compact, nullable=nullable)

    def emit_parse_content(self, source: Source, head: str, target: str) -> None:
        count = f"{head} - 1" if self.compact else head
        width = self.element.min_width
        _emit_count_check(source, count)
        if self.element.code == "16s":
            source.line(f"end = pos + ({count}) * 16")
            with source.block("if end > size:"):
                source.line("raise ProtocolError('array longer than its bytes')")
            uuid = self.element.emit_parsed(source, "data[at:at + 16]")
            source.line(f"{target} = tuple([{uuid} for at in range(pos, end, 16)])")
            source.line("pos = end")
            return
        tables = _tables(source, "unpack_from", self.element.code)
        limit = 18 if self.compact else 17
        short = f"{tables}[{count}](data, pos)"
        long = f"struct.unpack_from('>%d{self.element.code}' % ({count}), data, pos)"
        source.line(f"{target} = {short} if {head} < {limit} else {long}")
        source.line(f"pos += ({count}) * {width}" if width > 1 else f"pos += {count}")

    def emit_build_content(self, source: Source, content: str, out: str) -> None:
        if self.element.code == "16s":
            with source.block(f"for uuid in {content}:"):
                self.element.emit_check(source, "uuid")
                source.line(f"{out} += uuid")
            return
        tables = _tables(source, "pack", self.element.code)
        long = f"struct.pack('>%d{self.element.code}' % len({content}), *{content})"
        source.line(f"{out} += {tables}[len({content})](*{content}) if len({content}) < 17 else {long}")


def _emit_count_check(source: Source, count: str) -> None:
    with source.block(f"if {count} > size - pos:"):
        source.line("raise ProtocolError('array longer than its bytes')")


def _tables(source: Source, method: str, code: str) -> str:
    """A module-level tuple: at n the struct method for n elements, n up to 16."""
    name = f"{method.partition('_')[0]}s_{code.replace('?', 'o')}"
    return source.defined(name, f"tuple([struct.Struct(f'>{{n}}{code}').{method} for n in range(17)])")
