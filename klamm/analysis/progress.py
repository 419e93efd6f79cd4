"""The progress of a `klamm pipeline` job on stderr: on a terminal a bar of Spark's tasks, else a line for each step."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, Final, Protocol

_LOOK_SECONDS: Final = 0.3


class ShownProgress(Protocol):
    """Called with the name of each step when it starts; `watch` sets the Spark session whose tasks are shown."""

    def __call__(self, step: str) -> None: ...
    def watch(self, session: Any) -> None: ...


@contextmanager
def shown_progress(stderr: IO[str] | None) -> Iterator[ShownProgress]:
    """Show the progress until the block ends. Without stderr nothing is shown."""
    if stderr is None or not stderr.isatty():
        yield _PlainLines(stderr)
        return
    from rich.console import Console

    bars = _Bars(Console(file=stderr))
    try:
        yield bars
    finally:
        bars.end()


class _PlainLines:
    def __init__(self, stderr: IO[str] | None) -> None:
        self._stderr = stderr

    def __call__(self, step: str) -> None:
        if self._stderr is not None:
            with suppress(OSError):
                self._stderr.write(f"klamm pipeline: {step}\n")
                self._stderr.flush()

    def watch(self, session: Any) -> None:
        """Do nothing: plain lines do not show tasks."""


class _Bars:
    """A bar for each step, which shows the tasks of the running stages."""

    def __init__(self, console: Any) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console)
        self._progress.start()
        self._current: Any = None
        self._ended = threading.Event()
        self._watcher: threading.Thread | None = None

    def __call__(self, step: str) -> None:
        self._finish()
        self._current = self._progress.add_task(step, total=None) if step != "done" else None

    def watch(self, session: Any) -> None:
        tracker = getattr(getattr(session, "sparkContext", None), "statusTracker", None)
        if tracker is not None:  # Spark Connect has none
            self._watcher = threading.Thread(target=self._look, args=(tracker(),), daemon=True)
            self._watcher.start()

    def _look(self, tracker: Any) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            with suppress(Exception):  # the session may be stopping; a failure of the bar must not fail the job
                stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
                total, done = (sum(getattr(s, n) for s in stages if s) for n in ("numTasks", "numCompletedTasks"))
                if self._current is not None and total:
                    self._progress.update(self._current, total=total, completed=min(done, total - 1))

    def _finish(self) -> None:
        if self._current is not None:
            self._progress.update(self._current, total=1, completed=1)

    def end(self) -> None:
        self._ended.set()
        if self._watcher is not None:
            self._watcher.join(_LOOK_SECONDS * 10)
        self._progress.stop()
