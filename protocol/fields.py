"""The language in which messages are declared, once for all their versions.

A message class lists its fields in wire order, each with the versions that have it. This module does not encode
bytes: `klamm.protocol.codec` turns a declaration and a version into a construct schema. The vocabulary
(type, versions, nullable, tag, default, ignorable) is that of Kafka's own message definitions.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal, ParamSpec, TypeVar, cast, dataclass_transform

from klamm.protocol.uuid import Uuid
from klamm.quick_dataclasses import dataclass

Primitive = Literal[
    "bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "string", "bytes", "uuid", "records"
]
LAST_VERSION = 32767


@dataclass(frozen=True, slots=True)
class Array:
    """An array of primitives or of messages; its elements are never null."""

    of: "Primitive | type[Message]"


WireType = Primitive | type["Message"] | Array
"""A primitive, a nested message, or an array of either."""


@dataclass(frozen=True, slots=True)
class WireField:
    """How one field is encoded: its type, the versions that have it, and its default in the others."""

    type: WireType
    since: int
    until: int
    nullable_since: int | None
    tag: int | None
    ignorable: bool
    never_flexible: bool
    json_name: str | None
    name: str = ""
    default: Any = None

    def in_version(self, version: int) -> bool:
        return self.since <= version <= self.until

    def nullable_in(self, version: int) -> bool:
        return self.nullable_since is not None and version >= self.nullable_since


def field(
    wire_type: "Primitive | type[Message] | Sequence[Primitive | type[Message]]",
    *,
    default: Any,
    since: int = 0,
    until: int = LAST_VERSION,
    nullable_since: int | None = None,
    tag: int | None = None,
    ignorable: bool = False,
    never_flexible: bool = False,
    json_name: str | None = None,
) -> Any:
    """Declare one field of a message.

    `wire_type` is a primitive's name, a message class, or a one-element list for an array of either. `default`
    is the value in versions that lack the field, and a tagged field with this value is not written. A message class
    as `default` means a new message of that class with its own defaults. With `tag` the
    field is tagged in every version that has it. `never_flexible` keeps the old encoding in flexible versions
    (Kafka does so for the client id of request headers only).
    """
    wire = WireField(
        type=wire_type if isinstance(wire_type, (str, type)) else Array(wire_type[0]),
        since=since,
        until=until,
        nullable_since=nullable_since,
        tag=tag,
        ignorable=ignorable,
        never_flexible=never_flexible,
        json_name=json_name,
    )
    metadata = {"wire": wire}
    if isinstance(default, type):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


class Message:
    """Base of all messages: slots, equality by value, and tagged fields that are not declared."""

    __slots__ = ("unknown_tags",)

    unknown_tags: dict[int, bytes] | None
    """The bytes of undeclared tagged fields, by tag. Set by the decoder, written by the encoder. None: no such."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        if (self.unknown_tags or None) != (other.unknown_tags or None):
            return False
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in wire_fields(type(self)))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ((wire, getattr(self, wire.name)) for wire in wire_fields(type(self)))
        shown = [f"{wire.name}={value!r}" for wire, value in values if value != wire.default]
        if self.unknown_tags:
            shown.append(f"unknown_tags={self.unknown_tags!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _same(one: Any, other: Any) -> bool:
    """Equality of values. A list, a tuple and a `Columns` are equal if their elements are."""
    if isinstance(one, Sequence) and isinstance(other, Sequence) and not isinstance(one, (str, bytes)):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other) or (one != one and other != other)  # NaN equals NaN here


_M = TypeVar("_M", bound=Message)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def message(cls: type[_M]) -> type[_M]:
    """Make a message class from a declaration: slotted, keyword-only, mutable, compared by value."""
    cls.__doc__ = cls.__doc__ or f"{cls.__name__} of Kafka's protocol."  # without it, dataclass makes one slowly
    made = dataclass(init=False, kw_only=True, slots=True, eq=False, repr=False, match_args=False)(cls)
    setattr(made, "__init__", _first_init)  # noqa: B010 - mypy takes an assignment for an error
    return made


def _first_init(self: Message, **values: Any) -> None:
    """The `__init__` of a message class until its first call, which compiles the class's own. There are hundreds of
    classes, and a process uses few of them: compiling all of them would take a tenth of the start of a server."""
    cls = type(self)
    cls.__init__ = _compiled_init(cls)  # type: ignore[method-assign]
    cls.__init__(self, **values)


def _compiled_init(cls: type[Message]) -> Any:
    """The `__init__` that `dataclass` would make: keyword-only parameters with the defaults of the fields."""
    names: dict[str, Any] = {"missing": dataclasses.MISSING}
    parameters, lines = [], []
    for declared in dataclasses.fields(cls):  # type: ignore[arg-type]
        name, factory = declared.name, declared.default_factory
        if factory is dataclasses.MISSING:
            names[f"default_{name}"] = declared.default
            value = name
        else:
            names[f"default_{name}"] = dataclasses.MISSING
            names[f"make_{name}"] = factory
            value = f"make_{name}() if {name} is missing else {name}"
        parameters.append(f"{name}=default_{name}")
        lines.append(f"    self.{name} = {value}")
    head = f"def __init__(self{', *, ' if parameters else ''}{', '.join(parameters)}):"
    exec("\n".join((head, *lines, "    self.unknown_tags = None")), names)
    made = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


_P = ParamSpec("_P")
_R = TypeVar("_R")


def cached(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`functools.cache` with the signature kept; type checkers take a message class for unhashable."""
    return cast("Callable[_P, _R]", cache(function))


@cached
def wire_fields(cls: type[Message]) -> tuple[WireField, ...]:
    """The declared fields of a message class, in wire order, each with its name and default."""
    return tuple(
        dataclasses.replace(declared.metadata["wire"], name=declared.name, default=_default(declared))
        for declared in dataclasses.fields(cls)  # type: ignore[arg-type]
    )


def _default(declared: "dataclasses.Field[Any]") -> Any:
    factory: Any = declared.default_factory
    return declared.default if factory is dataclasses.MISSING else factory()


__all__ = [
    "LAST_VERSION",
    "Array",
    "Message",
    "Primitive",
    "Uuid",
    "WireField",
    "WireType",
    "cached",
    "field",
    "message",
    "wire_fields",
]
