"""Strategies for messages of any class and version, made from the declarations; each version can hold them."""

from collections.abc import Iterator
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from klamm.protocol import Api, ErrorCode, Message, RecordType, Uuid, load_api
from klamm.protocol.coordinator_records import load_coordinator_record
from klamm.protocol.fields import Array, WireField, cached, wire_fields
from klamm.protocol.messages.headers import REQUEST_HEADER, RESPONSE_HEADER
from klamm.protocol.messages.index import MODULES
from klamm.protocol.record_versions import load_control_type, load_record_type
from klamm.protocol.records import data as data_messages
from klamm.protocol.records.coordinator.index import COORDINATOR
from klamm.protocol.records.index import CONTROL, METADATA

Strategy = st.SearchStrategy[Any]
FIRST_UNKNOWN_TAG = 100
EXAMPLES = getattr(settings.default, "max_examples", 50)
"""How many examples the hypothesis profile asks for; loops without hypothesis go by it, too."""
FEW_EXAMPLES = max(1, EXAMPLES // 6)
"""For a property that is tried for each of a hundred messages or versions, which share one codec."""
_INTEGERS = {"int8": (8, True), "int16": (16, True), "uint16": (16, False), "int32": (32, True), "uint32": (32, False)}


def all_apis() -> list[Api[Message, Message]]:
    loaded = [load_api(key) for key in MODULES]
    return [api for api in loaded if api is not None]


def all_record_types() -> list[RecordType[Message]]:
    """Metadata records, control records, coordinator records, headers and the versioned blobs."""
    loaded = [*(load_record_type(key) for key in METADATA), *(load_control_type(key) for key in CONTROL)]
    blobs = [value for value in vars(data_messages).values() if isinstance(value, RecordType)]
    for topic, numbers in COORDINATOR.items():
        for number in numbers:
            loaded += load_coordinator_record(topic, number) or ()
    return [kind for kind in loaded if kind is not None] + [REQUEST_HEADER, RESPONSE_HEADER, *blobs]


def all_schemas() -> Iterator[tuple[type[Message], int, bool]]:
    """Every message class in every version, with whether that is flexible."""
    for api in all_apis():
        for version in api.versions:
            yield api.request, version, api.flexible(version)
            yield api.response, version, api.flexible(version)
    for kind in all_record_types():
        for version in kind.versions:
            yield kind.message, version, kind.flexible(version)


@cached
def messages(message_class: type[Message], version: int, flexible: bool, *, for_kio: bool = False) -> Strategy:
    """Messages that this version can carry. `for_kio`: only values that kio has types for."""
    fields = {wire.name: _field(wire, version, flexible, for_kio) for wire in wire_fields(message_class)}
    made = st.fixed_dictionaries({name: strategy for name, strategy in fields.items() if strategy is not None})
    if not flexible or for_kio:
        return made.map(lambda values: message_class(**values))
    unknown = st.none() | st.dictionaries(
        st.integers(FIRST_UNKNOWN_TAG, 2**31 - 1), st.binary(max_size=3), min_size=1, max_size=2
    )
    return st.tuples(made, unknown).map(lambda drawn: _with_unknown(message_class(**drawn[0]), drawn[1]))


def _with_unknown(message: Message, unknown: dict[int, bytes] | None) -> Message:
    message.unknown_tags = unknown
    return message


def _field(wire: WireField, version: int, flexible: bool, for_kio: bool) -> Strategy | None:
    if not wire.in_version(version):
        return None
    strategy = _value(wire.type, wire.name, version, flexible, for_kio)
    if wire.nullable_in(version):
        strategy = st.none() | strategy
    if wire.tag is not None:
        strategy = st.just(wire.default) | strategy
    return strategy


def _value(kind: Any, name: str, version: int, flexible: bool, for_kio: bool) -> Strategy:
    if isinstance(kind, Array):
        return st.lists(_value(kind.of, name, version, flexible, for_kio), max_size=2).map(tuple)
    if isinstance(kind, type):
        return messages(kind, version, flexible, for_kio=for_kio)
    if for_kio and (special := _kio_value(kind, name)) is not None:
        return special
    return _primitive(kind)


@cached
def _primitive(kind: str) -> Strategy:
    if kind in _INTEGERS:
        bits, signed = _INTEGERS[kind]
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        return st.integers(low, high)
    strategies: dict[str, Strategy] = {
        "bool": st.booleans(),
        "int64": st.integers(-(2**63), 2**63 - 1),
        "float64": st.floats(),
        "string": st.text(max_size=6) | st.sampled_from(["", "é" * 64, "x" * 126, "x" * 127, "x" * 300]),
        "bytes": st.binary(max_size=6) | st.just(b"\xff" * 130),
        "records": st.binary(max_size=6),
        "uuid": st.binary(min_size=16, max_size=16).map(Uuid),
    }
    return strategies[kind]


def _kio_value(kind: str, name: str) -> Strategy | None:
    """kio has enums for error codes, and times with limits."""
    if kind == "int16" and name.endswith("error_code"):
        return st.sampled_from([int(code) for code in ErrorCode])
    if name.endswith("_ms") or "timestamp" in name:
        return st.integers(0, 2**31 - 1)
    if kind == "float64":
        return st.floats(allow_nan=False)
    return None
