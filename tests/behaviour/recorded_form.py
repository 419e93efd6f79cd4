"""Our messages in the form of the recording, and back: kio's field names, plain JSON values.

kio takes `_ms` off the names of times and makes null of the zero uuid; other ids are printed with dashes, bytes as
`{"hex": ...}`. Defaults of fields that a version lacks are left out.
"""

import uuid
from collections.abc import Mapping
from typing import Any, TypeVar

from klamm.protocol.fields import Array, Message, wire_fields
from klamm.protocol.uuid import ZERO_UUID, Uuid

M = TypeVar("M", bound=Message)


def to_recorded_form(message: Message, version: int) -> dict[str, Any]:
    """What kio would have shown of `message` in this version."""
    return {
        wire.name.removesuffix("_ms"): _shown(wire.type, getattr(message, wire.name), version)
        for wire in wire_fields(type(message))
        if wire.in_version(version)
    }


def _shown(kind: Any, value: Any, version: int) -> Any:
    if value is None:
        return None
    if isinstance(kind, Array):
        return [_shown(kind.of, element, version) for element in value]
    if isinstance(kind, type):
        return to_recorded_form(value, version)
    if kind == "uuid":
        return None if value == ZERO_UUID else str(uuid.UUID(bytes=bytes(value)))
    if kind in ("bytes", "records"):
        return {"hex": bytes(value).hex()}
    return value


def from_recorded_form(message_class: type[M], form: Mapping[str, Any]) -> M:
    """The message that a recorded request stands for; ValueError for a field that we do not have."""
    fields = {wire.name.removesuffix("_ms"): wire for wire in wire_fields(message_class)}
    unknown = form.keys() - fields.keys()
    if unknown:
        raise ValueError(f"{message_class.__name__} has no {', '.join(sorted(unknown))}")
    return message_class(**{fields[name].name: _meant(fields[name].type, value) for name, value in form.items()})


def _meant(kind: Any, value: Any) -> Any:
    if kind == "uuid":
        return ZERO_UUID if value is None else Uuid(uuid.UUID(value).bytes)
    if value is None:
        return None
    if isinstance(kind, Array):
        return [_meant(kind.of, element) for element in value]
    if isinstance(kind, type):
        return from_recorded_form(kind, value)
    if kind in ("bytes", "records"):
        return bytes.fromhex(value["hex"])
    return value
