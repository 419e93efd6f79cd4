"""What `klamm.AdminClient` is given, checked before anything is sent: a slip is a TypeError, one clause that names it.

For Python a text is a sequence of its letters and a bool is a number; whoever gives one here has mistaken something.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import NoneType
from typing import TypeVar

from klamm.cluster_options import shown

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
        expected = " or ".join(_NAMES.get(kind, f"a {kind.__name__}") for kind in kinds)
        raise TypeError(f"{what} {shown(value)}: {expected} is expected")


def checked_items(what: str, items: Iterable[ItemT], *kinds: type) -> list[ItemT]:
    """The items, each of one of these kinds. Raises TypeError, also for one item where a list of them belongs."""
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise TypeError(f"{what} {shown(items)}: a list of them is expected")
    found = list(items)
    for item in found:
        expect(f"in {what},", item, *kinds)
    return found


def expect_configs(configs: object) -> None:
    """Raises TypeError unless it is a mapping of strings to strings, or to None."""
    expect("configs", configs, Mapping)
    assert isinstance(configs, Mapping)
    for name, value in configs.items():
        expect("config name", name, str)
        # Not converted: str(True) is not what Kafka's clients would say.
        expect(f"value of config {name}:", value, str, NoneType)
