"""Paths into the JSON form of a message, such as `topicData[0].partitionData[*].index`; `[*]` is every element.

The names are those of Kafka's JSON converters (`klamm.protocol.codec.json_form`). A path is checked against the
declaration when a rule is made, so that a misspelt name is an error then and not a rule that never matches.
"""

import base64
import re
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, Final

from klamm.protocol.codec.json_form import json_name
from klamm.protocol.fields import Array, Message, WireField, cached, wire_fields
from klamm.protocol.near_names import did_you_mean
from klamm.protocol.uuid import Uuid

MAX_PATH_CHARACTERS: Final = 256
_PART: Final = re.compile(r"([A-Za-z][A-Za-z0-9]*)((?:\[(?:\*|[0-9]{1,6})\])?)")
EVERY: Final = -1
"""The index of `[*]`."""

Part = tuple[str, int | None]
"""A name and the index behind it: None without one."""
JsonPath = tuple[Part, ...]


def decode_path(text: str, message_class: type[Message]) -> JsonPath:
    """The path, if every name is declared and every array has an index. Raises ValueError with a clause."""
    if len(text) > MAX_PATH_CHARACTERS:
        raise ValueError(f"path {text[:40]!r}…: at most {MAX_PATH_CHARACTERS} characters are expected")
    parts: list[Part] = []
    kind: Any = message_class
    for word in text.split("."):
        found = _PART.fullmatch(word)
        if found is None:
            raise ValueError(f"path {text!r}: {word!r} is no name, with [N] or [*] behind it for an array")
        name, index = found[1], found[2][1:-1]
        if not isinstance(kind, type):
            raise ValueError(f"path {text!r}: there is nothing below {parts[-1][0]!r}")
        names = _by_json_name(kind)
        if name not in names:
            raise ValueError(f"path {text!r}: {kind.__name__} has no field {name!r}{did_you_mean(name, names)}")
        wire = names[name]
        kind = wire.type
        if isinstance(kind, Array):
            kind = kind.of if index else kind
        elif index:
            raise ValueError(f"path {text!r}: {name!r} is no array")
        parts.append((name, (EVERY if index == "*" else int(index)) if index else None))
    return tuple(parts)


def leaf_type(path: JsonPath, message_class: type[Message]) -> Any:
    """The declared type of what a path leads to."""
    kind: Any = message_class
    for name, index in path:
        kind = _by_json_name(kind)[name].type
        kind = kind.of if isinstance(kind, Array) and index is not None else kind
    return kind


def values_at(message: Any, path: JsonPath) -> Iterator[Any]:
    """The values that a path leads to, in JSON form; none where there is no such element."""
    if not path:
        yield _as_json(message)
        return
    (name, index), rest = path[0], path[1:]
    if message is None:
        return
    value = getattr(message, _by_json_name(type(message))[name].name)
    if index is None:
        yield from values_at(value, rest)
    elif value is not None:
        for element in value if index == EVERY else value[index : index + 1]:
            yield from values_at(element, rest)


def with_value(message: Any, path: JsonPath, value: Any) -> Any:
    """A copy of the message in which all that the path leads to has this value."""
    if not path:
        return value
    (name, index), rest = path[0], path[1:]
    if message is None:
        return None
    field = _by_json_name(type(message))[name].name
    changed, held = copy(message), getattr(message, field)
    if index is None:
        setattr(changed, field, with_value(held, rest, value))
    elif held is not None:
        setattr(changed, field, [
            with_value(element, rest, value) if index in (EVERY, number) else element
            for number, element in enumerate(held)
        ])  # fmt: skip
    return changed


@cached
def _by_json_name(message_class: type[Message]) -> dict[str, WireField]:
    return {json_name(wire): wire for wire in wire_fields(message_class)}


def _as_json(value: Any) -> Any:
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, Message):
        return {name: _as_json(getattr(value, wire.name)) for name, wire in _by_json_name(type(value)).items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_as_json(element) for element in value]
    return value
