"""Converts messages to and from JSON, in the form of Kafka's generated JSON converters and its tools.

camelCase names, base64 for bytes and records, url-safe base64 without padding for uuids, numbers as numbers, except
that NaN and infinities are strings; fields of other versions and tagged fields with their default are left out.
"""

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from klamm.protocol.codec.tags import differs
from klamm.protocol.errors import ProtocolError
from klamm.protocol.fields import Array, Message, WireField, wire_fields
from klamm.protocol.uuid import Uuid

M = TypeVar("M", bound=Message)
_NUMBERS = ("int8", "int16", "uint16", "int32", "uint32", "int64")


def json_name(wire: WireField) -> str:
    """The name of the field in JSON: `timeout_ms` is `timeoutMs`, unless the declaration says otherwise."""
    if wire.json_name is not None:
        return wire.json_name
    head, *rest = wire.name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def message_to_json(message: Message, version: int) -> dict[str, Any]:
    """The JSON form of `message` in this version. Unknown tagged fields are left out."""
    out: dict[str, Any] = {}
    for wire in wire_fields(type(message)):
        if not wire.in_version(version):
            continue
        value = getattr(message, wire.name)
        if wire.tag is None or differs(wire, value):
            out[json_name(wire)] = _value_to_json(wire.type, value, version)
    return out


def _value_to_json(kind: Any, value: Any, version: int) -> Any:
    if value is None:
        return None
    if isinstance(kind, Array):
        return [_value_to_json(kind.of, element, version) for element in value]
    if isinstance(kind, type):
        return message_to_json(value, version)
    if kind == "uuid":
        return str(Uuid(value))
    if kind in ("bytes", "records"):
        return base64.b64encode(value).decode()
    if kind == "float64" and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def message_from_json(message_class: type[M], form: Any, version: int, path: str = "") -> M:
    """The message of a JSON form. Missing fields have their defaults. Raises ProtocolError for unknown names."""
    if not isinstance(form, Mapping):
        raise ProtocolError(f"{type(form).__name__} where an object belongs", path=path)
    known = {json_name(wire): wire for wire in wire_fields(message_class)}
    values: dict[str, Any] = {}
    for name, value in form.items():
        inner = f"{path}.{name}" if path else str(name)
        if name not in known:
            raise ProtocolError(f"{message_class.__name__} has no field {name}", path=inner)
        wire = known[name]
        if value is None and (wire.nullable_in(version) or not wire.in_version(version)):
            values[wire.name] = None
        else:
            values[wire.name] = _value_from_json(wire.type, value, version, inner)
    return message_class(**values)


def _value_from_json(kind: Any, value: Any, version: int, path: str) -> Any:
    if isinstance(kind, Array):
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise ProtocolError(f"{type(value).__name__} where an array belongs", path=path)
        return tuple(_value_from_json(kind.of, item, version, f"{path}[{n}]") for n, item in enumerate(value))
    if isinstance(kind, type):
        return message_from_json(kind, value, version, path)
    try:
        return _primitive_from_json(kind, value)
    except (ValueError, TypeError, binascii.Error) as error:
        raise ProtocolError(f"{value!r} is no {kind}: {error}", path=path) from None


def _primitive_from_json(kind: str, value: Any) -> Any:
    if kind == "uuid":
        return Uuid.from_text(value)
    if kind in ("bytes", "records"):
        return base64.b64decode(value, validate=True)
    if kind == "float64":
        return float(value)
    wanted = bool if kind == "bool" else int if kind in _NUMBERS else str
    if type(value) is not wanted:
        raise TypeError(f"JSON has {type(value).__name__}")
    return value
