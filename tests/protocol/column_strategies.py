"""Strategies for runs of messages as columns: each field is a constant, a column, `Ragged` or `Parts`."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from klamm.protocol import Columns, Message, Parts, Ragged
from klamm.protocol.fields import Array, WireField, wire_fields
from tests.protocol.strategies import messages

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
MAX_ROWS = 6
MAX_WIDTH = 3
LONGEST_OF_ONE_BYTE = 126
"""Elements of a row whose count takes one byte in compact form; one more takes two."""
TEXTS = np.array(["", "", "t", "orders", "größer", "x" * 63, "x" * 64, "é" * 64, "x" * 127, "x" * 249], object)


@st.composite
def runs(draw: st.DrawFn, message_class: type[Message], version: int, flexible: bool) -> Columns[Any]:
    """A run that this version can carry: fields that it lacks have their default.

    The shape is drawn field by field; the numbers come from a drawn seed, which is much faster.
    """
    row_count = draw(st.integers(0, MAX_ROWS))
    example = draw(messages(message_class, version, flexible))
    wires = [wire for wire in wire_fields(message_class) if wire.in_version(version)]
    kinds = st.sampled_from(["column", "column", "ragged", "constant", "left out"])
    shapes = draw(st.lists(kinds, min_size=len(wires), max_size=len(wires)))
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    values: dict[str, Any] = {}
    for wire, shape in zip(wires, shapes, strict=True):
        if shape == "constant":
            values[wire.name] = getattr(example, wire.name)
        elif shape != "left out" and isinstance(wire.type, Array) and isinstance(wire.type.of, type):
            values[wire.name] = parts(draw(runs(wire.type.of, version, flexible)), row_count, chance)
        elif shape != "left out":
            values[wire.name] = column(wire, row_count, chance, ragged=shape == "ragged")
    return Columns(message_class, row_count, values)


def parts(whole: Columns[Any], row_count: int, chance: np.random.Generator) -> Parts[Any]:
    """Some rows of a run, often not all, for each of so many messages."""
    return Parts(whole, np.sort(chance.integers(len(whole) + 1, size=row_count + 1)))


def column(wire: WireField, row_count: int, chance: np.random.Generator, *, ragged: bool) -> Any:
    """A column for a field of numbers, strings, uuids, or arrays of numbers or uuids."""
    if not isinstance(wire.type, Array):
        return numbers(wire.type, (row_count,), wire.default, chance)
    width = int(chance.integers(MAX_WIDTH + 1))
    if chance.random() < 0.2:
        width = LONGEST_OF_ONE_BYTE + int(chance.integers(2))
    rows = numbers(wire.type.of, (row_count, width), 0, chance)
    if not ragged:
        return rows
    return Ragged(rows, chance.integers(width + 1, size=row_count, dtype=[np.int16, np.int64][chance.integers(2)]))


def numbers(kind: Any, shape: tuple[int, ...], default: Any, chance: np.random.Generator) -> Any:
    """Numbers of the type, often the default, sometimes the extremes; of uuids their bytes. Or strings."""
    if kind == "string":
        return chance.choice(TEXTS, size=shape)
    if kind == "bool":
        return chance.integers(2, size=shape).astype(bool)
    if kind == "uuid":
        return chance.integers(256, size=(*shape, 16), dtype=np.uint8) * chance.integers(
            2, size=(*shape, 1), dtype=np.uint8
        )
    half = 1 << _BITS[kind] - 1
    drawn = chance.integers(-half, half, size=shape, dtype=np.int64)
    often = chance.choice([default, default, -half, half - 1], size=shape).astype(np.int64)
    mixed = np.where(chance.random(shape) < chance.random(), drawn, often)
    own = np.dtype(f"i{_BITS[kind] // 8}")
    return mixed.astype([own, own.newbyteorder(">"), np.dtype(np.int64)][chance.integers(3)])
