"""What a name that is not known may have meant: the one clause with which every message of Klamm suggests another.

Upper and lower case and the signs between words do not count, so `num_partitions` is near `num.partitions`.
Imported when a name is refused, so that no start pays for it.
"""

import difflib
import re
from collections.abc import Iterable

LONGEST_COMPARED = 100
"""Longer names are not compared: the time would grow with the square of their length."""
SIMILAR = 0.6
_BETWEEN = re.compile(r"[^a-z0-9]+")


def nearest(name: str, known: Iterable[str], similar: float = SIMILAR) -> str | None:
    """The known name that is most similar; None if none is similar enough (1: the same, 0: nothing in common)."""
    if len(name) > LONGEST_COMPARED:
        return None
    plain = {_plain(one): one for one in sorted(known, reverse=True)}
    found = difflib.get_close_matches(_plain(name), plain, 1, similar)
    return plain[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str], similar: float = SIMILAR, prefix: str = "") -> str:
    """The end of a message that refuses `name`: a clause with the nearest known name; empty if none is near. `prefix`
    is what all of them begin with in the message; it makes no name more similar to another."""
    near = nearest(name, known, similar)
    return suggestion(prefix + near) if near is not None else ""


def suggestion(name: str) -> str:
    """The end of a message that suggests this name."""
    return f"; did you mean {name!r}?"


def _plain(name: str) -> str:
    return _BETWEEN.sub("", name.lower())
