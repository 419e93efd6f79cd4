"""Decodes records of a batch to columns: runs of partition records at once, instead of one by one.

Records have one shape if they differ only in numbers, uuids and their index in the batch: lengths, counts and tags are
the same bytes. The schema reads one record of a shape; all others have their values at the same positions. Consecutive
records of several shapes are one run, in which arrays of unequal length are `Ragged`.

The generic path, record by record, is the reference, and decodes damaged records and those in no run. The columns take
a few times the bytes of the batch. The number of shapes that are searched is limited.
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
"""Shorter runs are decoded about as fast one by one (measured)."""
MIN_ALIKE = 4
"""Shapes that fewer records of a batch have are not looked for."""
MAX_SHAPES = 32
"""How many shapes are looked for in a batch: records of yet another one are decoded one by one."""

_FRAME_VERSION = 1
_KINDS = {kind.id: kind for kind in (PARTITION, PARTITION_CHANGE)}
_UUID_BYTES = 16

Indexes = NDArray[np.int64]


def decode_runs(data: bytes, position: int, end: int, count: int) -> dict[int, tuple[Columns[Any], int]]:
    """Runs among the `count` records between `position` and `end`, by the index of their first record, each with the
    position after its last one. None if the bytes are not so many records."""
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
    """Records as columns, a row for each of these indexes, which ascend; and the version that each was written in."""

    indexes: Indexes
    versions: Indexes
    columns: Columns[Any]


def decode_columns(
    data: bytes, starts: Indexes, ends: Indexes, numbers: Indexes, max_shapes: int = MAX_SHAPES
) -> Iterator[DecodedRecords]:
    """The partition records among those that lie between `starts` and `ends`, of one batch or of many. `numbers` are
    the places of the records in their batches, -1 for one that is to be left out. Left out are, too: what is damaged,
    and what has a rare shape."""
    joining: dict[Any, list[_Group]] = {}
    for group in _groups(data, starts, ends, numbers, max_shapes):
        joining.setdefault(group.shape.joins, []).append(group)
    for groups in joining.values():
        yield _join(groups)


def record_ends(data: bytes, at: int, end: int) -> Iterator[int]:
    """Where each record ends, going by the lengths alone; they break off at one that is impossible."""
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


class _NoShape(Exception):  # a way out, not an error: the generic path has to do it
    pass


class _Place(NamedTuple):
    """Where the values of a field stand in each record of a shape, and what they are to NumPy."""

    offset: int
    code: str
    elements: tuple[int, ...]


class _Shape:
    """What records have in common with the one given. `_NoShape`, or what a decoder raises, if that is damaged."""

    def __init__(self, record: bytes) -> None:
        self.places: dict[str, _Place] = {}
        """The fields that these records have; none for records that are never columns."""
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
        """Note where the value of a field stands; returns the offset after it."""
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
        """Equal for shapes that can be one run: whether a list is null is not said row by row."""
        nullable = {wire.name for wire in wire_fields(self.message_class) if wire.default is None}
        return self.message_class, frozenset(nullable & self.places.keys())

    def matches(self, rows: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Which of these records, the first of which made this shape, have it."""
        fixed = rows[:, self._fixed]
        matching: NDArray[np.bool_] = (fixed == fixed[0]).all(axis=1)
        return matching

    def have_positions(self, rows: NDArray[np.uint8], numbers: Indexes) -> NDArray[np.bool_]:
        """Which of these records say that they stand at these places of their batches."""
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
    """Records of one shape: their indexes, ascending, and their values by field."""

    shape: _Shape
    indexes: Indexes
    values: NDArray[Any]


def _groups(data: bytes, starts: Indexes, ends: Indexes, numbers: Indexes, attempts: int) -> Iterator[_Group]:
    """The records that may be columns, by shape, as far as enough have one size."""
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
    """The records of all these groups, in order."""
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
    """The stretches of consecutive records, each with the index of its first one."""
    indexes, columns = found.indexes, found.columns
    gaps = np.flatnonzero(np.diff(indexes) != 1) + 1
    for first, end in pairwise((0, *gaps.tolist(), len(indexes))):
        if end - first >= MIN_ROWS:
            cut = {name: _cut(value, first, end) for name, value in columns.values.items()}
            yield int(indexes[first]), Columns(columns.message_class, end - first, cut)


def _column(wire: WireField, groups: Sequence[_Group], rows: Sequence[Indexes], row_count: int) -> Any:
    """The values of a field; `rows` says where those of each group belong. Who lacks the field has its default."""
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
