"""What a request is about: a subject for each of its items, or one for the request itself.

A topic that is named by its id has its name here, too, if the cluster knows it.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from klamm.protocol.fields import Message
from klamm.protocol.uuid import ZERO_UUID, Uuid
from klamm.quick_dataclasses import dataclass
from klamm.server.faults.shapes import Level, Path

TOPIC_RESOURCE, GROUP_RESOURCE, TRANSACTIONAL_RESOURCE, GROUP_CONFIG_RESOURCE = 2, 3, 5, 32
"""Types of resources in ACLs; a config resource that is a topic has the same type, one that is a group has 32."""
_KEYS: Final = {0: "group", 1: "transactional_id", 2: "group"}
"""What the key of a FindCoordinator names, by its type."""
_PREFIX: Final = "v3_and_below_"

TopicName = Callable[[Uuid], str | None]
Place = tuple[int, ...]
"""The indexes of an item in the arrays that lead to it; empty: the request itself."""


class Subject(NamedTuple):
    """The names that a rule can match. None: the request does not say."""

    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a request or of a response."""

    place: Place
    subject: Subject


def whole_subject(request: Message) -> Subject:
    """What the fields of the request itself name."""
    of_old = getattr(request, f"{_PREFIX}transactional_id", None)
    transactional_id = getattr(request, "transactional_id", None) or of_old or None
    found = Subject(group=getattr(request, "group_id", None), transactional_id=transactional_id)
    key = getattr(request, "key", None)
    return _with_key(found, key, request) if isinstance(key, str) else found


def items_of(message: Message, path: Path, topic_name: TopicName) -> list[Item]:
    """The items of a request or response, in order."""
    return list(_items(message, message, path, (), whole_subject(message), topic_name))


def asks_for_all(request: Message, path: Path) -> bool:
    """Whether the array of items is null, which in Kafka's protocol means all that there are."""
    return bool(path) and getattr(request, path[0].array) is None


def _items(
    root: Message, message: Any, path: Path, place: Place, subject: Subject, topic_name: TopicName
) -> Iterator[Item]:
    if not path:
        yield Item(place, subject)
        return
    level, below = path[0], path[1:]
    for index, element in enumerate(getattr(message, level.array) or ()):
        named = _named(root, level, element, subject, topic_name)
        yield from _items(root, element, below, (*place, index), named, topic_name)


def _named(root: Message, level: Level, element: Any, subject: Subject, topic_name: TopicName) -> Subject:
    if level.of is None:
        if level.kind == "key":
            return _with_key(subject, element, root)
        return subject._replace(**{str(level.kind): element})
    for kind, names in level.keys.items():
        if kind == "topic":
            subject = subject._replace(topic=topic_of(element, names, topic_name))
        elif kind == "resource":
            subject = _with_resource(subject, element.resource_type, element.resource_name)
        elif kind == "key":
            subject = _with_key(subject, element.key, root)
        elif kind in ("partition", "group", "transactional_id"):
            subject = subject._replace(**{kind: getattr(element, names[0])})
    return subject


def topic_of(element: Any, names: tuple[str, ...], topic_name: TopicName) -> str | None:
    """The name of the topic that these fields of an element name."""
    for name in names:
        value = getattr(element, name)
        if isinstance(value, Uuid):
            if value != ZERO_UUID:
                return topic_name(value)
        elif value:
            return str(value)
    return None


def _with_resource(subject: Subject, resource_type: int, name: str | None) -> Subject:
    if resource_type == TOPIC_RESOURCE:
        return subject._replace(topic=name)
    if resource_type in (GROUP_RESOURCE, GROUP_CONFIG_RESOURCE):
        return subject._replace(group=name)
    return subject._replace(transactional_id=name) if resource_type == TRANSACTIONAL_RESOURCE else subject


def _with_key(subject: Subject, key: str, root: Message) -> Subject:
    kind = _KEYS.get(getattr(root, "key_type", 0))
    if kind == "group":
        return subject._replace(group=key)
    return subject._replace(transactional_id=key) if kind else subject
