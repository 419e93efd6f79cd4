"""The tally: one line per check as it is made, and the closing line that .ci/run reads."""

import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

MAX_SHOWN_DIFFERENCES = 5


class CheckFailed(Exception):
    """What was checked is not so; the text says what is instead."""


class Report:
    """Counts checks. A check that fails, or cannot be made, does not keep the next ones from being made."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0

    @contextmanager
    def check(self, claim: str) -> Iterator[None]:
        """The block shows that `claim` is true, or raises. What it raises is told and counted, and goes no further."""
        started = time.monotonic()
        try:
            yield
        except CheckFailed as failure:
            self._fail(claim, str(failure))
        except Exception:  # noqa: BLE001 - a check that breaks is one that failed
            self._fail(claim, traceback.format_exc())
        else:
            self.passed += 1
            print(f"ok    {claim} ({time.monotonic() - started:.1f} s)", flush=True)

    def _fail(self, claim: str, reason: str) -> None:
        self.failed += 1
        indented = "\n".join(f"      {line}" for line in reason.strip().splitlines())
        print(f"FAIL  {claim}\n{indented}", flush=True)

    def close(self) -> int:
        """Print the closing line; returns the exit code."""
        print(f"toolchain: {self.passed} passed, {self.failed} failed", flush=True)
        return 1 if self.failed or not self.passed else 0


def expect(true: bool, otherwise: str) -> None:
    """Raise `CheckFailed` unless `true`."""
    if not true:
        raise CheckFailed(otherwise)


def expect_none(found: list[str], what: str) -> None:
    """Raise `CheckFailed` that shows the first of `found`, unless there are none."""
    if found:
        shown = "\n".join(found[:MAX_SHOWN_DIFFERENCES])
        raise CheckFailed(f"{what}: {len(found)}\n{shown}")
