"""Shows the progress of a long run: a bar on a terminal, otherwise a line from time to time."""

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from tools.hard_knocks.clients import Tally

SECONDS_BETWEEN_LINES = 15.0


class Progress:
    """Counts rounds. `tell` prints a line without damage to the bar."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._started = self._told_at = time.monotonic()
        columns = (TextColumn("kill -9"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Bar(*columns, TextColumn("{task.description}"), console=Console()) if sys.stdout.isatty() else None
        self._task = None if self._bar is None else self._bar.add_task("", total=total)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def step(self, tally: Tally) -> None:
        """Count one more round."""
        self._done += 1
        acknowledged = f"{sum(tally.acknowledged.values())} changes acknowledged"
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, advance=1, description=acknowledged)
        elif time.monotonic() - self._told_at > SECONDS_BETWEEN_LINES:
            self._told_at = time.monotonic()
            seconds = self._told_at - self._started
            print(f"{self._done} of {self._total} kills, {seconds:.0f} s, {acknowledged}", flush=True)

    def tell(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, flush=True)
