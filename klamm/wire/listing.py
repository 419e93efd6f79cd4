"""The table of `klamm wire list`: every API and record type, with its versions."""

from collections.abc import Iterable

from klamm.protocol import Api, Message, RecordType, load_api
from klamm.protocol.messages.index import MODULES
from klamm.protocol.record_versions import load_control_type, load_record_type
from klamm.protocol.records.index import CONTROL, METADATA

_COLUMNS = ("kind", "key", "name", "versions", "flexible since")


def version_table() -> str:
    """The table as lines with aligned columns."""
    rows: list[tuple[str, ...]] = [_COLUMNS]
    rows += (_row("api", api.key, api) for api in map(load_api, sorted(MODULES)) if api is not None)
    for kind, types in (
        ("record", map(load_record_type, sorted(METADATA))),
        ("control", map(load_control_type, sorted(CONTROL))),
    ):
        rows += (_row(kind, found.id, found) for found in types if found is not None)
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    return "".join(f"{_line(row, widths)}\n" for row in rows)


def _row(kind: str, key: int, of: Api[Message, Message] | RecordType[Message]) -> tuple[str, ...]:
    since = "never" if of.flexible_since is None else str(of.flexible_since)
    return kind, str(key), of.name, f"{of.versions.start}-{of.versions.stop - 1}", since


def _line(row: Iterable[str], widths: Iterable[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
