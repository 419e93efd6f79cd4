"""One input of the codec's fuzzer: bytes, and the message or record type that they are decoded as.

A case has three forms: this class, a line in the format of `klamm wire decode` (tests/corpus), and, for libFuzzer, the
bytes after a prefix of five bytes that selects the type. This module does not import atheris.
"""

import struct
from dataclasses import dataclass, replace
from typing import Any, Final

from klamm.protocol import Api, Message, RecordType, load_api
from klamm.protocol.fields import cached
from klamm.protocol.messages.headers import REQUEST_HEADER, RESPONSE_HEADER
from klamm.protocol.messages.index import MODULES
from klamm.protocol.record_versions import load_control_type, load_record_type
from klamm.protocol.records import data as blobs
from klamm.protocol.records.index import CONTROL, METADATA

KINDS: Final = ("request", "response", "record", "control", "data", "batch", "stream")
"""As in `klamm wire`; `batch` is a record batch of the metadata log, `stream` what a connection receives."""
_HEAD: Final = struct.Struct(">BhH")
_VERSIONED: Final = {"request": "api", "response": "api", "record": "record", "control": "message", "data": "message"}


@dataclass(frozen=True, slots=True)
class CodecCase:
    """`key` is that of the API or record, for a blob its index in `blob_types`; 0, as `version`, where there is
    none."""

    kind: str
    key: int
    version: int
    data: bytes

    def with_data(self, data: bytes) -> "CodecCase":
        return replace(self, data=data)

    def to_fuzzer(self) -> bytes:
        """The bytes that libFuzzer keeps and mutates."""
        return _HEAD.pack(KINDS.index(self.kind), self.key, self.version) + self.data

    def to_line(self, found: str) -> dict[str, Any]:
        """The case as an object of JSON, with the finding."""
        named = {} if self.kind not in _VERSIONED else {_VERSIONED[self.kind]: self.name, "version": self.version}
        return {"kind": self.kind, **named, "found": found, "hex": self.data.hex()}

    @property
    def name(self) -> str:
        """The name of the API or record; of a batch or a stream its kind."""
        declared = declaration(self.kind, self.key)
        return self.kind if declared is None else declared.name


def case_of_fuzzer(data: bytes) -> CodecCase | None:
    """The case in libFuzzer's bytes; None if their prefix selects nothing."""
    if len(data) < _HEAD.size or data[0] >= len(KINDS):
        return None
    number, key, version = _HEAD.unpack_from(data)
    case = CodecCase(KINDS[number], key, version, data[_HEAD.size :])
    declared = declaration(case.kind, key)
    if case.kind in _VERSIONED and (declared is None or version not in declared.versions):
        return None
    return case


def case_of_line(line: dict[str, Any]) -> CodecCase:
    """The case in an object of JSON. ValueError if it names nothing that exists."""
    kind, data = line["kind"], bytes.fromhex(line["hex"])
    if kind not in _VERSIONED:
        return CodecCase(kind, 0, 0, data)
    name = line[_VERSIONED[kind]]
    for key in _keys(kind):
        declared = declaration(kind, key)
        if declared is not None and declared.name == name and line["version"] in declared.versions:
            return CodecCase(kind, key, line["version"], data)
    raise ValueError(f"no {kind} is called {name!r} and has version {line['version']}")


def declaration(kind: str, key: int) -> Api[Message, Message] | RecordType[Message] | None:
    """The declaration for a kind and a key."""
    if kind in ("request", "response"):
        return load_api(key) if key in MODULES else None
    if kind == "record":
        return load_record_type(key)
    if kind == "control":
        return load_control_type(key)
    return blob_types()[key] if kind == "data" and 0 <= key < len(blob_types()) else None


def all_kinds() -> list[tuple[str, int]]:
    """Every kind and key that is declared, batches and streams among them."""
    return [(kind, key) for kind in _VERSIONED for key in _keys(kind)] + [("batch", 0), ("stream", 0)]


@cached
def blob_types() -> tuple[RecordType[Message], ...]:
    """The headers, and the blobs that travel inside other messages."""
    others = [value for value in vars(blobs).values() if isinstance(value, RecordType)]
    return REQUEST_HEADER, RESPONSE_HEADER, *sorted(others, key=lambda kind: kind.name)


def _keys(kind: str) -> list[int]:
    if kind == "data":
        return list(range(len(blob_types())))
    return list({"record": METADATA, "control": CONTROL}.get(kind, MODULES))
