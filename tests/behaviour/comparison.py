"""What was recorded against what came: a list of differences, each with its place.

The rules are those of the recording (tests/golden/behaviour/README.md): some fields are compared nowhere, ISR and
offline replicas are sets, arrays of objects are bags unless they are said to have an order, and paths named volatile
are held to a rule instead of a value. Knows JSON values only: no messages, no sockets.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

NEVER_COMPARED = frozenset(
    {
        *("documentation", "throttle_time", "host", "port", "controller_id", "finalized_features_epoch"),
        *("total_bytes", "usable_bytes", "partition_size", "log_dir"),
    }
)
SETS = frozenset({"isr_nodes", "offline_replicas", "eligible_leader_replicas", "last_known_elr"})
ALWAYS_ORDERED = frozenset({"synonyms"})
# The fields by which the objects of a bag are told apart, as far as they have them.
IDENTITY = (
    *("name", "topic", "topic_name", "resource_type", "resource_name", "partition_index", "partition_id"),
    *("node_id", "broker_id", "api_key", "key", "feature", "user", "group_id", "entity_type"),
)
MAX_SHOWN_CHARACTERS = 120
NOTHING = "—"


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """One place where the answers differ; both sides as text."""

    path: str
    recorded: str
    ours: str


@dataclass(slots=True)
class Names:
    """What `$id:NAME` and `$cluster` stand for: bound where they are met first, and held to that afterwards."""

    bound: dict[str, str] = field(default_factory=dict)

    def copy(self) -> "Names":
        return Names(dict(self.bound))

    def fits(self, name: str, ours: Any) -> bool:
        """Whether `ours` may be what `name` stands for; two names never stand for one thing."""
        if name not in self.bound and isinstance(ours, str) and ours not in self.bound.values():
            self.bound[name] = ours
        return name in self.bound and self.bound[name] == ours

    def resolve(self, value: Any) -> Any:
        """A recorded request with ids in place of their names."""
        if isinstance(value, str) and value.startswith("$"):
            return self.bound[value]
        if isinstance(value, Mapping):
            return {key: self.resolve(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.resolve(inner) for inner in value]
        return value


@dataclass(frozen=True, slots=True)
class Rules:
    """How one step is compared. Paths are patterns such as `topics[].partitions[].isr_nodes`."""

    volatile: Mapping[str, str] = field(default_factory=dict)
    ordered: Sequence[str] = ()
    compares_throttle_time: bool = False


@dataclass(frozen=True, slots=True)
class _Place:
    pattern: str = ""
    path: str = ""

    def child(self, name: str) -> "_Place":
        return _Place(f"{self.pattern}.{name}" if self.pattern else name, f"{self.path}.{name}" if self.path else name)

    def element(self, label: object) -> "_Place":
        return _Place(f"{self.pattern}[]", f"{self.path}[{label}]")

    @property
    def name(self) -> str:
        return self.pattern.rpartition(".")[2]


def shown(value: Any) -> str:
    """A value as a cell of a table, without what is compared nowhere: it may be another one each time."""
    text = json.dumps(_comparable(value), ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[: MAX_SHOWN_CHARACTERS - 1] + "…"


def _comparable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _comparable(inner) for key, inner in value.items() if key not in NEVER_COMPARED}
    return [_comparable(inner) for inner in value] if isinstance(value, list) else value


def find_differences(recorded: Any, ours: Any, rules: Rules, names: Names, path: str = "") -> list[Difference]:
    """Every difference, in order of place. Binds `names`."""
    return list(_differences(recorded, ours, rules, names, _Place("", path)))


def _differences(recorded: Any, ours: Any, rules: Rules, names: Names, place: _Place) -> Iterator[Difference]:
    rule = rules.volatile.get(place.pattern)
    if rule in _RULES:
        if not _RULES[rule](recorded, ours):
            yield Difference(place.path, f"{shown(recorded)} ({rule})", shown(ours))
    elif isinstance(recorded, Mapping) and isinstance(ours, Mapping):
        yield from _of_objects(recorded, ours, rules, names, place)
    elif isinstance(recorded, list) and isinstance(ours, list):
        yield from _of_arrays(recorded, ours, rules, names, place, more=rule == "subset")
    elif isinstance(recorded, str) and recorded.startswith("$"):
        if not names.fits(recorded, ours):
            yield Difference(place.path, recorded, shown(ours))
    elif recorded != ours or isinstance(recorded, bool) != isinstance(ours, bool):
        yield Difference(place.path, shown(recorded), shown(ours))


def _of_objects(
    recorded: Mapping[str, Any], ours: Mapping[str, Any], rules: Rules, names: Names, place: _Place
) -> Iterator[Difference]:
    for key in [*recorded, *(key for key in ours if key not in recorded)]:
        if key in NEVER_COMPARED and not (rules.compares_throttle_time and key == "throttle_time"):
            continue
        inner = place.child(key)
        if key not in ours:
            yield Difference(inner.path, shown(recorded[key]), NOTHING)
        elif key not in recorded:
            yield Difference(inner.path, NOTHING, shown(ours[key]))
        else:
            yield from _differences(recorded[key], ours[key], rules, names, inner)


def _of_arrays(
    recorded: list[Any], ours: list[Any], rules: Rules, names: Names, place: _Place, more: bool
) -> Iterator[Difference]:
    if not any(isinstance(element, Mapping) for element in (*recorded, *ours)):
        alike = sorted(recorded) == sorted(ours) if place.name in SETS else recorded == ours
        if more:
            alike = set(recorded) <= set(ours)
        if not alike:
            yield Difference(place.path, shown(recorded), shown(ours))
        return
    if len(recorded) > 1 and not ours:
        yield Difference(place.path, shown(recorded), shown(ours))
        return
    ordered = place.pattern in rules.ordered or place.name in ALWAYS_ORDERED
    pairs = _in_order(recorded, ours) if ordered else _paired(recorded, ours, rules, names, place)
    for label, expected, came in pairs:
        inner = place.element(label)
        if came is None:
            yield Difference(inner.path, shown(expected), NOTHING)
        elif expected is None:
            if not more:
                yield Difference(inner.path, NOTHING, shown(came))
        else:
            yield from _differences(expected, came, rules, names, inner)


Pair = tuple[object, Any, Any]
"""A label, the recorded element, ours; None where one of them is missing."""


def _in_order(recorded: list[Any], ours: list[Any]) -> Iterator[Pair]:
    for index in range(max(len(recorded), len(ours))):
        yield (
            index,
            recorded[index] if index < len(recorded) else None,
            ours[index] if index < len(ours) else None,
        )


def _paired(recorded: list[Any], ours: list[Any], rules: Rules, names: Names, place: _Place) -> Iterator[Pair]:
    """Each recorded element with the one of ours that has its identity; of several, with the most similar one."""
    identify = _identifier(rules, place)
    groups: dict[tuple[str, ...], tuple[list[Any], list[Any]]] = {}
    for side, elements in enumerate((recorded, ours)):
        for element in elements:
            groups.setdefault(identify(element), ([], []))[side].append(element)
    for identity, (expected, came) in groups.items():
        label = "/".join(identity)
        while expected and came:
            one, other = 0, 0
            if len(expected) > 1 or len(came) > 1:
                one, other = min(
                    product(range(len(expected)), range(len(came))),
                    key=partial(_distance, expected, came, rules, names, place),
                )
            yield label, expected.pop(one), came.pop(other)
        yield from ((label, element, None) for element in expected)
        yield from ((label, None, element) for element in came)


def _distance(
    expected: list[Any], came: list[Any], rules: Rules, names: Names, place: _Place, pair: tuple[int, int]
) -> int:
    one, other = expected[pair[0]], came[pair[1]]
    return sum(1 for _ in _differences(one, other, rules, names.copy(), place.element("")))


def _identifier(rules: Rules, place: _Place) -> Callable[[Any], tuple[str, ...]]:
    fixed = [
        name
        for name in IDENTITY
        if name not in NEVER_COMPARED and place.element("").child(name).pattern not in rules.volatile
    ]

    def identify(element: Any) -> tuple[str, ...]:
        return tuple(str(element[name]) for name in fixed if isinstance(element, Mapping) and name in element)

    return identify


def _is_distinct(recorded: Any, ours: Any) -> bool:
    """As many elements, and as many different ones."""
    return isinstance(ours, list) and (len(recorded), len(set(recorded))) == (len(ours), len(set(ours)))


def _is_about(recorded: Any, ours: Any) -> bool:
    """Within a factor of 3, or both below 50."""
    return isinstance(ours, int) and (recorded / 3 <= ours <= recorded * 3 or max(recorded, ours) < 50)


_RULES: Mapping[str | None, Callable[[Any, Any], bool]] = {
    "any": lambda recorded, ours: True,
    "nonneg": lambda recorded, ours: isinstance(ours, int) and ours >= 0,
    "positive": lambda recorded, ours: isinstance(ours, int) and (ours > 0 if recorded else ours >= 0),
    "sorted": lambda recorded, ours: isinstance(ours, list) and sorted(recorded) == sorted(ours),
    "distinct": _is_distinct,
    "figure": _is_about,
}
