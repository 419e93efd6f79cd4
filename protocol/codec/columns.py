"""Encodes columns: all rows at once, field by field instead of row by row.

The generic path, message by message, is the reference, and is used for values that have no columns here (nulls, nested
structs, arrays of strings). A property test checks that both give the same bytes. In `protocol`, only this module,
`rows` and `column_records` (the decoder) import NumPy; `column_arrays` imports this module with the first `Columns`.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from klamm.protocol.codec.arrays import ArrayOf, FixedArray
from klamm.protocol.codec.message_arrays import MessageArray
from klamm.protocol.codec.messages import build_function
from klamm.protocol.codec.primitives import HeadedType, Number, Text, UuidType
from klamm.protocol.codec.rows import (
    Chunks,
    Layout,
    Piece,
    Sizes,
    append_rows,
    bounds_of,
    check_range,
    chunks,
    constant,
    fits_always,
    number_column,
    total_sizes,
    uvarint_column,
    zigzag_column,
)
from klamm.protocol.codec.schema import schema
from klamm.protocol.codec.streams import Buffer
from klamm.protocol.codec.structs import Member, MessageStruct
from klamm.protocol.codec.tags import differs
from klamm.protocol.codec.varints import MAX_STRING_BYTES, encode_uvarint
from klamm.protocol.columns import Columns, ColumnsSlice, Parts, Ragged, is_column
from klamm.protocol.errors import ProtocolError
from klamm.protocol.fields import Array, WireField
from klamm.protocol.uuid import Uuid

NUMBER_DTYPES = {
    "bool": "?",
    "int8": "i1",
    "int16": ">i2",
    "uint16": ">u2",
    "int32": ">i4",
    "uint32": ">u4",
    "int64": ">i8",
    "float64": ">f8",
}
MAX_KNOWN_LAYOUTS = 256
# Offset deltas are signed varints, which are one byte longer from each of these values on. Within a segment all rows
# have the same width.
_SEGMENT_STARTS = (0, 1 << 6, 1 << 13, 1 << 20, 1 << 27, 1 << 31)


# With fewer rows than these the generic path is faster (measured: rows of one width and known layout, rows of unequal
# width, records of a batch).
_MIN_ROWS = 8
_MIN_UNEQUAL_ROWS = 56
_MIN_RECORDS = 40


class _NoColumns(Exception):  # the generic path has to encode the rows; this is no error
    pass


def build_columns(out: Buffer, columns: Columns[Any], version: int, flexible: bool) -> None:
    """Append the bytes of all rows."""
    columns = _without_needless_ragged(columns)
    struct_type = schema(columns.message_class, version, flexible)
    few = _MIN_UNEQUAL_ROWS if any(map(_is_unequal, columns.values.values())) else _MIN_ROWS
    if len(columns) < few or not build_rows(out, struct_type, columns):
        build = build_function(columns.message_class, version, flexible)
        for message in columns:
            build(message, out, None)


def _is_unequal(value: Any) -> bool:
    """Whether the rows of a column may have different numbers of bytes."""
    return value.__class__ in (Ragged, Parts) or (value.__class__ is np.ndarray and value.dtype.hasobject)


def build_slice(out: Buffer, part: ColumnsSlice[Any], version: int, flexible: bool) -> None:
    """Append the bytes of these rows. The first slice of a `Columns` encodes all of its rows."""
    whole = part.whole
    encoded = whole.encodings.get((version, flexible))
    if encoded is None:
        encoded = whole.encodings[version, flexible] = _encode_whole(whole, version, flexible)
    content, ends = encoded
    if isinstance(ends, int):
        out += content[part.first * ends : part.end * ends]
    elif part.end > part.first:
        out += content[int(ends[part.first]) : int(ends[part.end])]


def _encode_whole(whole: Columns[Any], version: int, flexible: bool) -> tuple[memoryview, Any]:
    """The bytes of all rows; and the width of a row, or int64[rows + 1], the bounds of the rows."""
    out = Buffer()
    whole = _without_needless_ragged(whole)
    try:
        sizes = _append_all(out, schema(whole.message_class, version, flexible), whole).sizes()
    except _NoColumns:
        build = build_function(whole.message_class, version, flexible)
        begins = [0]
        for message in whole:
            build(message, out, None)
            begins.append(len(out))
        return memoryview(out), np.array(begins)
    return memoryview(out), sizes if isinstance(sizes, int) else bounds_of(sizes)


def build_rows(out: Buffer, struct_type: MessageStruct, columns: Columns[Any]) -> bool:
    """Append the bytes of all rows. Returns False and appends nothing if the generic path has to do it."""
    if len(columns):
        try:
            _append_all(out, struct_type, columns)
        except _NoColumns:
            return False
    return True


def _append_all(out: Buffer, struct_type: MessageStruct, columns: Columns[Any]) -> "_Body | _KnownLayout":
    """Append the bytes of all rows. Returns an object with their sizes. Raises `_NoColumns` and appends nothing if the
    generic path has to do it."""
    signature = _signature(struct_type, columns)
    known = _LAYOUTS.get(signature)
    if known is not None:
        out += known.fill(columns)
        return known
    body = _Body(struct_type, columns)
    body.add_fields()
    append_rows(out, body.pieces, len(columns))
    if signature is not None and body.depends_on_shapes_only:
        if len(_LAYOUTS) >= MAX_KNOWN_LAYOUTS:
            del _LAYOUTS[next(iter(_LAYOUTS))]
        _LAYOUTS[signature] = _KnownLayout(body)
    return body


def build_records(
    out: Buffer, columns: Columns[Any], version: int, flexible: bool, first_delta: int, prefix: bytes
) -> bool:
    """Append a record of a batch for each row. Offset deltas begin at `first_delta`; `prefix` precedes each body.

    Returns False and appends nothing if the generic path has to do it.
    """
    if len(columns) < _MIN_RECORDS:
        return False
    return build_record_rows(out, schema(columns.message_class, version, flexible), columns, first_delta, prefix)


def build_record_rows(
    out: Buffer, struct_type: MessageStruct, columns: Columns[Any], first_delta: int, prefix: bytes
) -> bool:
    """`build_records` for any number of rows."""
    if not len(columns):
        return True
    body = _Body(struct_type, _without_needless_ragged(columns))
    body.pieces.append(constant(prefix))
    try:
        body.add_fields()
    except _NoColumns:
        return False
    end = first_delta + len(columns)
    for start, stop in pairwise(_SEGMENT_STARTS):
        first, last = max(start, first_delta), min(stop, end)
        if first < last:
            value = [piece.rows(first - first_delta, last - first_delta) for piece in body.pieces]
            append_rows(out, _record_pieces(value, first, last), last - first)
    return True


def _without_needless_ragged(columns: Columns[Any]) -> Columns[Any]:
    """The columns, with a plain column in place of each `Ragged` whose rows have the same length. That is common,
    because healthy partitions have all replicas in sync."""
    values = columns.values
    if Ragged not in [value.__class__ for value in values.values()]:
        return columns
    plain = {name: value.as_column() if value.__class__ is Ragged else value for name, value in values.items()}
    return Columns(columns.message_class, len(columns), plain)


def _record_pieces(value: list[Piece | Chunks], first: int, last: int) -> list[Piece | Chunks]:
    record: list[Piece | Chunks] = [
        constant(b"\0\0"),  # attributes, timestamp delta
        zigzag_column(np.arange(first, last)),
        constant(b"\1"),  # a null key
        zigzag_column(total_sizes(value)),
        *value,
        constant(b"\0"),  # no headers
    ]
    return [zigzag_column(total_sizes(record)), *record]


class _Body:
    """The pieces of one struct for all rows of a run."""

    def __init__(self, struct_type: MessageStruct, columns: Columns[Any]) -> None:
        self.struct_type = struct_type
        self.values = columns.values
        self.row_count = len(columns)
        self.pieces: list[Piece | Chunks] = []
        self.column_fields: list[tuple[str, str]] = []
        """The fields whose columns are unchanged in the pieces, with their NumPy codes."""
        self.depends_on_shapes_only = True
        """Whether the pieces of another run with the same constants and shapes differ only in their content."""

    def add_fields(self) -> None:
        """Append the pieces of all fields. Raises `_NoColumns` if the generic path has to encode a field."""
        for wire in self.struct_type.absent:
            self._check_absent(wire)
        for member in self.struct_type.positional:
            self.pieces += self._value(member)
        if self.struct_type.flexible:
            self._add_tags()

    def sizes(self) -> Sizes:
        """The number of bytes of each row."""
        return total_sizes(self.pieces)

    def _check_absent(self, wire: WireField) -> None:
        if wire.ignorable or wire.name not in self.values:
            return
        value = self.values[wire.name]
        if is_column(value):
            self.depends_on_shapes_only = False
        if np.any(_rows_that_differ(wire, value)):
            raise ProtocolError("set, but this version has no such field", path=wire.name)

    def _value(self, member: Member) -> list[Piece | Chunks]:
        """The pieces of a field's value, for all rows."""
        value = self.values.get(member.name, member.wire.default)
        if not is_column(value):
            inner = Buffer()
            member.type._build(value, inner, None, member.name)
            return [constant(bytes(inner))]
        if _is_unequal(value):
            self.depends_on_shapes_only = False
            if isinstance(value, Ragged):
                return self._ragged(member, value)
            return self._parts(member, value) if isinstance(value, Parts) else self._texts(member, value)
        code = _column_code(member, value)
        self.column_fields.append((member.name, code))
        column = number_column(_flat(value), code)
        if not isinstance(member.type, FixedArray):
            return [column]
        return [self._count(member.type, value.shape[1]), column]

    def _ragged(self, member: Member, value: Ragged) -> list[Piece | Chunks]:
        code, array = _column_code(member, value.rows), member.type
        assert isinstance(array, FixedArray)
        widest = value.rows.shape[1]
        if self.row_count and not 0 <= int(value.lengths.min()) <= int(value.lengths.max()) <= widest:
            raise ProtocolError(f"a length is not between 0 and {widest}", path=member.name)
        counts = _heads(array, value.lengths)
        keep = np.arange(widest) < value.lengths[:, None]
        # Elements after a row's length are padding of any value. They are not written, so their range is not checked.
        rows = value.rows if value.rows.ndim == 3 else np.where(keep, value.rows, 0)
        column = number_column(_flat(rows), code)
        return [counts, Piece(column.width, column.content, code, keep)]

    def _parts(self, member: Member, value: Parts[Any]) -> list[Piece | Chunks]:
        array = member.type
        if not isinstance(array, MessageArray) or array.element.message_class is not value.whole.message_class:
            raise ProtocolError(f"{value.whole!r} is no array of this field", path=member.name)
        content, ends = _encode_whole(value.whole, array.version, array.element.flexible)
        bounds = value.bounds * ends if isinstance(ends, int) else ends[value.bounds]
        return [_heads(array, np.diff(value.bounds)), chunks(content, bounds)]

    def _texts(self, member: Member, value: Any) -> list[Piece | Chunks]:
        """The pieces of a column of strings. The generic path handles nulls, and refuses values that are no strings."""
        if not isinstance(member.type, Text):
            raise _NoColumns
        try:
            texts = [text.encode() for text in value.tolist()]
        except (AttributeError, UnicodeEncodeError):
            raise _NoColumns from None
        sizes = np.fromiter(map(len, texts), np.int64, len(texts))
        if sizes.max(initial=0) > MAX_STRING_BYTES:
            raise _NoColumns
        return [_heads(member.type, sizes), Chunks(sizes, lambda first, end: texts[first:end])]

    def _count(self, array: FixedArray, count: int) -> Piece:
        inner = Buffer()
        array._build_head(count, inner, "")
        return constant(bytes(inner))

    def _add_tags(self) -> None:
        section: list[Piece | Chunks] = []
        count: Any = 0
        for member in self.struct_type.tagged:
            differing = _rows_that_differ(member.wire, self.values.get(member.name, member.wire.default))
            if is_column(differing):
                self.depends_on_shapes_only = False
            if not np.any(differing):
                continue
            value = self._value(member)
            size = total_sizes(value)
            field: list[Piece | Chunks] = [constant(encode_uvarint(member.wire.tag or 0)), uvarint_column(size), *value]
            section += field if np.all(differing) else [piece.kept(differing) for piece in field]
            count = count + (1 if np.all(differing) else differing.astype(np.int64))
        self.pieces += [uvarint_column(count), *section]


