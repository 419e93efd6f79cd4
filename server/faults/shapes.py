"""Where the items of an API are: the arrays of its request, and those of its response that hold an error code for each.

An item is what one error code of a response is about: a partition of a Produce, a topic of a CreateTopics, a group of a
DescribeGroups. Shapes are derived from the declarations of the messages, once for each API and version: an array of the
request belongs to an array of the response if their elements are named by the same kinds of names, level by level.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from klamm.protocol.api import Api
from klamm.protocol.fields import Array, Message, WireField, cached, wire_fields
from klamm.quick_dataclasses import dataclass

Kind = Literal["topic", "partition", "group", "transactional_id", "resource", "key", "member", "producer"]
CODES: Final = ("error_code", "partition_error_code")
"""The names of error codes; the second one is that of AddPartitionsToTxn."""
_FIELDS: Final[Mapping[Kind, tuple[tuple[str, str], ...]]] = {
    "topic": (("topic_name", "string"), ("topic", "string"), ("name", "string"), ("topic_id", "uuid")),
    "partition": (
        ("partition_index", "int32"), ("partition", "int32"), ("index", "int32"), ("partition_id", "int32"),
    ),
    "group": (("group_id", "string"),),
    "transactional_id": (("transactional_id", "string"),),
    "resource": (("resource_type", "int8"), ("resource_name", "string")),
    "key": (("key", "string"),),
    "member": (("member_id", "string"),),
    "producer": (("producer_id", "int64"),),
}  # fmt: skip
"""By kind, in the order of their weight: the fields that name an element, with their types."""
_TOPIC_ARRAYS: Final = frozenset(
    {"topics", "topic_data", "responses", "results", "v3_and_below_topics", "results_by_topic_v3_and_below",
     "topic_results"}
)  # fmt: skip
"""Arrays in whose elements `name` is a topic's."""
_PLAIN: Final[Mapping[str, Kind]] = {
    "topic_names": "topic",
    "partitions": "partition",
    "partition_indexes": "partition",
    "groups": "group",
    "groups_names": "group",
    "group_ids": "group",
    "transactional_ids": "transactional_id",
    "coordinator_keys": "key",
}
"""Arrays of plain values that are names."""
_BY_POSITION: Final = frozenset({"CreateAcls", "DeleteAcls", "AlterClientQuotas"})
"""The APIs whose results have no name and are in the order of the request."""


@dataclass(frozen=True, slots=True)
class Level:
    """An array, and how its elements are named."""

    array: str
    of: type[Message] | None
    """The class of its elements; None: they are plain values."""
    keys: Mapping[Kind, tuple[str, ...]]
    """The fields that name an element, by kind; of plain values none."""

    @property
    def kind(self) -> Kind | None:
        """The kind of name that counts most."""
        return next(iter(self.keys), None)


Path = tuple[Level, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """The items of an API in one version."""

    request: Path
    """The arrays that lead to the items of a request; empty: it has none, or only itself."""
    response: Path
    """The arrays that lead to their results; empty: items have no error codes of their own."""
    code: str
    """The field of a result that holds its error code."""
    whole_code: str | None
    """The field of the response that holds the error code of the whole request."""


@cached
def shape_of(api: Api[Any, Any], version: int) -> Shape:
    """The shape of an API in a version."""
    asked = list(_paths(api.request, version))
    answered = sorted(_coded(api.response, version), key=len, reverse=True)
    whole = _code(_fields(api.response, version))
    if api.name in _BY_POSITION:
        request, response = asked[0][:1], answered[-1][:1]
        return Shape(request, response, _code_of(response, version), whole)
    for response in answered:
        for request in asked:
            if len(request) == len(response) and _belong_together(request, response):
                return Shape(request, response, _code_of(response, version), whole)
    named = [path for path in asked if all(level.kind is not None for level in path)]
    return Shape(max(named, key=len, default=()), (), "", whole)


def is_by_position(api: Api[Any, Any]) -> bool:
    """Whether results have no names, and are in the order of the request."""
    return api.name in _BY_POSITION


def in_version(message_class: type[Message], version: int) -> Mapping[str, WireField]:
    """The fields of a message class in a version, by name."""
    return _fields(message_class, version)


def _belong_together(request: Path, response: Path) -> bool:
    return all(
        asked.kind is not None and asked.kind == answered.kind
        for asked, answered in zip(request, response, strict=True)
    )


def _paths(message_class: type[Message], version: int) -> Iterator[Path]:
    """Every path of arrays, those of the first array first and the deepest of each first."""
    for wire in _fields(message_class, version).values():
        if not isinstance(wire.type, Array):
            continue
        if isinstance(wire.type.of, type):
            level = Level(wire.name, wire.type.of, _keys(wire.type.of, version, wire.name))
            yield from ((level, *inner) for inner in _paths(wire.type.of, version))
            yield (level,)
        elif wire.name in _PLAIN:
            yield (Level(wire.name, None, {_PLAIN[wire.name]: ()}),)


def _coded(message_class: type[Message], version: int) -> Iterator[Path]:
    return (path for path in _paths(message_class, version) if path[-1].of and _code_of(path, version))


def _code_of(path: Path, version: int) -> str:
    return _code(_fields(path[-1].of, version)) or "" if path[-1].of else ""


def _code(fields: Mapping[str, WireField]) -> str | None:
    return next((name for name in CODES if name in fields), None)


def _keys(message_class: type[Message], version: int, array: str) -> dict[Kind, tuple[str, ...]]:
    fields = _fields(message_class, version)
    found: dict[Kind, tuple[str, ...]] = {}
    for kind, candidates in _FIELDS.items():
        names = tuple(
            name
            for name, wire_type in candidates
            if name in fields and fields[name].type == wire_type and (name != "name" or array in _TOPIC_ARRAYS)
        )
        if names and (kind != "resource" or len(names) == len(candidates)):
            found[kind] = names
    return found


@cached
def _fields(message_class: type[Message], version: int) -> Mapping[str, WireField]:
    return {wire.name: wire for wire in wire_fields(message_class) if wire.in_version(version)}
