"""Requests of any API with given items, made from the declarations, and the items of responses."""

from collections.abc import Callable
from typing import Any

from klamm.protocol.api import Api
from klamm.protocol.fields import Message
from klamm.protocol.messages.configs import alter_client_quotas
from klamm.protocol.uuid import Uuid
from klamm.server.faults.shapes import Level, Path, in_version, shape_of
from klamm.server.faults.subjects import Item, items_of

TOPICS = ("first", "second", "third")
TOPIC_RESOURCE = 2
OF_ACLS = {
    "resource_type_filter": 2, "resource_pattern_type": 3, "pattern_type_filter": 3, "operation": 3,
    "permission_type": 3, "principal": "User:a", "host": "*",
}  # fmt: skip
"""Numbers that Kafka reads: a topic, literal, read, allow."""


def id_of(topic_name: str) -> Uuid:
    """An id that the cluster does not know."""
    return Uuid(topic_name.encode().ljust(16, b"\1"))


def name_of(topic_id: Uuid) -> str | None:
    return {id_of(name): name for name in TOPICS}.get(topic_id)


def made_request(
    api: Api[Any, Any], version: int, at_each_level: int = 2, ids: Callable[[str], Uuid] = id_of
) -> Message:
    """A request with `at_each_level` elements in each array that leads to items."""
    shape = shape_of(api, version)
    request: Message = api.request()
    for name in OF_ACLS.keys() & in_version(api.request, version).keys():
        setattr(request, name, OF_ACLS[name])
    _fill(request, shape.request, version, at_each_level, ids)
    return request


def _fill(message: Any, path: Path, version: int, count: int, ids: Callable[[str], Uuid]) -> None:
    if path:
        level = path[0]
        setattr(
            message, level.array, [_element(level, path[1:], version, number, count, ids) for number in range(count)]
        )


def _element(level: Level, below: Path, version: int, number: int, count: int, ids: Callable[[str], Uuid]) -> Any:
    if level.of is None:
        return number if level.kind == "partition" else TOPICS[number]
    element: Any = level.of()
    fields = in_version(level.of, version)
    for kind, names in level.keys.items():
        for name in names:
            if name == "topic_id":
                setattr(element, name, ids(TOPICS[number]))
            elif name == "resource_type":
                setattr(element, name, TOPIC_RESOURCE)
            elif kind in ("partition", "producer"):
                setattr(element, name, number)
            elif not (
                name == "name"
                and "topic_id" in fields
                and fields["topic_id"].type == "uuid"
                and fields[name].nullable_in(version)
            ):
                setattr(element, name, TOPICS[number])
            else:
                setattr(element, name, None)
    for name in OF_ACLS.keys() & fields.keys():
        setattr(element, name, OF_ACLS[name])
    if "entity" in fields:
        element.entity = [alter_client_quotas.EntityData(entity_type="client-id", entity_name=TOPICS[number])]
    _fill(element, below, version, count, ids)
    return element


def coded_items(
    api: Api[Any, Any], version: int, response: Message, names: Callable[[Uuid], str | None] = name_of
) -> list[tuple[Item, int]]:
    """The items of a response with their error codes."""
    shape = shape_of(api, version)
    found = []
    for item in items_of(response, shape.response, names):
        element: Any = response
        for level, index in zip(shape.response, item.place, strict=True):
            element = getattr(element, level.array)[index]
        found.append((item, getattr(element, shape.code)))
    return found
