"""Messages and nested structs: fields in wire order, then, in flexible versions, the section of tagged fields.

One `struct.Struct` reads a run of fixed-size fields and the head of the variable field after them. A field that a
version lacks is decoded as its default. When encoding, it must have the default, unless it is ignorable. Tagged fields
are read in any order, as Kafka does, and written in ascending order of their tags.
"""

from collections.abc import Callable, Sequence
from typing import Any

from klamm.protocol.codec.primitives import FixedType, HeadedType
from klamm.protocol.codec.streams import Buffer, Cursor
from klamm.protocol.codec.tags import DefaultTest, build_tag_section, decode_unknown_tags, differs
from klamm.protocol.codec.varints import decode_tag_count, decode_uvarint
from klamm.protocol.codec.wire_type import Source, WireType, join_path
from klamm.protocol.errors import ProtocolError
from klamm.protocol.fields import Message, WireField, wire_fields
from klamm.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Member:
    """A field that a version has, with the construct of its value."""

    wire: WireField
    type: WireType

    @property
    def name(self) -> str:
        return self.wire.name


class MessageStruct(WireType):
    """One message class in one version."""

    def __init__(
        self, message_class: type[Message], members: Sequence[Member], absent: Sequence[WireField], *, flexible: bool
    ) -> None:
        super().__init__()
        self.message_class = message_class
        self.positional = [member for member in members if member.wire.tag is None]
        self.tagged = sorted((m for m in members if m.wire.tag is not None), key=lambda member: member.wire.tag or 0)
        self.absent = absent
        self.flexible = flexible
        self.min_width = sum(member.type.min_width for member in self.positional) + flexible

    # -- interpreted ------------------------------------------------------------------------------------------------

    def _parse(self, stream: Cursor, _context: Any, path: str) -> Message:
        values = {}
        for member in self.positional:
            values[member.name] = member.type._parse(stream, _context, join_path(path, member.name))
        unknown: dict[int, bytes] = {}
        if self.flexible:
            self._parse_tags(stream, _context, path, values, unknown)
        value = self.message_class(**values)
        value.unknown_tags = unknown or None
        return value

    def _parse_tags(
        self, stream: Cursor, _context: Any, path: str, values: dict[str, Any], unknown: dict[int, bytes]
    ) -> None:
        known = {member.wire.tag: member for member in self.tagged}
        for _ in range(_parse_varint(decode_tag_count, stream, path)):
            tag, size = (_parse_varint(decode_uvarint, stream, path) for _ in ("tag", "size"))
            at = stream.pos
            member = known.get(tag)
            if member is None:
                unknown[tag] = stream.take(size, join_path(path, f"tag {tag}"))
                continue
            inner = join_path(path, member.name)
            values[member.name] = member.type._parse(stream, _context, inner)
            if stream.pos != at + size:
                raise ProtocolError(f"tagged field of {size} bytes took {stream.pos - at}", offset=at, path=inner)

    def _build(self, obj: Any, stream: Buffer, _context: Any, path: str) -> None:
        if not isinstance(obj, self.message_class):
            raise ProtocolError(f"{type(obj).__name__} where {self.message_class.__name__} belongs", path=path)
        for wire in self.absent:
            if not wire.ignorable and differs(wire, getattr(obj, wire.name)):
                raise ProtocolError("set, but this version has no such field", path=join_path(path, wire.name))
        for member in self.positional:
            member.type._build(getattr(obj, member.name), stream, _context, join_path(path, member.name))
        if not self.flexible:
            if obj.unknown_tags:
                raise ProtocolError("tagged fields in a version without", path=path)
            return
        tags: dict[int, bytes] = dict(obj.unknown_tags or ())
        for member in self.tagged:
            value = getattr(obj, member.name)
            if member.wire.tag in tags:
                raise ProtocolError(f"tag {member.wire.tag} is known and unknown at once", path=path)
            if differs(member.wire, value):
                inner = Buffer()
                member.type._build(value, inner, _context, join_path(path, member.name))
                tags[member.wire.tag or 0] = bytes(inner)
        build_tag_section(stream, tags)

    # -- emitted: parsing -------------------------------------------------------------------------------------------

    def emit_parse(self, source: Source, target: str) -> None:
        message = target if target.isidentifier() else source.fresh("m")
        source.line(f"{message} = new({self.class_name(source)})")
        for wire in [*self.absent, *(member.wire for member in self.tagged)]:
            emit_default(source, wire, f"{message}.{wire.name}")
        run = _ParsedRun(source)
        for member in self.positional:
            attribute = f"{message}.{member.name}"
            if isinstance(member.type, FixedType):
                run.add(member.type, attribute)
            elif isinstance(member.type, HeadedType):
                head = source.fresh("n")
                run.add_head(member.type.head_code, head)
                run.flush()
                member.type.emit_parse_tail(source, head, attribute)
            else:
                run.flush()
                member.type.emit_parse(source, attribute)
        source_line_unknown = f"{message}.unknown_tags = None"
        if self.flexible:
            count = source.fresh("n")
            run.add_head("B", count)
            run.flush()
            source.line(source_line_unknown)
            with source.block(f"if {count}:"):
                self._emit_parse_tags(source, message, count)
        else:
            run.flush()
            source.line(source_line_unknown)
        if message != target:
            source.line(f"{target} = {message}")

    def _emit_parse_tags(self, source: Source, message: str, count: str) -> None:
        if not self.tagged:
            decode = source.imported(decode_unknown_tags.__module__, decode_unknown_tags.__name__)
            source.line(f"{message}.unknown_tags, pos = {decode}(data, pos, {count})")
            return
        uvarint = source.imported(decode_uvarint.__module__, decode_uvarint.__name__)
        unknown, tag, end = source.fresh("unknown"), source.fresh("tag"), source.fresh("end")
        with source.block(f"if {count} > 127:"):
            tag_count = source.imported(decode_tag_count.__module__, decode_tag_count.__name__)
            source.line(f"{count}, pos = {tag_count}(data, pos - 1)")
        source.line(f"{unknown} = {{}}")
        with source.block(f"for _ in range({count}):"):
            source.line(f"{tag} = data[pos]")
            source.line(f"{end} = data[pos + 1]")
            with source.block(f"if {tag} < 128 and {end} < 128:"):
                source.line("pos += 2")
            with source.block("else:"):
                source.line(f"{tag}, pos = {uvarint}(data, pos)")
                source.line(f"{end}, pos = {uvarint}(data, pos)")
            source.line(f"{end} += pos")
            word = "if"
            for member in self.tagged:
                with source.block(f"{word} {tag} == {member.wire.tag}:"):
                    member.type.emit_parse(source, f"{message}.{member.name}")
                    with source.block(f"if pos != {end}:"):
                        source.line("raise ProtocolError('tagged field of another size')")
                word = "elif"
            with source.block("else:"):
                source.line(f"{unknown}[{tag}] = data[pos:{end}]")
                source.line(f"pos = {end}")
        with source.block(f"if {unknown}:"):
            source.line(f"{message}.unknown_tags = {unknown}")

    # -- emitted: building ------------------------------------------------------------------------------------------

    def emit_build(self, source: Source, value: str, out: str) -> None:
        if not value.isidentifier():
            local = source.fresh("m")
            source.line(f"{local} = {value}")
            value = local
        for wire in self.absent:
            if not wire.ignorable:
                with source.block(f"if {DefaultTest(source).differs(wire, f'{value}.{wire.name}')}:"):
                    source.line(f"raise ProtocolError('this version has no field {wire.name}')")
        run = _BuiltRun(source, out)
        for member in self.positional:
            attribute = f"{value}.{member.name}"
            if isinstance(member.type, FixedType):
                run.add(member.type, attribute)
            elif isinstance(member.type, HeadedType):
                run.flush_with(member.type, member.type.emit_measure(source, attribute))
            else:
                run.flush()
                member.type.emit_build(source, attribute, out)
        if not self.flexible:
            run.flush()
            with source.block(f"if {value}.unknown_tags:"):
                source.line("raise ProtocolError('tagged fields in a version without')")
        elif not self.tagged:
            self._emit_unknown_tags(source, value, out, run)
        else:
            run.flush()
            self._emit_tagged(source, value, out)

    def _emit_unknown_tags(self, source: Source, value: str, out: str, run: "_BuiltRun") -> None:
        """Write lines for a section without declared tags: one zero byte, a padding byte of the last run."""
        section = source.imported(build_tag_section.__module__, build_tag_section.__name__)
        with source.block(f"if {value}.unknown_tags:"):
            run.emit("")
            source.line(f"{section}({out}, {value}.unknown_tags)")
        with source.block("else:"):
            run.emit("x")

    def _emit_tagged(self, source: Source, value: str, out: str) -> None:
        section = source.imported(build_tag_section.__module__, build_tag_section.__name__)
        buffer = source.imported(Buffer.__module__, Buffer.__name__)
        tags = source.fresh("tags")
        source.line(f"{tags} = dict({value}.unknown_tags) if {value}.unknown_tags else {{}}")
        for member in self.tagged:
            attribute, inner = f"{value}.{member.name}", source.fresh("out")
            with source.block(f"if {tags} and {member.wire.tag} in {tags}:"):
                source.line(f"raise ProtocolError('tag {member.wire.tag} is known and unknown at once')")
            with source.block(f"if {DefaultTest(source).differs(member.wire, attribute)}:"):
                source.line(f"{inner} = {buffer}()")
                member.type.emit_build(source, attribute, inner)
                source.line(f"{tags}[{member.wire.tag}] = {inner}")
        with source.block(f"if {tags}:"):
            source.line(f"{section}({out}, {tags})")
        with source.block("else:"):
            source.line(f"{out}.append(0)")

    def class_name(self, source: Source) -> str:
        """The name of the message class in emitted code."""
        return source.imported(self.message_class.__module__, self.message_class.__qualname__)


