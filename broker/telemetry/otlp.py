"""Reads the metrics of a push: OpenTelemetry's MetricsData in protobuf, as Kafka's clients write it (KIP-714).

Kafka's clients write gauges and sums. Of the other kinds, only the names are read. Unknown fields are skipped, so that
newer versions can be read, and nothing is nested deeper than the messages below.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import Final

from klamm.quick_dataclasses import dataclass

MAX_TEXT_CHARACTERS: Final = 256
"""Names, units and attributes are cut to this length."""
MAX_ATTRIBUTES: Final = 32
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES: Final = 10
_KINDS: Final[Mapping[int, str]] = {
    5: "gauge",
    7: "sum",
    9: "histogram",
    10: "exponential_histogram",
    11: "summary",
}
_WITH_NUMBERS: Final = frozenset({"gauge", "sum"})


class InvalidMetrics(Exception):
    """The bytes are no MetricsData."""


@dataclass(frozen=True, slots=True)
class Point:
    """A value of a metric, or a metric of a kind whose values are not read."""

    name: str
    kind: str
    unit: str = ""
    attributes: tuple[tuple[str, str], ...] = ()
    """Those of the resource and of the point, by name."""
    value: float | int | None = None
    time_ms: int = 0
    """When the client measured it, by its own clock, in ms since 1970."""
    is_delta: bool = False
    """Whether a sum counts from the last push, and not from the start."""
    is_monotonic: bool = False


Field = tuple[int, int, int | bytes]
"""The number of a field, its wire type, and its value."""


def read_points(data: bytes) -> Iterator[Point]:
    """The points in order, read one by one. Raises InvalidMetrics."""
    for number, _, resource_metrics in _fields(data, {1}):
        if number == 1:
            yield from _of_resource(_bytes(resource_metrics))


def _of_resource(data: bytes) -> Iterator[Point]:
    attributes: dict[str, str] = {}
    scopes = []
    for number, _, value in _fields(data, {1, 2}):
        if number == 1:
            attributes |= _attributes(_bytes(value), 1)
        elif number == 2:
            scopes.append(_bytes(value))
    for scope in scopes:
        for number, _, metric in _fields(scope, {2}):
            if number == 2:
                yield from _of_metric(_bytes(metric), attributes)


def _of_metric(data: bytes, attributes: Mapping[str, str]) -> Iterator[Point]:
    name = unit = ""
    contents: list[tuple[str, bytes]] = []
    for number, _, value in _fields(data, {1, 3, *_KINDS}):
        if number == 1:
            name = _text(value)
        elif number == 3:
            unit = _text(value)
        elif number in _KINDS:
            contents.append((_KINDS[number], _bytes(value)))
    for kind, content in contents[-1:]:  # of a choice, the last one counts
        if kind not in _WITH_NUMBERS:
            yield Point(name, kind, unit, tuple(sorted(attributes.items())))
            continue
        yield from _of_numbers(name, kind, unit, content, attributes)


def _of_numbers(name: str, kind: str, unit: str, data: bytes, attributes: Mapping[str, str]) -> Iterator[Point]:
    points = []
    is_delta = is_monotonic = False
    for number, _, value in _fields(data, {1}):
        if number == 1:
            points.append(_bytes(value))
        elif number == 2:
            is_delta = value == 1  # AGGREGATION_TEMPORALITY_DELTA
        elif number == 3:
            is_monotonic = bool(value)
    for point in points:
        own, number_value, time_nanos = _of_point(point)
        merged = tuple(sorted({**attributes, **own}.items()))[:MAX_ATTRIBUTES]
        yield Point(name, kind, unit, merged, number_value, time_nanos // 1_000_000, is_delta, is_monotonic)


def _of_point(data: bytes) -> tuple[dict[str, str], float | int | None, int]:
    attributes: dict[str, str] = {}
    value: float | int | None = None
    time_nanos = 0
    for number, wire_type, content in _fields(data, {7}):
        if number == 7:
            attributes |= _attribute(_bytes(content))
        elif number == 3 and wire_type == _FIXED64:
            assert isinstance(content, int)
            time_nanos = content
        elif number in (4, 6) and wire_type == _FIXED64:
            assert isinstance(content, int)
            raw = content.to_bytes(8, "little")
            value = struct.unpack("<d" if number == 4 else "<q", raw)[0]
    return attributes, value, time_nanos


def _attributes(data: bytes, field_number: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, _, value in _fields(data, {field_number}):
        if number == field_number and len(found) < MAX_ATTRIBUTES:
            found |= _attribute(_bytes(value))
    return found


def _attribute(data: bytes) -> dict[str, str]:
    name = text = ""
    for number, _, value in _fields(data, {1, 2}):
        if number == 1:
            name = _text(value)
        elif number == 2:
            text = _any_value(_bytes(value))
    return {name: text}


def _any_value(data: bytes) -> str:
    """A value of an attribute as text; lists and maps are empty."""
    text = ""
    for number, wire_type, value in _fields(data, {1}):
        if number == 1:
            text = _text(value)
        elif number == 2 and wire_type == _VARINT:
            text = "true" if value else "false"
        elif number == 3 and isinstance(value, int):
            text = str(value - (1 << 64) if value >= 1 << 63 else value)
        elif number == 4 and isinstance(value, int):
            text = str(struct.unpack("<d", value.to_bytes(8, "little"))[0]) if wire_type == _FIXED64 else ""
    return text


def _text(value: int | bytes) -> str:
    return _bytes(value)[: 4 * MAX_TEXT_CHARACTERS].decode(errors="replace")[:MAX_TEXT_CHARACTERS]


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise InvalidMetrics
    return value


def _fields(data: bytes, with_length: set[int]) -> Iterator[Field]:
    """The fields of a message. Those in `with_length` have to be of the wire type of texts and messages."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if not number or (number in with_length and wire_type != _LENGTH):
            raise InvalidMetrics
        if wire_type == _VARINT:
            value, at = _varint(data, at)
            yield number, wire_type, value
            continue
        if wire_type == _LENGTH:
            size, at = _varint(data, at)
        elif wire_type in (_FIXED64, _FIXED32):
            size = 8 if wire_type == _FIXED64 else 4
        else:
            raise InvalidMetrics
        if size > end - at:
            raise InvalidMetrics
        content = data[at : at + size]
        at += size
        yield number, wire_type, content if wire_type == _LENGTH else int.from_bytes(content, "little")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number, and where it ends."""
    value = 0
    for place in range(_MAX_VARINT_BYTES):
        if at + place >= len(data):
            break
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at + place + 1
    raise InvalidMetrics
