"""The recorded frames of tests/golden/broker-join, and answers as trees of values that can be compared."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from klamm.protocol.fields import Message, wire_fields

FOLDER: Final = Path(__file__).resolve().parents[1] / "golden" / "broker-join"
TRACES: Final = ("trace", "trace-full", "trace-two-brokers")
KEYS: Final = ("api_key", "name", "topic_id", "node_id")
"""Fields by which the entries of an array are told apart, where an entry has one."""


@dataclass(frozen=True)
class Frame:
    """One frame without its size."""

    number: int
    connection: int
    is_request: bool
    api_key: int
    version: int
    correlation_id: int
    data: bytes


def frames(trace: str) -> Iterator[Frame]:
    """The frames of a trace, in their order."""
    with gzip.open(FOLDER / f"{trace}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            found = json.loads(line)
            yield Frame(
                found["n"],
                found["conn"],
                found["dir"] == "req",
                found["apiKey"],
                found["version"],
                found["correlationId"],
                bytes.fromhex(found["hex"]),
            )


def values(message: Any, path: str = "") -> dict[str, Any]:
    """Every field of a message by its path; entries of an array by their key, else by their position."""
    found: dict[str, Any] = {}
    if isinstance(message, Message):
        for wire in wire_fields(type(message)):
            found |= values(getattr(message, wire.name), f"{path}.{wire.name}")
    elif isinstance(message, list | tuple):
        found[f"{path}[]"] = len(message)
        for index, entry in enumerate(message):
            key = next((getattr(entry, name) for name in KEYS if hasattr(entry, name)), index)
            found |= values(entry, f"{path}[{key}]")
    else:
        found[path] = message
    return found