class NullableStruct(HeadedType):
    """A struct that may be null. In front of it is a positional field's signed byte (null: negative), or a tagged
    field's varint (null: 0)."""

    def __init__(self, struct_type: MessageStruct, *, tagged: bool) -> None:
        self._init_head(compact=tagged, nullable=True, wide_code="b")
        self.struct_type = struct_type

    def _parse(self, stream: Cursor, _context: Any, path: str) -> Message | None:
        if self._parse_head(stream, path) is None:
            return None
        return self.struct_type._parse(stream, _context, path)

    def _build(self, obj: Any, stream: Buffer, _context: Any, path: str) -> None:
        self._build_head(None if obj is None else 0 if self.compact else 1, stream, path)
        if obj is not None:
            self.struct_type._build(obj, stream, _context, path)

    def emit_parse_content(self, source: Source, _head: str, target: str) -> None:
        self.struct_type.emit_parse(source, target)

    def emit_measure(self, source: Source, value: str) -> tuple[str, str]:
        head, content = source.fresh("n"), source.fresh("v")
        source.line(f"{content} = {value}")
        source.line(f"{head} = {0 if self.compact else -1} if {content} is None else 1")
        return head, content

    def emit_build_content(self, source: Source, content: str, out: str) -> None:
        with source.block(f"if {content} is not None:"):
            self.struct_type.emit_build(source, content, out)