def _rows_that_differ(wire: WireField, value: Any) -> Any:
    """Whether the field differs from its default: one bool for all rows, or bool[rows]."""
    if isinstance(value, Ragged):
        return True if wire.default is None else value.lengths > 0
    if isinstance(value, Parts):
        return True if wire.default is None else np.diff(value.bounds) > 0
    if not is_column(value):
        return differs(wire, value)
    if isinstance(wire.type, Array):
        return wire.default is None or value.shape[1] > 0
    if wire.type == "uuid":
        return (value != np.frombuffer(wire.default, dtype=np.uint8)).any(axis=1)
    return value != wire.default


def _heads(headed: HeadedType, sizes: Any) -> Piece:
    """The lengths or counts that precede each row's content."""
    if headed.compact:
        return uvarint_column(sizes + 1)
    return number_column(sizes, ">i4" if isinstance(headed, ArrayOf) else ">i2")


def _column_code(member: Member, value: Any) -> str:
    """The NumPy code of the elements of a field's column. Raises `_NoColumns` unless they are numbers or uuids."""
    wire_type = member.type
    dimensions = 1
    if isinstance(wire_type, FixedArray):
        wire_type, dimensions = wire_type.element, 2
    if isinstance(wire_type, UuidType):
        if value.ndim != dimensions + 1 or value.shape[-1] != 16 or value.dtype != np.uint8:
            raise ProtocolError(f"{value.dtype} {value.shape} is no column of uuids", path=member.name)
        return "u1"
    if not isinstance(wire_type, Number) or value.dtype.kind not in "biuf":
        raise _NoColumns
    if value.ndim != dimensions:
        raise ProtocolError(f"a column of {value.ndim} dimensions, not {dimensions}", path=member.name)
    return NUMBER_DTYPES[wire_type.kind]


