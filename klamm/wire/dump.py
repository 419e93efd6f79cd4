"""Prints a metadata log segment or snapshot as JSON lines: one for each record, and one for each damaged place."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from klamm.protocol.codec.json_form import message_to_json
from klamm.protocol.errors import ProtocolError
from klamm.protocol.fields import Message
from klamm.protocol.raw_records import UnknownRecord, decode_control_value, decode_metadata_value, read_record
from klamm.protocol.record_batch import CONTROL_VERSION, HEADER_BYTES, CorruptBatch, check_batch, decode_batch_header

_WINDOW_BYTES: Final = 1 << 20
_LENGTH_AT, _LENGTH_END = 8, 12

Dumped = tuple[str, bool]


def dump_lines(path: Path) -> Iterator[Dumped]:
    """The lines of a file, each with False if it reports a problem. Reading ends at bytes that are not a batch. Raises
    OSError."""
    with path.open("rb") as file:
        size, position = os.fstat(file.fileno()).st_size, 0
        while position < size:
            head = os.pread(file.fileno(), HEADER_BYTES, position)
            length = int.from_bytes(head[_LENGTH_AT:_LENGTH_END], "big", signed=True)
            data = head
            if length > 0:
                data = os.pread(file.fileno(), min(_LENGTH_END + length, size - position), position)
            try:
                end = check_batch(data, 0)
            except CorruptBatch as error:
                yield _problem({"position": position}, error.reason), False
                return
            yield from _batch_lines(data, position, end)
            position += end


def _batch_lines(data: bytes, position: int, end: int) -> Iterator[Dumped]:
    header = decode_batch_header(data, 0)
    at, index = HEADER_BYTES, 0
    while at < end:
        described: dict[str, Any] = {
            "offset": header.base_offset + index,
            "leaderEpoch": header.leader_epoch,
            "timestampMs": int.from_bytes(data[35:43], "big", signed=True),
            "batch": position,
        }
        try:
            record, at = read_record(data, at, end)
        except ProtocolError as error:
            yield _problem(described, error.reason), False
            return
        described["offset"] = header.base_offset + record.offset_delta
        try:
            if header.is_control:
                message, version = decode_control_value(record.key, record.value), CONTROL_VERSION
            else:
                message, version = decode_metadata_value(record.value)
            yield _text({**described, **_named(message, version)}), True
        except UnknownRecord as error:
            yield (
                _problem({**described, "key": error.record_id, "version": error.version}, error.reason, record.value),
                False,
            )
        except ProtocolError as error:
            yield _problem(described, error.reason, record.value), False
        index += 1


def _named(message: Message, version: int) -> dict[str, Any]:
    return {"record": type(message).__name__, "version": version, "body": message_to_json(message, version)}


def _problem(described: dict[str, Any], reason: str, value: bytes | None = None) -> str:
    raw = {} if value is None else {"hex": value.hex()}
    return _text({**described, **raw, "error": {"reason": reason}})


def _text(line: dict[str, Any]) -> str:
    return json.dumps(line, separators=(",", ":"))
