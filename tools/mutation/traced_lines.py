"""Records which tests run which lines of the modules under trial, and the duration of each test."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, Final

import pytest

Line = tuple[str, int]
"""A file and a line number in it."""
Span = tuple[str, int, int]
"""A file, and the first and the last line of a function in it."""
SETTLED_CALLS: Final = 20
"""After this many calls in one test without a new line, the lines of a function are no longer traced."""


@dataclass(slots=True)
class Traced:
    """The results of one run of the tests without faults."""

    lines: dict[str, set[Line]] = field(default_factory=dict)
    """By test: lines that ran. Of functions that are called often, a few may be missing."""
    spans: dict[str, set[Span]] = field(default_factory=dict)
    """By test: all functions that were called."""
    seconds: dict[str, float] = field(default_factory=dict)
    """By test: its duration under the tracer."""
    failed: list[str] = field(default_factory=list)
    """Tests that fail without any fault."""

    def tests_of(self, file: str, first: int, last: int) -> list[str]:
        """The tests that run one of the lines, the fastest first; then those that only call the function around
        them."""
        wanted = {(file, number) for number in range(first, last + 1)}
        certain = {test for test, lines in self.lines.items() if lines & wanted}
        possible = {
            test
            for test, spans in self.spans.items()
            if test not in certain
            and any(in_file == file and begin <= last and first <= end for in_file, begin, end in spans)
        }
        by_time = self.seconds.__getitem__
        return sorted(certain, key=by_time) + sorted(possible, key=by_time)


class LineTracer:
    """A pytest plugin that fills Traced. Threads that the tests start are traced, too."""

    def __init__(self, files: frozenset[str]) -> None:
        self.traced = Traced()
        self._files = files
        self._spans_of: dict[CodeType, Span] = {}
        self._lines: set[Line] = set()
        self._spans: set[Span] = set()
        self._calls: Counter[CodeType] = Counter()
        self._known: dict[CodeType, int] = {}
        """The number of known lines when the function was last entered."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._lines = self.traced.lines[item.nodeid] = set()
        self._spans = self.traced.spans[item.nodeid] = set()
        self._calls.clear()
        self._known.clear()
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
        code = frame.f_code
        if code.co_filename not in self._files:
            return None
        self._calls[code] += 1
        if self._calls[code] == 1:
            self._spans.add(self._span(code))
        elif self._calls[code] > SETTLED_CALLS and self._known.get(code) == len(self._lines):
            return None
        self._known[code] = len(self._lines)
        self._lines.add((code.co_filename, frame.f_lineno))
        return self._ran

    def _ran(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self._lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._ran

    def _span(self, code: CodeType) -> Span:
        if code not in self._spans_of:
            numbers = [number for _, _, number in code.co_lines() if number is not None]
            self._spans_of[code] = (code.co_filename, min(numbers), max(numbers))
        return self._spans_of[code]
