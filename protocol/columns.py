"""Many messages of one class held as NumPy columns, for answers and records about many partitions.

A `Columns` can be the value of any field that is declared as an array of messages. It is a sequence, which creates its
messages when they are read. The codec encodes it from the columns directly (`klamm.protocol.codec.columns`). NumPy is
not imported here, because callers that make columns have imported it already.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Generic, TypeVar, overload

from klamm.protocol.fields import Array, Message, WireField, cached, wire_fields
from klamm.protocol.uuid import Uuid

M = TypeVar("M", bound=Message)


class Ragged:
    """A column of arrays of unequal length: row i is the first `lengths[i]` elements of `rows[i]`."""

    __slots__ = ("lengths", "rows")

    def __init__(self, rows: Any, lengths: Any) -> None:
        if len(rows) != len(lengths):
            raise ValueError(f"{len(rows)} rows, but {len(lengths)} lengths")
        self.rows = rows
        self.lengths = lengths

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> "Ragged":
        return Ragged(self.rows[index], self.lengths[index])

    def as_column(self) -> Any:
        """A plain column if all lengths are the same; otherwise this object."""
        if not len(self.lengths):
            return self.rows
        first = self.lengths[0]
        same = 0 <= first <= self.rows.shape[1] and (self.lengths == first).all()
        return self.rows[:, :first] if same else self


class Parts(Generic[M]):
    """A column of arrays of messages: row i is the rows of `whole` from `bounds[i]` to before `bounds[i + 1]`."""

    __slots__ = ("bounds", "whole")

    def __init__(self, whole: "Columns[M]", bounds: Any) -> None:
        if bounds[0] < 0 or bounds[-1] > len(whole) or (bounds[1:] < bounds[:-1]).any():
            raise ValueError(f"bounds that do not ascend from 0 to at most {len(whole)}")
        self.whole = whole
        self.bounds = bounds

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, rows: slice) -> "Parts[M]":
        first, end, _ = rows.indices(len(self))
        return Parts(self.whole, self.bounds[first : max(first, end) + 1])


class Columns(Sequence[M], Generic[M]):
    """`length` messages of one class. Arrays, `Ragged` and `Parts` have one entry for each row; any other value is the
    value of all rows.

    Numbers and bools are 1-D arrays; arrays of numbers (n, k) or `Ragged`; uuids uint8 (n, 16); arrays of uuids uint8
    (n, k, 16) or `Ragged` of those; strings 1-D arrays of objects; arrays of messages `Parts`. A field that `values`
    does not name has its default. Arrays are not copied, so a `Columns` over live state has to be encoded before that
    state changes.

    A slice is a `ColumnsSlice`. All slices of one `Columns` are encoded together with it. So the partitions of many
    small topics are encoded fastest as slices of one `Columns`.
    """

    __slots__ = ("_values", "encodings", "length", "message_class")

    def __init__(self, message_class: type[M], length: int, values: Mapping[str, Any]) -> None:
        known = _fields_by_name(message_class)
        for name, value in values.items():
            if name not in known:
                raise ValueError(f"{message_class.__name__} has no field {name}")
            if is_column(value) and len(value) != length:
                raise ValueError(f"column {name} has {len(value)} rows, not {length}")
        self.message_class = message_class
        self.length = length
        self._values = values
        self.encodings: dict[Any, Any] = {}
        """The codec's cache, so that all slices of this object are encoded at once. Set by the codec."""

    @property
    def values(self) -> Mapping[str, Any]:
        """By field name: a column, or the value of all rows."""
        return self._values

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> M: ...
    @overload
    def __getitem__(self, index: slice) -> "ColumnsSlice[M]": ...
    def __getitem__(self, index: int | slice) -> "M | ColumnsSlice[M]":
        if isinstance(index, slice):
            first, end, step = index.indices(self.length)
            if step != 1:
                raise ValueError("columns are sliced in steps of 1")
            return ColumnsSlice(self, first, max(first, end))
        row = range(self.length)[index]
        return next(self.rows(row, row + 1))

    def __iter__(self) -> Iterator[M]:
        return self.rows(0, self.length)

    def rows(self, first: int, end: int) -> Iterator[M]:
        """The messages of these rows."""
        fields = _fields_by_name(self.message_class)
        constant = {name: value for name, value in self.values.items() if not is_column(value)}
        columns = {
            name: _row_values(fields[name], self.values[name][first:end]) for name in self.values.keys() - constant
        }
        for row in range(end - first):
            yield self.message_class(**constant, **{name: column[row] for name, column in columns.items()})

    def column(self, name: str) -> Any:
        """The values of one field: a column, or the constant of all rows; None if `values` does not name it."""
        return self.values.get(name)

    def __repr__(self) -> str:
        return f"Columns({self.message_class.__name__}, {self.length}, {list(self.values)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, (str, bytes)):
            return NotImplemented
        return len(self) == len(other) and all(one == another for one, another in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]


class ColumnsSlice(Columns[M]):
    """The rows from `first` to before `end` of a `Columns`, as views. Only the whole has `encodings`, because a large
    answer has a slice for each topic."""

    __slots__ = ("end", "first", "whole")

    def __init__(self, whole: Columns[M], first: int, end: int) -> None:
        self.message_class = whole.message_class
        self.length = end - first
        self.whole = whole
        self.first = first
        self.end = end

    @property
    def values(self) -> Mapping[str, Any]:
        return {name: self.column(name) for name in self.whole.values}

    def column(self, name: str) -> Any:
        value: Any = self.whole.values.get(name)
        return value[self.first : self.end] if is_column(value) else value

    @overload
    def __getitem__(self, index: int) -> M: ...
    @overload
    def __getitem__(self, index: slice) -> "ColumnsSlice[M]": ...
    def __getitem__(self, index: int | slice) -> "M | ColumnsSlice[M]":
        rows = range(self.first, self.end)[index]
        if isinstance(rows, int):
            return self.whole[rows]
        if rows.step != 1:
            raise ValueError("columns are sliced in steps of 1")
        return ColumnsSlice(self.whole, rows.start, max(rows.start, rows.stop))

    def __iter__(self) -> Iterator[M]:
        return self.whole.rows(self.first, self.end)


COLUMNS = frozenset({Columns, ColumnsSlice})
"""The classes that the codec encodes at once."""


def is_column(value: object) -> bool:
    """Whether `value` holds an entry per row (an array, `Ragged` or `Parts`), rather than one for all."""
    return value.__class__ in _OWN_COLUMNS or hasattr(value, "dtype")


_OWN_COLUMNS = (Ragged, Parts)


@cached
def _fields_by_name(message_class: type[Message]) -> Mapping[str, WireField]:
    return {wire.name: wire for wire in wire_fields(message_class)}


def _row_values(wire: WireField, value: Any) -> list[Any]:
    """The values of a column's rows, as in decoded messages."""
    if isinstance(value, Ragged):
        lengths = value.lengths.tolist()
        whole = _row_values(wire, value.rows)
        return [row[:length] for row, length in zip(whole, lengths, strict=True)]
    if isinstance(value, Parts):
        return [value.whole[first:end] for first, end in pairwise(value.bounds.tolist())]
    if wire.type == "uuid":
        return [Uuid(row.tobytes()) for row in value]
    if wire.type == Array("uuid"):
        return [tuple(Uuid(uuid.tobytes()) for uuid in row) for row in value]
    if isinstance(wire.type, Array):
        return [tuple(row) for row in value.tolist()]
    rows: list[Any] = value.tolist()
    return rows
