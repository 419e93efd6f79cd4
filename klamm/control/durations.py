"""Durations as people write them. The standard library alone."""

import re
from datetime import timedelta
from typing import Final

_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_WRITTEN: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h|d)")
Duration = int | float | str | timedelta


def milliseconds(duration: Duration) -> int:
    """The duration in ms: a number of ms, a text such as "5m", "1.5s", "300ms", "2h" or "7d", or a timedelta. Raises
    ValueError."""
    if isinstance(duration, timedelta):
        return round(duration.total_seconds() * 1000)
    if isinstance(duration, int | float) and not isinstance(duration, bool):
        return round(duration)
    text = str(duration).strip()
    if text.isascii() and text.isdigit() and len(text) <= 15:
        return int(text)
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise ValueError(f"{str(duration)[:40]!r} is not a duration, such as 300ms, 10s, 5m, 2h or 7d")
    return round(float(found[1]) * _UNITS[found[2]])
