"""Prints one line for each check, at the end the claims of those that failed, and the last line with the counts, which
.ci/run reads."""

import time
import traceback
from types import TracebackType

MAX_SHOWN_DIFFERENCES = 5
FAILED = "failed: "
"""The beginning of a line at the end that names a check."""
CLOSING = r"toolchain: (\d+) passed, (\d+) failed"


class CheckFailed(Exception):
    """A check failed; the text says what was found."""


class Report:
    """Counts checks. A check that fails, or cannot be made, does not prevent the next ones."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0
        self.failures: list[str] = []
        """The claims of the checks that failed."""

    def check(self, claim: str) -> "Check":
        """A block that shows that `claim` is true, or raises an exception, which is printed and counted."""
        return Check(self, claim)

    def skip(self, claim: str, reason: str) -> None:
        """Print that something is not checked here, and why."""
        print(f"skip  {claim}: {reason}", flush=True)

    def close(self) -> int:
        """Print the claims that failed and the closing line. Returns the exit code."""
        for claim in self.failures:
            print(f"{FAILED}{claim}", flush=True)
        print(f"toolchain: {self.passed} passed, {self.failed} failed", flush=True)
        return 1 if self.failed or not self.passed else 0


class Check:
    """The block of one check."""

    def __init__(self, report: Report, claim: str) -> None:
        self._report = report
        self._claim = claim

    def __enter__(self) -> None:
        self._started = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            self._report.passed += 1
            print(f"ok    {self._claim} ({time.monotonic() - self._started:.1f} s)", flush=True)
            return True
        if not isinstance(error, Exception):  # This process has to stop.
            return False
        reason = str(error) if isinstance(error, CheckFailed) else "".join(traceback.format_exception(error))
        indented = "\n".join(f"      {line}" for line in reason.strip().splitlines())
        self._report.failed += 1
        self._report.failures.append(self._claim)
        print(f"FAIL  {self._claim}\n{indented}", flush=True)
        return True


def expect(true: bool, otherwise: str) -> None:
    """Raise `CheckFailed` unless `true`."""
    if not true:
        raise CheckFailed(otherwise)


def expect_none(found: list[str], what: str) -> None:
    """Raise `CheckFailed` that shows the first of `found`, unless there are none."""
    if found:
        shown = "\n".join(found[:MAX_SHOWN_DIFFERENCES])
        raise CheckFailed(f"{what}: {len(found)}\n{shown}")
