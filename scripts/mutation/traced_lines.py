"""Which tests run which lines of the modules under trial, and how long each test takes."""

import sys
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import pytest

Lines = set[tuple[str, int]]


@dataclass(slots=True)
class Traced:
    """What one sound run of the tests showed."""

    lines: dict[str, Lines] = field(default_factory=dict)
    """By test: the lines (file, number) that ran."""
    seconds: dict[str, float] = field(default_factory=dict)
    """By test: how long it took under the tracer."""
    failed: list[str] = field(default_factory=list)
    """Tests that fail without any fault."""

    def tests_of(self, file: str, first: int, last: int) -> list[str]:
        """The tests that run one of the lines, the quickest first."""
        wanted = {(file, number) for number in range(first, last + 1)}
        return sorted((test for test, lines in self.lines.items() if lines & wanted), key=self.seconds.__getitem__)


class LineTracer:
    """A pytest plugin that fills Traced. Threads that the tests start are traced, too."""

    def __init__(self, files: frozenset[str]) -> None:
        self.traced = Traced()
        self._files = files
        self._lines: Lines = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._lines = self.traced.lines[item.nodeid] = set()
        begun = time.perf_counter()
        threading.settrace(self._called)
        sys.settrace(self._called)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            self.traced.seconds[item.nodeid] = time.perf_counter() - begun

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.traced.failed.append(report.nodeid)

    def _called(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename not in self._files:
            return None
        self._lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._ran

    def _ran(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self._lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._ran