def _flat(column: Any) -> Any:
    """The column in two dimensions: an array of uuids becomes one row of bytes."""
    return column.reshape(len(column), column.shape[1] * 16) if column.ndim == 3 else column


# -- cached layouts: a Metadata response has a run of partitions for each topic ---------------------------------------


class _KnownLayout:
    __slots__ = ("_checks", "_layout", "_names")

    def __init__(self, body: _Body) -> None:
        self._layout = Layout([piece for piece in body.pieces if isinstance(piece, Piece)])  # no chunks here
        self._names = [name for name, _ in body.column_fields]
        self._checks = [(name, code) for name, code in body.column_fields if not fits_always(body.values[name], code)]

    def sizes(self) -> Sizes:
        return self._layout.width

    def fill(self, columns: Columns[Any]) -> bytearray:
        values = columns.values
        for name, code in self._checks:
            check_range(values[name], code)
        return self._layout.fill([_flat(values[name]) for name in self._names], len(columns))


_LAYOUTS: dict[Any, _KnownLayout] = {}


def _signature(struct_type: MessageStruct, columns: Columns[Any]) -> Any:
    """A key of everything that a layout depends on: schema, shapes of columns, constants. None if it has no hash."""
    parts: list[Any] = [struct_type]
    for name, value in columns.values.items():
        if value.__class__ is np.ndarray:
            parts.append((name, value.dtype, value.shape[1:]))
        elif value.__class__ in _HASHABLE:
            parts.append((name, value))
        else:
            return None
    return tuple(parts)


_HASHABLE = (int, bool, str, bytes, Uuid, type(None))
