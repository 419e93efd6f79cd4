"""Checks the arguments of `klamm.AdminClient` before any request is sent: a wrong type is a TypeError with one clause.

In Python a string is a sequence of characters and a bool is a number. Here both are errors, because a list of names or
a count was meant.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, TypeVar

from klamm.console.shown import shown

ItemT = TypeVar("ItemT")
_NAMES: Mapping[type, str] = {
    str: "a string",
    int: "a whole number",
    NoneType: "None",
    Mapping: "a mapping",
    Sequence: "a sequence",
}


def expect(what: str, value: object, *kinds: type) -> None:
    """Raises TypeError unless the value is of one of these kinds."""
    if not isinstance(value, kinds) or isinstance(value, bool):
        expected = " or ".join(_NAMES.get(kind) or _with_article(kind.__name__) for kind in kinds)
        raise TypeError(f"{what} {shown(value)}: {expected} is expected")


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIO' else 'a'} {name}"


def checked_items(what: str, items: Iterable[ItemT], *kinds: type) -> list[ItemT]:
    """The items, each of one of these kinds. Raises TypeError, also for one item where a list of them belongs."""
    found = _listed(what, items)
    for item in found:
        expect(f"in {what},", item, *kinds)
    return found


def checked_tuples(what: str, items: Iterable[object], kinds: Mapping[str, type]) -> list[tuple[Any, ...]]:
    """The items, each a tuple of values that have these names and kinds. Raises TypeError."""
    return [checked_tuple(f"in {what},", item, kinds) for item in _listed(what, items)]


def _listed(what: str, items: Iterable[ItemT]) -> list[ItemT]:
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise TypeError(f"{what} {shown(items)}: a list of them is expected")
    return list(items)


def checked_tuple(what: str, value: object, kinds: Mapping[str, type]) -> tuple[Any, ...]:
    """One such tuple; a list will do. Raises TypeError."""
    if not isinstance(value, tuple | list) or len(value) != len(kinds):
        raise TypeError(f"{what} {shown(value)}: a tuple of {' and '.join(kinds)} is expected")
    for (name, kind), found in zip(kinds.items(), value, strict=True):
        expect(name, found, kind)
    return tuple(value)


def expect_assignments(assignments: object) -> None:
    """Raises TypeError unless it is a mapping of partition indexes to broker ids."""
    expect("replica_assignments", assignments, Mapping)
    assert isinstance(assignments, Mapping)
    for index, broker_ids in assignments.items():
        expect("partition index", index, int)
        checked_items("broker ids", broker_ids, int)


def expect_configs(configs: object) -> None:
    """Raises TypeError unless it is a mapping of strings to strings, or to None."""
    expect("configs", configs, Mapping)
    assert isinstance(configs, Mapping)
    for name, value in configs.items():
        expect("config name", name, str)
        # Not converted: str(True) is not what Kafka's clients would say.
        expect(f"value of config {name}:", value, str, NoneType)
