"""Arrays: a count and that many elements, none of them null. Decoded arrays are tuples.

A count above the number of bytes that follow is an error, so a wrong count never allocates more than that.
"""

from typing import Any

from klamm.protocol.codec.primitives import FixedType, HeadedType
from klamm.protocol.codec.streams import Buffer, Cursor
from klamm.protocol.codec.wire_type import Source, WireType
from klamm.protocol.errors import ProtocolError

PARSED_AT_ONCE = 64
BUILT_AT_ONCE = 16
"""Arrays shorter than this have a struct for their length, which is created with the schema."""


class ArrayOf(HeadedType):
    """An array of strings, bytes or messages, read and written element by element."""

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
        with source.block(f"if {count} > size - pos:"):
            source.line("raise ProtocolError('array longer than its bytes')")
        items, item = source.fresh("items"), source.fresh("item")
        # An empty array needs no list and no loop. Most arrays that may be empty are empty.
        with source.block(f"if {head} == {int(self.compact)}:"):
            source.line(f"{target} = ()")
        with source.block("else:"):
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
    """An array of numbers or uuids. One struct reads all elements; for short arrays it is created in advance."""

    element: FixedType

    def __init__(self, element: FixedType, *, compact: bool, nullable: bool) -> None:
        super().__init__(element, compact=compact, nullable=nullable)

    def emit_parse_content(self, source: Source, head: str, target: str) -> None:
        count = f"{head} - 1" if self.compact else head
        one_more = int(self.compact)
        tables = self._tables(source, "unpack_from", "", PARSED_AT_ONCE)
        long = f"struct.unpack_from('>' + {self._codes(count)}, data, pos)"
        # The struct fails if bytes are missing. Counts beyond the tables are checked first, because they allocate.
        with source.block(f"if {head} < {PARSED_AT_ONCE + one_more}:"):
            source.line(f"{target} = {tables}[{count}](data, pos)")
        with source.block("else:"):
            with source.block(f"if ({count}) * {self.element.min_width} > size - pos:"):
                source.line("raise ProtocolError('array longer than its bytes')")
            source.line(f"{target} = {long}")
        parsed = self.element.emit_parsed_array(source, target)
        if parsed != target:
            source.line(f"{target} = {parsed}")
        width = self.element.min_width
        source.line(f"pos += {head} * {width}" + (f" - {width}" if self.compact else ""))

    def emit_build_run(self, source: Source, codes: str, values: str, measured: tuple[str, str], out: str) -> None:
        """Write lines that append a run of fixed values and this array. A short array and its head join the run."""
        head, content = measured
        if self.element.value_class is not None:
            super().emit_build_run(source, codes, values, measured, out)
            return
        tables = self._tables(source, "pack", codes + self.head_code, BUILT_AT_ONCE)
        with source.block(f"if len({content}) < {BUILT_AT_ONCE}:"):
            source.line(f"{out} += {tables}[len({content})]({values}{head}, *{content})")
        with source.block("else:"):
            super().emit_build_run(source, codes, values, measured, out)

    def emit_build_content(self, source: Source, content: str, out: str) -> None:
        if self.element.value_class is not None:
            super().emit_build_content(source, content, out)
        else:
            source.line(f"{out} += struct.pack('>' + {self._codes(f'len({content})')}, *{content})")

    def _codes(self, count: str) -> str:
        """The expression for the struct codes of `count` elements."""
        return f"'%d{self.element.code}' % ({count})" if len(self.element.code) == 1 else f"'16s' * ({count})"

    def _tables(self, source: Source, method: str, before: str, size: int) -> str:
        """The name of a module-level tuple whose entry n is the struct method for `before` and n elements."""
        name = f"{method.partition('_')[0]}s_{before}_{self.element.code}".replace("?", "o")
        return source.defined(
            name, f"tuple([struct.Struct('>{before}' + {self._codes('n')}).{method} for n in range({size})])"
        )
