"""What a request would take once it is decoded, found without decoding it: its entries and its memory.

For each declared message and version one function walks over the bytes and makes no objects. It is emitted from the
same schema as the parser, so that every API has one. It costs a small part of the decoding.

An *entry* is one element of an array, at any depth, a number included, or one tagged field. The memory
is what CPython 3.11 takes, rounded up: each message with its fields, each string (up to four bytes for a byte of it),
each number of an array.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from klamm.protocol.codec.arrays import ArrayOf, FixedArray
from klamm.protocol.codec.primitives import Blob, FixedType, HeadedType, Text
from klamm.protocol.codec.schema import schema
from klamm.protocol.codec.structs import MessageStruct, NullableStruct
from klamm.protocol.codec.varints import decode_length, decode_string_length, decode_tag_count, decode_uvarint
from klamm.protocol.codec.wire_type import WireType
from klamm.protocol.errors import ProtocolError
from klamm.protocol.fields import Message, cached

BYTES_OF_OBJECT = 56
"""A slotted object without its slots, with what the collector of cycles keeps beside it; also an empty tuple, which
is rounded up."""
BYTES_OF_SLOT = 8
BYTES_OF_TEXT = 80
"""A string without its characters."""
BYTES_OF_NUMBER = 40
"""A number outside of the small ones that Python shares, and its place in an array."""
BYTES_OF_UUID = 72
BYTES_OF_TAG = 256
"""An undeclared tagged field, with its share of the dictionary."""
BYTES_OF_BLOB = 56
"""Bytes without their content, or an array without its elements."""
BYTES_OF_DEFAULT = 512
"""A message that is the default of a field which a version lacks."""
BYTES_PER_CHARACTER = 4

_Walk = Callable[[bytes, int, int], tuple[int, int, int]]


class DecodedSize(NamedTuple):
    """What a message would take once it is decoded."""

    entries: int
    """Elements of all arrays. Greater than the asked maximum if the walk ended early."""
    memory_bytes: int
    end: int
    """The offset after the message, or where the walk ended early."""


def decoded_size(
    message_class: type[Message], version: int, flexible: bool, data: bytes, offset: int, most_entries: int
) -> DecodedSize:
    """The size of the message at `offset`. The walk ends early with more than `most_entries`. Raises ProtocolError if
    the bytes are no such message."""
    try:
        return DecodedSize._make(_walk(message_class, version, flexible)(data, offset, most_entries))
    except IndexError:
        raise ProtocolError("bytes end inside a message", offset=len(data), path=message_class.__name__) from None


@cached
def _walk(message_class: type[Message], version: int, flexible: bool) -> _Walk:
    declared = schema(message_class, version, flexible)
    emitted = _Emitted()
    emitted.over_struct(declared)
    emitted.end_run()
    names: dict[str, Any] = {
        "decode_length": decode_length,
        "decode_string_length": decode_string_length,
        "decode_tag_count": decode_tag_count,
        "decode_uvarint": decode_uvarint,
        "ProtocolError": ProtocolError,
    }
    text = "\n".join(
        [
            "def walk(data, pos, most):",
            "    size = len(data)",
            "    entries = 0",
            f"    memory = {_struct_bytes(declared)}",
            *emitted.lines,
            "    if pos > size:",
            "        raise ProtocolError('message longer than its bytes', offset=size)",
            "    return entries, memory, pos",
        ]
    )
    exec(compile(text, f"<size of {message_class.__name__} v{version}>", "exec"), names)
    walk: _Walk = names["walk"]
    return walk


def _struct_bytes(declared: MessageStruct) -> int:
    """The memory of one message with its fields, but for characters, bytes and elements of arrays."""
    members = [*declared.positional, *declared.tagged]
    absent = sum(BYTES_OF_DEFAULT for wire in declared.absent if isinstance(wire.default, Message))
    slots = BYTES_OF_SLOT * (len(members) + len(declared.absent) + 2)
    return BYTES_OF_OBJECT + slots + absent + sum(_field_bytes(member.type) for member in members)


def _field_bytes(kind: WireType) -> int:
    if isinstance(kind, MessageStruct):
        return _struct_bytes(kind)
    if isinstance(kind, NullableStruct):
        return _struct_bytes(kind.struct_type)
    if isinstance(kind, FixedType):
        return BYTES_OF_UUID if kind.value_class is not None else BYTES_OF_NUMBER
    return BYTES_OF_TEXT if isinstance(kind, Text) else BYTES_OF_BLOB


def _element_bytes(element: WireType) -> int:
    if isinstance(element, MessageStruct):
        return _struct_bytes(element)
    if isinstance(element, FixedType):
        return BYTES_OF_UUID if element.value_class is not None else BYTES_OF_NUMBER
    return BYTES_OF_TEXT + BYTES_OF_SLOT


class _Emitted:
    """The lines of one function. Fixed widths are added up, and written where a variable field follows."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._depth = 1
        self._names = 0
        self._width = 0

    def _line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    def _fresh(self) -> str:
        self._names += 1
        return f"n{self._names}"

    def end_run(self) -> None:
        """Write the step over the fixed widths so far."""
        if self._width:
            self._line(f"pos += {self._width}")
            self._width = 0

    def over(self, kind: WireType) -> None:
        """Write lines that step over a value."""
        if isinstance(kind, FixedType):
            self._width += kind.min_width
        elif isinstance(kind, MessageStruct):
            self.over_struct(kind)
        elif isinstance(kind, HeadedType):
            self._over_headed(kind)
        else:
            raise AssertionError(f"{type(kind).__name__} has no size")

    def over_struct(self, declared: MessageStruct) -> None:
        """Write lines that step over the fields of a message and its tagged fields."""
        for member in declared.positional:
            self.over(member.type)
        if declared.flexible:
            self._over_tags(declared)

    def _over_headed(self, kind: HeadedType) -> None:
        self.end_run()
        head = self._fresh()
        if isinstance(kind, NullableStruct):
            self._line(f"{head} = data[pos]")
            self._line("pos += 1")
            self._block(f"if {head} < 128:", kind.struct_type)
            return
        if kind.compact:
            decode = "decode_string_length" if kind.string_length else "decode_length"
            self._line(f"{head} = data[pos]")
            self._line(f"if {head} > 127: {head}, pos = {decode}(data, pos)")
            self._line("else: pos += 1")
            self._line(f"{head} -= 1")
        else:
            width = kind.min_width
            self._line(f"{head} = int.from_bytes(data[pos:pos + {width}], 'big', signed=True)")
            self._line(f"pos += {width}")
        self._line(f"if {head} > 0:")
        self._depth += 1
        self._over_content(kind, head)
        self._depth -= 1

    def _over_content(self, kind: HeadedType, head: str) -> None:
        if isinstance(kind, (Text, Blob)):
            self._line(f"pos += {head}")
            self._line(f"memory += {head}" + (f" * {BYTES_PER_CHARACTER}" if isinstance(kind, Text) else ""))
            return
        assert isinstance(kind, ArrayOf)
        element = kind.element
        self._line(f"if {head} * {max(1, element.min_width)} > size - pos:")
        self._line("    raise ProtocolError('array longer than its bytes', offset=pos)")
        self._line(f"entries += {head}")
        self._line(f"memory += {BYTES_OF_OBJECT} + {head} * {_element_bytes(element) + BYTES_OF_SLOT}")
        self._line("if entries > most: return entries, memory, pos")
        if isinstance(kind, FixedArray):
            self._line(f"pos += {head} * {element.min_width}")
        else:
            self._block(f"for _ in range({head}):", element)

    def _block(self, head: str, kind: WireType) -> None:
        self._line(head)
        self._depth += 1
        written = len(self.lines)
        self.over(kind)
        self.end_run()
        if len(self.lines) == written:
            self._line("pass")
        self._depth -= 1

    def _over_tags(self, declared: MessageStruct) -> None:
        self.end_run()
        count, tag, length = self._fresh(), self._fresh(), self._fresh()
        self._line(f"{count} = data[pos]")
        self._line("pos += 1")
        self._line(f"if {count}:")
        self._depth += 1
        self._line(f"if {count} > 127: {count}, pos = decode_tag_count(data, pos - 1)")
        self._line(f"entries += {count}")
        self._line(f"memory += {count} * {BYTES_OF_TAG}")
        self._line("if entries > most: return entries, memory, pos")
        self._line(f"for _ in range({count}):")
        self._depth += 1
        self._line(f"{tag}, pos = decode_uvarint(data, pos)")
        self._line(f"{length}, pos = decode_uvarint(data, pos)")
        self._line(f"{length} += pos")
        self._line(f"memory += {length} - pos")
        for member in declared.tagged:
            self._block(f"if {tag} == {member.wire.tag}:", member.type)
            self._line(f"    if pos != {length}: raise ProtocolError('tagged field of another size', offset=pos)")
        self._line(f"pos = {length}")
        self._depth -= 2


__all__ = ["DecodedSize", "decoded_size"]
