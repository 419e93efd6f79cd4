"""Decodes runs of partition records of a batch to columns, instead of one by one.

Records have the same shape if they differ only in numbers, uuids and their index in the batch, while lengths, counts
and tags are the same bytes. The schema reads one record of a shape; all others have their values at the same positions.
Consecutive records of several shapes form one run, in which arrays of unequal length are `Ragged`.

The generic path, record by record, is the reference. It also decodes damaged records and records in no run. The columns
need a few times the memory of the batch. The number of shapes per batch is limited.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from klamm.protocol.codec.arrays import FixedArray
from klamm.protocol.codec.columns import NUMBER_DTYPES
from klamm.protocol.codec.primitives import Number, UuidType
from klamm.protocol.codec.schema import schema
from klamm.protocol.codec.streams import Cursor
from klamm.protocol.codec.structs import Member, MessageStruct
from klamm.protocol.codec.varints import decode_tag_count, decode_uvarint, decode_zigzag
from klamm.protocol.columns import Columns, Ragged
from klamm.protocol.errors import ProtocolError
from klamm.protocol.fields import Array, Message, WireField, wire_fields
from klamm.protocol.records.partitions import PARTITION, PARTITION_CHANGE

MIN_ROWS = 16
"""The least length of a run. Shorter ones are decoded about as fast one by one (measured)."""
MIN_ALIKE = 4
"""The least number of records of the same size in a batch for which shapes are searched."""
MAX_SHAPES = 32
"""The most shapes that are searched in a batch. Records of further shapes are decoded one by one."""

_FRAME_VERSION = 1
_KINDS = {kind.id: kind for kind in (PARTITION, PARTITION_CHANGE)}
_UUID_BYTES = 16

Indexes = NDArray[np.int64]


def decode_runs(data: bytes, position: int, end: int, count: int) -> dict[int, tuple[Columns[Any], int]]:
    """Runs among the `count` records between `position` and `end`: by the index of the first record, the columns and
    the position after the last record. Empty if the bytes are not `count` records."""
    ends = np.fromiter(record_ends(data, position, end), dtype=np.int64)
    if len(ends) != count or count < MIN_ROWS or ends[-1] != end:
        return {}
    starts = np.concatenate(([position], ends[:-1]))
    return {
        first: (columns, int(ends[first + len(columns) - 1]))
        for found in decode_columns(data, starts, ends, np.arange(count))
        for first, columns in _cut_runs(found)
    }


class DecodedRecords(NamedTuple):
    """Records as columns: one row per index, in ascending order, and the version of each record."""

    indexes: Indexes
    versions: Indexes
    columns: Columns[Any]


def decode_columns(
    data: bytes, starts: Indexes, ends: Indexes, numbers: Indexes, max_shapes: int = MAX_SHAPES
) -> Iterator[DecodedRecords]:
    """The partition records among the records between `starts` and `ends`, of one or many batches. `numbers` are the
    indexes of the records in their batches, or -1 for a record to leave out. Damaged records and records of rare shapes
    are left out, too."""
    joining: dict[Any, list[_Group]] = {}
    for group in _groups(data, starts, ends, numbers, max_shapes):
        joining.setdefault(group.shape.joins, []).append(group)
    for groups in joining.values():
        yield _join(groups)


def record_ends(data: bytes, at: int, end: int) -> Iterator[int]:
    """The position after each record, computed from the lengths only. Stops at a length that is impossible."""
    try:
        while at < end:
            length = data[at]
            at += 1
            if length > 0x7F:
                byte = data[at]
                if byte < 0x80:
                    length = length & 0x7F | byte << 7
                    at += 1
                else:
                    value, at = decode_zigzag(data, at - 1, 5)
                    length = value << 1
            if length & 1 or length < 0:
                return
            at += length >> 1
            yield at
    except (IndexError, ProtocolError):
        return


class _NoShape(Exception):  # the generic path has to decode the record; this is no error
    pass


class _Place(NamedTuple):
    """The position of a field's values in each record of a shape, their NumPy code, and their dimensions."""

    offset: int
    code: str
    elements: tuple[int, ...]