class _ParsedRun:
    """A run of fixed-size values that one struct reads."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._codes = ""
        self._width = 0
        self._targets: list[str] = []
        self._after: list[str] = []

    def add(self, fixed: FixedType, target: str) -> None:
        self._codes += fixed.code
        self._width += fixed.min_width
        parsed = fixed.emit_parsed(self._source, target)
        if parsed != target:
            raw = self._source.fresh("raw")
            self._after.append(f"{target} = {fixed.emit_parsed(self._source, raw)}")
            target = raw
        self._targets.append(target)

    def add_head(self, code: str, target: str) -> None:
        self._codes += code
        self._width += {"b": 1, "B": 1, "h": 2, "i": 4}[code]
        self._targets.append(target)

    def flush(self) -> None:
        if self._codes == "B":
            self._source.line(f"{self._targets[0]} = data[pos]")
        elif self._codes:
            unpack = self._source.struct_method("unpack_from", self._codes)
            self._source.line(f"{', '.join(self._targets)}, = {unpack}(data, pos)")
        if self._codes:
            self._source.line(f"pos += {self._width}")
        for line in self._after:
            self._source.line(line)
        self._codes, self._width, self._targets, self._after = "", 0, [], []


class _BuiltRun:
    """A run of fixed-size values that one struct writes."""

    def __init__(self, source: Source, out: str) -> None:
        self._source = source
        self._out = out
        self._codes = ""
        self._values = ""

    def add(self, fixed: FixedType, value: str) -> None:
        self._codes += fixed.code
        fixed.emit_check(self._source, value)
        self._values += value + ", "

    def flush_with(self, headed: HeadedType, measured: tuple[str, str]) -> None:
        headed.emit_build_run(self._source, self._codes, self._values, measured, self._out)
        self._codes = self._values = ""

    def emit(self, padding: str) -> None:
        """Write the line that appends the run and `padding`, without ending the run."""
        if not self._codes:
            self._source.line(f"{self._out}.append(0)" if padding else "pass")
            return
        pack = self._source.struct_method("pack", self._codes + padding)
        self._source.line(f"{self._out} += {pack}({self._values})")

    def flush(self) -> None:
        if self._codes:
            self.emit("")
        self._codes = self._values = ""


def emit_default(source: Source, wire: WireField, target: str) -> None:
    """Write lines that assign a field's default. A default that is a message is created for each decoded message."""
    if not isinstance(wire.default, Message):
        zero_uuid = wire.type == "uuid"
        source.line(
            f"{target} = {source.imported('klamm.protocol.uuid', 'ZERO_UUID') if zero_uuid else repr(wire.default)}"
        )
        return
    message_class = type(wire.default)
    inner = source.fresh("m")
    source.line(f"{inner} = new({source.imported(message_class.__module__, message_class.__qualname__)})")
    for field in wire_fields(message_class):
        emit_default(source, field, f"{inner}.{field.name}")
    source.line(f"{inner}.unknown_tags = None")
    source.line(f"{target} = {inner}")


def _parse_varint(decode: Callable[[bytes, int], tuple[int, int]], stream: Cursor, path: str) -> int:
    at = stream.pos
    try:
        value, stream.pos = decode(stream.data, at)
    except IndexError:
        raise ProtocolError("bytes end inside a varint", offset=at, path=path) from None
    except ProtocolError as error:
        raise ProtocolError(error.reason, offset=at, path=path) from None
    return value
