"""Emitted code calls this module for an array that is given as columns. The first such call imports NumPy."""

from collections.abc import Callable
from typing import Any

from klamm.protocol.codec.streams import Buffer
from klamm.protocol.columns import Columns, ColumnsSlice
from klamm.protocol.errors import ProtocolError
from klamm.protocol.fields import Message, cached


def encode_columns_into(
    out: Buffer, columns: Columns[Any], message_class: type[Message], version: int, flexible: bool
) -> None:
    """Append the bytes of all rows, without a count."""
    if columns.message_class is not message_class:
        raise ProtocolError(f"columns of {columns.message_class.__name__}, not of {message_class.__name__}")
    build_columns, build_slice = _column_builders()
    if isinstance(columns, ColumnsSlice):
        build_slice(out, columns, version, flexible)
    else:
        build_columns(out, columns, version, flexible)


@cached
def _column_builders() -> tuple[Callable[..., None], Callable[..., None]]:
    from klamm.protocol.codec.columns import build_columns, build_slice

    return build_columns, build_slice
