"""Repeats downloads that fail, so that a check does not fail because of the network."""

import sys
import time
from collections.abc import Callable
from typing import Final, TypeVar

from tools.toolchain_checks.report import CheckFailed

PAUSES_SECONDS: Final = (5.0, 30.0)
"""Seconds between two attempts; a mirror that restarts is back by then."""

T = TypeVar("T")


def fetched(ask: Callable[[], T]) -> T:
    """The result of `ask`. If it raises `CheckFailed`, it is called again after a pause; the last failure is raised."""
    for pause in PAUSES_SECONDS:
        try:
            return ask()
        except CheckFailed as failure:
            reason = str(failure).strip().partition("\n")[0]
            sys.stderr.write(f"toolchain: once more in {pause:.0f} s: {reason}\n")
            time.sleep(pause)
    return ask()
