"""Writes OpenTelemetry's MetricsData in protobuf, for tests: as much of it as clients of Kafka write."""

import struct
from collections.abc import Mapping


def varint(value: int) -> bytes:
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def of_length(number: int, content: bytes | str) -> bytes:
    raw = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def of_varint(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def of_fixed64(number: int, raw: bytes) -> bytes:
    return varint(number << 3 | 1) + raw


def attribute(name: str, value: str | bool | float) -> bytes:
    if isinstance(value, bool):
        content = of_varint(2, value)
    elif isinstance(value, int):
        content = of_varint(3, value)
    elif isinstance(value, float):
        content = of_fixed64(4, struct.pack("<d", value))
    else:
        content = of_length(1, value)
    return of_length(1, name) + of_length(2, content)


def point(value: float, time_ms: int = 0, attributes: Mapping[str, str | bool | int | float] | None = None) -> bytes:
    is_double = isinstance(value, float)
    number = of_fixed64(4 if is_double else 6, struct.pack("<d" if is_double else "<q", value))
    own = b"".join(of_length(7, attribute(name, one)) for name, one in (attributes or {}).items())
    return own + of_fixed64(2, bytes(8)) + of_fixed64(3, struct.pack("<Q", time_ms * 1_000_000)) + number


def gauge(name: str, *points: bytes, unit: str = "") -> bytes:
    content = b"".join(of_length(1, one) for one in points)
    return of_length(1, name) + (of_length(3, unit) if unit else b"") + of_length(5, content)


def summed(name: str, *points: bytes, temporality: int = 1, monotonic: bool = True) -> bytes:
    content = b"".join(of_length(1, one) for one in points) + of_varint(2, temporality) + of_varint(3, monotonic)
    return of_length(1, name) + of_length(7, content)


def metrics_data(*metrics: bytes, resource: Mapping[str, str] | None = None) -> bytes:
    scope = of_length(1, of_length(1, "scope")) + b"".join(of_length(2, one) for one in metrics)
    attributes = b"".join(of_length(1, attribute(name, value)) for name, value in (resource or {}).items())
    return of_length(1, of_length(2, scope) + of_length(1, attributes))
