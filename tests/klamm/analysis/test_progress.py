"""Progress of `klamm pipeline`: bars in a terminal, one line per step elsewhere, nothing without stderr."""

import io
import os
import pty
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import IO, Any

import pytest

from klamm.analysis.progress import shown_progress

SECONDS = 60.0


@contextmanager
def terminal() -> Iterator[tuple[IO[str], Callable[[], str]]]:
    """The side of a terminal that programs write to, and the output that was written until it is closed."""
    master, slave = pty.openpty()
    drawn = bytearray()

    def read() -> None:
        while True:
            try:
                block = os.read(master, 65_536)
            except OSError:  # The other side is closed.
                return
            drawn.extend(block)

    reader = threading.Thread(target=read)
    reader.start()
    stderr = os.fdopen(slave, "w")

    def content() -> str:
        stderr.close()
        reader.join(SECONDS)
        return re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", drawn.decode("utf-8"))

    try:
        yield stderr, content
    finally:
        stderr.close()
        reader.join(SECONDS)
        os.close(master)


class Tracker:
    """Stands in for Spark's status tracker: a job with ten tasks, three of which are done. `looked` is set after enough
    calls."""

    def __init__(self) -> None:
        self.looks = 0
        self.looked = threading.Event()

    def getActiveStageIds(self) -> list[int]:  # noqa: N802 - Spark's name
        self.looks += 1
        if self.looks == 2:
            self.looked.set()
        return [7]

    def getStageInfo(self, stage: int) -> Any:  # noqa: N802 - Spark's name
        assert stage == 7
        return SimpleNamespace(numTasks=10, numCompletedTasks=3)


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_a_terminal_shows_a_bar_for_each_step() -> None:
    tracker = Tracker()
    session = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    with terminal() as (stderr, content):
        with shown_progress(stderr) as progress:
            progress("starting Spark")
            progress.watch(session)
            progress("reading the logs")
            assert tracker.looked.wait(SECONDS)
            progress("done")
        drawn = content()
    lines = [line.strip() for line in re.split(r"[\r\n]+", drawn) if line.strip()]
    assert any(re.search(r"reading the logs +━+[╸╺]", line) for line in lines), "a bar that is part of the way"
    last = lines[-2:]
    assert all(
        re.search(rf"✓ {step} +━+ 0:00:\d\d", line)
        for step, line in zip(("starting Spark", "reading the logs"), last, strict=True)
    ), last
    assert "klamm pipeline:" not in drawn


def test_a_session_without_a_tracker_has_bars_all_the_same() -> None:
    with terminal() as (stderr, content):
        with shown_progress(stderr) as progress:
            progress("starting Spark")
            progress.watch(SimpleNamespace())
            progress("done")
        assert "✓ starting Spark" in content()


def test_a_pipe_gets_a_line_per_step() -> None:
    stderr = io.StringIO()
    with shown_progress(stderr) as progress:
        progress("starting Spark")
        progress.watch(SimpleNamespace())
        progress("done")
    assert stderr.getvalue() == "klamm pipeline: starting Spark\nklamm pipeline: done\n"


def test_nobody_needs_a_stderr() -> None:
    class Broken(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    for stderr in (None, Broken()):
        with shown_progress(stderr) as progress:
            progress("starting Spark")
