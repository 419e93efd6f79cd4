"""The worst requests of every API and version, derived from the declarations of the messages.

A request costs time and memory by the elements of its arrays, and its answer by the names in it. So each array of a
request, at any depth, is filled in turn until the request has the wanted size, with each kind of text in its strings.
A new API is among them without being named here. The tests and `scripts/attack` use the same requests.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Literal

from klamm.protocol.api import Api
from klamm.protocol.codec.requests import encode_request
from klamm.protocol.fields import Array, Message, WireField, wire_fields
from klamm.protocol.uuid import ZERO_UUID

Text = Literal["empty", "known", "distinct", "long"]
TEXTS: Final[tuple[Text, ...]] = ("empty", "known", "distinct", "long")
KNOWN_TOPIC: Final = "t"
LONG_NAME: Final = "x" * 32_000
_NUMBERS: Final = {"resource_type": 2, "replication_factor": 1, "num_partitions": 1, "acks": 1, "count": 2}
_FEW, _MORE = 8, 24


@dataclass(frozen=True, slots=True)
class Shape:
    """One way to fill a request."""

    path: tuple[str, ...]
    """The fields that lead to the array that is filled; empty: the request has no array."""
    text: Text
    """What its strings contain: nothing, the name of an existing topic, names that differ, or one name of 32 kB."""
    inner: bool
    """Whether all other arrays have one element, rather than none."""

    def __str__(self) -> str:
        return f"{'.'.join(self.path) or 'no array'}, {self.text}{', inner' if self.inner else ''}"


def shapes(api: Api[Any, Any], version: int) -> list[Shape]:
    """All shapes of the requests of one API and version."""
    paths = list(_array_paths(api.request, version)) or [()]
    return [Shape(path, text, inner) for path in paths for text in TEXTS for inner in (False, True)]


def worst_request(api: Api[Any, Any], version: int, shape: Shape, about_bytes: int) -> bytes:
    """A request of about this size, without the size in front."""

    def encoded(elements: int) -> bytes:
        request = _message(api.request, version, shape, shape.path, elements, count())
        return encode_request(api, version, 1, "attack", request)

    few = len(encoded(_FEW))
    each = max(1.0, (len(encoded(_MORE)) - few) / (_MORE - _FEW))
    return encoded(max(1, _FEW + int((about_bytes - few) / each)) if shape.path else 1)


def _array_paths(message_class: type[Message], version: int) -> Iterator[tuple[str, ...]]:
    for wire in wire_fields(message_class):
        if not isinstance(wire.type, Array) or not wire.in_version(version) or wire.tag is not None:
            continue
        yield (wire.name,)
        if isinstance(wire.type.of, type):
            for path in _array_paths(wire.type.of, version):
                yield (wire.name, *path)


def _message(
    message_class: type[Message], version: int, shape: Shape, path: tuple[str, ...], elements: int, names: Iterator[int]
) -> Message:
    values = {}
    for wire in wire_fields(message_class):
        if wire.in_version(version) and wire.tag is None:
            values[wire.name] = _value(wire, version, shape, path, elements, names)
    return message_class(**values)


def _value(
    wire: WireField, version: int, shape: Shape, path: tuple[str, ...], elements: int, names: Iterator[int]
) -> Any:
    kind = wire.type
    if isinstance(kind, Array):
        on_path = bool(path) and wire.name == path[0]
        number = (elements if len(path) == 1 else 1) if on_path else int(shape.inner)
        rest = path[1:] if on_path else ()
        if isinstance(kind.of, type):
            if shape.text != "distinct" and number:
                return (_message(kind.of, version, shape, rest, elements, names),) * number
            return tuple(_message(kind.of, version, shape, rest, elements, names) for _ in range(number))
        return tuple(_primitive(kind.of, shape, names) for _ in range(number))
    if isinstance(kind, type):
        nullable = wire.nullable_in(version)
        return None if nullable else _message(kind, version, shape, (), elements, names)
    if kind in ("string", "bytes", "records", "uuid"):
        return _primitive(kind, shape, names)
    if wire.name.endswith("timeout_ms"):
        return 30_000
    default = wire.default if wire.default is not None else 0
    return _NUMBERS.get(wire.name, default)


def _primitive(kind: str, shape: Shape, names: Iterator[int]) -> Any:
    if kind == "string":
        match shape.text:
            case "empty":
                return ""
            case "known":
                return KNOWN_TOPIC
            case "long":
                return LONG_NAME
            case "distinct":
                return f"n{next(names)}"
    if kind in ("bytes", "records"):
        return b""
    if kind == "uuid":
        return ZERO_UUID
    return next(names) % 128 if kind in ("int8", "uint8") else next(names) % 32_768
