"""What a misspelt name may have meant."""

import difflib
from collections.abc import Iterable


def near(name: str, known: Iterable[str]) -> str:
    """A clause with the nearest known name; empty if none is near."""
    by_lower = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name.lower(), by_lower, 1)
    return f"; did you mean {by_lower[found[0]]!r}?" if found else ""
