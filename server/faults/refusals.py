"""Refuses single items: takes them out of the request, so that no handler sees them, and puts them into the response.

A refused item has the error code of its rule, the names from the request, and Kafka's value for "none" in the other
fields. The other items, and their order, are as the handler answered them.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Final

from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Array, Message, wire_fields
from klamm.server.faults.shapes import CODES, Level, Path, Shape, in_version
from klamm.server.faults.subjects import Place, TopicName, topic_of

NOTHING: Final = -1
_UNKNOWN_NUMBERS: Final = ("offset", "high_watermark", "timestamp", "log_append_time_ms", "node_id")
"""A number of a refused item is -1 if its name ends in one of these, as in Kafka's own refusals."""
Refused = Mapping[Place, ErrorCode]


def without(message: Message, path: Path, refused: Refused) -> Message:
    """A copy of the request without the refused items. An element whose items are all refused is left out, too; the
    arrays themselves stay, so that an empty one does not become null."""
    return _without(message, path, refused, ()) if refused else message


def _without(message: Any, path: Path, refused: Refused, place: Place) -> Any:
    level, below = path[0], path[1:]
    kept = []
    for index, element in enumerate(getattr(message, level.array) or ()):
        here = (*place, index)
        if not below:
            kept += [] if here in refused else [element]
            continue
        of_element = getattr(element, below[0].array) or ()
        smaller = _without(element, below, refused, here)
        if getattr(smaller, below[0].array) or not of_element:
            kept.append(smaller)
    changed = copy(message)
    setattr(changed, level.array, kept)
    return changed


class Merge:
    """Puts refused items into a response. `response` may have answers to them, if they were done: these are dropped."""

    def __init__(
        self,
        shape: Shape,
        version: int,
        refused: Refused,
        rules: Mapping[Place, str],
        topic_name: TopicName,
        *,
        done: bool,
    ) -> None:
        self._shape = shape
        self._topic_name = topic_name
        self._version = version
        self._refused = refused
        self._rules = rules
        self._done = done

    def into(self, request: Message, response: Message) -> Message:
        """A copy of the response in which the refused items are refused. `request` is the one that the client sent."""
        return self._into(request, response, 0, ())  # type: ignore[no-any-return]

    def _into(self, asked: Any, answered: Any, depth: int, place: Place) -> Any:
        ask, answer = self._shape.request[depth], self._shape.response[depth]
        left: dict[Any, deque[Any]] = {}
        elements = getattr(answered, answer.array) or ()
        for number, element in enumerate(elements):
            left.setdefault(self._name(ask, answer, element, of_request=False, number=number), deque()).append(element)
        merged, kept = [], 0
        for index, element in enumerate(getattr(asked, ask.array) or ()):
            here = (*place, index)
            is_refused = here in self._refused
            name = self._name(ask, answer, element, of_request=True, number=index if self._done else kept)
            kept += not is_refused
            if depth + 1 < len(self._shape.request):
                found = _taken(left, name)
                made = self._into(element, found or self._named(ask, answer, element), depth + 1, here)
                if found is not None or getattr(made, self._shape.response[depth + 1].array):
                    merged.append(made)
                continue
            if is_refused:
                if self._done:
                    _taken(left, name)
                merged.append(self._refusal(ask, answer, element, here))
            elif (found := _taken(left, name)) is not None:
                merged.append(found)
        changed = copy(answered)
        merged += [element for rest in left.values() for element in rest]
        setattr(changed, answer.array, merged)
        return changed

    def _name(self, ask: Level, answer: Level, element: Any, *, of_request: bool, number: int) -> Any:
        """What names an element in request and response alike; without a name its number."""
        kinds = [kind for kind in answer.keys if kind in ask.keys]
        if not kinds:
            return number
        mine = ask if of_request else answer
        names: list[Any] = []
        for kind in kinds:
            fields = mine.keys[kind]
            if mine.of is None:
                names.append(element)
            elif kind == "topic":
                names.append(topic_of(element, fields, self._topic_name) or getattr(element, fields[-1]))
            elif kind == "resource":
                names += [element.resource_type, element.resource_name]
            else:
                names.append(getattr(element, fields[0]))
        return tuple(names)

    def _named(self, ask: Level, answer: Level, element: Any) -> Any:
        """A new element of the response with the names of an element of the request."""
        assert answer.of is not None, "results are messages"
        fields = in_version(answer.of, self._version)
        values: dict[str, Any] = {}
        for kind, names in answer.keys.items():
            own = ask.keys.get(kind)
            if own is None:
                continue
            for number, name in enumerate(names):
                if ask.of is None:
                    values |= {name: element} if number == 0 else {}
                elif name in own or number < len(own):
                    values[name] = getattr(element, name if name in own else own[number])
        if ask.of is not None and "name" in values and not values["name"]:  # the request names a topic by its id
            known = topic_of(element, ask.keys["topic"], self._topic_name)
            values["name"] = known or (None if fields["name"].nullable_in(self._version) else "")
        if not values and ask.of is not None:  # such as the entity of a quota
            shared = fields.keys() & in_version(ask.of, self._version).keys()
            values = {name: _converted(fields[name].type, getattr(element, name)) for name in shared}
        return answer.of(**values)

    def _refusal(self, ask: Level, answer: Level, element: Any, place: Place) -> Any:
        made = self._named(ask, answer, element)
        return refuse(made, self._refused[place], self._rules[place], self._version, keep=_all_fields(answer))