class _Shape:
    """The shape of the given record. Raises `_NoShape`, or an exception of a decoder, if the record is damaged."""

    def __init__(self, record: bytes) -> None:
        self.places: dict[str, _Place] = {}
        """The fields of these records; empty for records that are never decoded to columns."""
        self._fixed = np.ones(len(record), dtype=bool)
        _, at = decode_zigzag(record, 0, 5)
        _, delta = decode_zigzag(record, at + 1, 10)
        _, at = decode_zigzag(record, delta, 5)
        self._delta = slice(delta, at)
        self._fixed[self._delta] = False
        key_length, at = decode_zigzag(record, at, 5)
        value_length, at = decode_zigzag(record, at + max(key_length, 0), 5)
        if at + value_length + 1 != len(record) or record[-1] != 0:
            raise _NoShape
        frame_version, at = decode_uvarint(record, at)
        record_id, at = decode_uvarint(record, at)
        version, at = decode_uvarint(record, at)
        kind = _KINDS.get(record_id)
        if kind is None:
            self._fixed[at:] = False
            return
        if frame_version != _FRAME_VERSION or version not in kind.versions:
            raise _NoShape
        self.message_class: type[Message] = kind.message
        self.version = version
        at = self._place_members(schema(kind.message, version, kind.flexible(version)), record, at)
        if at != len(record) - 1:
            raise _NoShape

    def _place_members(self, struct_type: MessageStruct, record: bytes, at: int) -> int:
        for member in struct_type.positional:
            at = self._place(member, record, at)
        if not struct_type.flexible:
            return at
        known = {member.wire.tag: member for member in struct_type.tagged}
        count, at = decode_tag_count(record, at)
        for _ in range(count):
            tag, at = decode_uvarint(record, at)
            size, at = decode_uvarint(record, at)
            if tag not in known:
                raise _NoShape
            after = self._place(known[tag], record, at)
            if after != at + size:
                raise _NoShape
            at = after
        return at

    def _place(self, member: Member, record: bytes, at: int) -> int:
        """Record the position of a field's value. Returns the offset after it."""
        wire_type, elements = member.type, list[int]()
        if isinstance(wire_type, FixedArray):
            cursor = Cursor(record, at)
            count = wire_type._parse_head(cursor, member.name)
            at = cursor.pos
            if count is None:
                self.places.pop(member.name, None)
                return at
            wire_type = wire_type.element
            elements.append(count)
        width = wire_type.min_width * (elements[0] if elements else 1)
        if isinstance(wire_type, UuidType):
            code = "u1"
            elements.append(_UUID_BYTES)
        elif isinstance(wire_type, Number):
            code = NUMBER_DTYPES[wire_type.kind]
        else:
            raise _NoShape
        self.places[member.name] = _Place(at, code, tuple(elements))
        self._fixed[at : at + width] = False
        return at + width

    @property
    def joins(self) -> Any:
        """A value that is equal for shapes that can form one run. A nullable list is null in all rows or in none."""
        nullable = {wire.name for wire in wire_fields(self.message_class) if wire.default is None}
        return self.message_class, frozenset(nullable & self.places.keys())

    def matches(self, rows: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """bool[k]: which of these records have this shape. The shape must have been made from the first of them."""
        fixed = rows[:, self._fixed]
        matching: NDArray[np.bool_] = (fixed == fixed[0]).all(axis=1)
        return matching

    def have_positions(self, rows: NDArray[np.uint8], numbers: Indexes) -> NDArray[np.bool_]:
        """bool[k]: which of these records have the given index in their batch, by their offset delta."""
        digits = rows[:, self._delta]
        powers = 7 * np.arange(digits.shape[1])
        continued = (digits > 0x7F) == (powers < powers[-1])
        said: Indexes = ((digits & 0x7F).astype(np.int64) << powers).sum(axis=1)
        placed: NDArray[np.bool_] = continued.all(axis=1) & (said == 2 * numbers)
        return placed

    def values(self, rows: NDArray[np.uint8]) -> NDArray[Any]:
        """The values of these records, by field."""
        layout = {
            "names": list(self.places),
            "formats": [(place.code, place.elements) for place in self.places.values()],
            "offsets": [place.offset for place in self.places.values()],
            "itemsize": rows.shape[1],
        }
        return rows.view(np.dtype(layout))[:, 0]  # type: ignore[call-overload]


class _Group(NamedTuple):
    """Records of one shape: their indexes in ascending order, and their values by field."""

    shape: _Shape
    indexes: Indexes
    values: NDArray[Any]


def _groups(data: bytes, starts: Indexes, ends: Indexes, numbers: Indexes, attempts: int) -> Iterator[_Group]:
    """Groups of records that can become columns, one per shape. Sizes of fewer than `MIN_ALIKE` records are skipped."""
    sizes = ends - starts
    content = np.frombuffer(data, dtype=np.uint8)
    for size, record_count in zip(*(found.tolist() for found in np.unique(sizes, return_counts=True)), strict=True):
        if record_count < MIN_ALIKE:
            continue
        indexes = np.flatnonzero(sizes == size)
        rows = np.lib.stride_tricks.sliding_window_view(content, size)[starts[indexes]]
        while len(indexes) and attempts:
            attempts -= 1
            try:
                shape = _Shape(rows[0].tobytes())
            except (_NoShape, ProtocolError, IndexError):
                indexes, rows = indexes[1:], rows[1:]
                continue
            matching = shape.matches(rows)
            if shape.places:
                taken = matching & shape.have_positions(rows, numbers[indexes])
                yield _Group(shape, indexes[taken], shape.values(rows[taken]))
            indexes, rows = indexes[~matching], rows[~matching]


def _join(groups: Sequence[_Group]) -> DecodedRecords:
    """The records of all these groups, in the order of their indexes."""
    message_class = groups[0].shape.message_class
    indexes = np.sort(np.concatenate([group.indexes for group in groups]))
    rows = [np.searchsorted(indexes, group.indexes) for group in groups]
    values = {
        wire.name: _column(wire, groups, rows, len(indexes))
        for wire in wire_fields(message_class)
        if any(wire.name in group.shape.places for group in groups)
    }
    versions = np.zeros(len(indexes), np.int64)
    for group, at in zip(groups, rows, strict=True):
        versions[at] = group.shape.version
    return DecodedRecords(indexes, versions, Columns(message_class, len(indexes), values))


def _cut_runs(found: DecodedRecords) -> Iterator[tuple[int, Columns[Any]]]:
    """The runs of at least `MIN_ROWS` consecutive records, each with the index of its first record."""
    indexes, columns = found.indexes, found.columns
    gaps = np.flatnonzero(np.diff(indexes) != 1) + 1
    for first, end in pairwise((0, *gaps.tolist(), len(indexes))):
        if end - first >= MIN_ROWS:
            cut = {name: _cut(value, first, end) for name, value in columns.values.items()}
            yield int(indexes[first]), Columns(columns.message_class, end - first, cut)


def _column(wire: WireField, groups: Sequence[_Group], rows: Sequence[Indexes], row_count: int) -> Any:
    """The column of a field. `rows` are the rows of each group. Records without the field have its default."""
    given = [
        (group.values[wire.name], at) for group, at in zip(groups, rows, strict=True) if wire.name in group.shape.places
    ]
    dtype, shape = given[0][0].dtype.newbyteorder("="), given[0][0].shape
    if not isinstance(wire.type, Array):
        default = np.frombuffer(wire.default, dtype) if wire.type == "uuid" else wire.default
        column = np.full((row_count, *shape[1:]), default, dtype)
        for values, at in given:
            column[at] = values
        return column
    widest = max(values.shape[1] for values, _ in given)
    column = np.zeros((row_count, widest, *shape[2:]), dtype)
    lengths = np.zeros(row_count, np.int32)
    for values, at in given:
        column[at, : values.shape[1]] = values
        lengths[at] = values.shape[1]
    return Ragged(column, lengths)


def _cut(column: Any, first: int, end: int) -> Any:
    return column[first:end].as_column() if isinstance(column, Ragged) else column[first:end]
