"""Formats numbers for messages."""

from collections.abc import Sequence
from typing import Any, Final

import numpy.typing as npt

_SHOWN_IDS: Final = 5  # enough to find the culprit, short enough for a log line


def counted(number: int, noun: str) -> str:
    """A number and its noun, such as `1 partition` and `2 partitions`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def first_few(ids: Sequence[int] | npt.NDArray[Any]) -> str:
    """The first five of some numbers, as text for a message."""
    return ", ".join(str(broker_id) for broker_id in ids[:_SHOWN_IDS]) + ("…" if len(ids) > _SHOWN_IDS else "")