def refuse(item: Message, code: ErrorCode, rule: str, version: int, keep: Sequence[str] = ()) -> Message:
    """Make an item, a new one, a refused one. `keep` has the fields that name it."""
    fields = in_version(type(item), version)
    for name, wire in fields.items():
        if name in CODES:
            setattr(item, name, code)
        elif name == "error_message" and wire.nullable_in(version):
            setattr(item, name, f"Fault rule {rule}.")
        elif wire.type in ("int32", "int64") and name not in keep and name.endswith(_UNKNOWN_NUMBERS):
            setattr(item, name, NOTHING)
        elif wire.type == "records":
            setattr(item, name, b"")
    return item


def replaced(response: Message, path: Path, refused: Refused, rules: Mapping[Place, str], version: int) -> Message:
    """A copy of a response in which items of its own, by their places in it, are refused."""
    return _replaced(response, path, refused, rules, version, ())  # type: ignore[no-any-return]


def _replaced(message: Any, path: Path, refused: Refused, rules: Mapping[Place, str], version: int, at: Place) -> Any:
    level, below = path[0], path[1:]
    elements: list[Any] = []
    for index, element in enumerate(getattr(message, level.array) or ()):
        here = (*at, index)
        if below:
            elements.append(_replaced(element, below, refused, rules, version, here))
        elif here in refused:
            keep = _all_fields(level)
            made = type(element)(**{name: getattr(element, name) for name in keep})
            elements.append(refuse(made, refused[here], rules[here], version, keep))
        else:
            elements.append(element)
    changed = copy(message)
    setattr(changed, level.array, elements)
    return changed


def _all_fields(level: Level) -> tuple[str, ...]:
    return tuple(name for names in level.keys.values() for name in names)


def _taken(left: dict[Any, deque[Any]], name: Any) -> Any:
    found = left.get(name)
    return found.popleft() if found else None


def _converted(kind: Any, value: Any) -> Any:
    """A value of a request as one of a response: their nested messages have the same fields, but other classes."""
    if isinstance(kind, Array) and isinstance(kind.of, type):
        return [_converted(kind.of, element) for element in value]
    if isinstance(kind, type) and isinstance(value, Message):
        return kind(**{wire.name: getattr(value, wire.name) for wire in wire_fields(kind)})
    return value
