"""Parts of the checks, each in a process of its own, several at once: most of their time they wait for clients, brokers
and the start of JVMs.

The lines of a part are printed as they come; its last one has its counts, which are added to those of the report.
"""

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Final

from tools.toolchain_checks.report import CLOSING, FAILED, Report

END_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.5


def run_parts(report: Report, parts: Mapping[str, Sequence[str]], at_once: int) -> None:
    """Run the commands of these parts, in this order, as many `at_once`, and count their checks. If this process has to
    stop, the parts are ended."""
    running = _Parts(report, parts)
    lanes = [Thread(target=running.run_next) for _ in range(at_once)]
    for lane in lanes:
        lane.start()
    try:
        for lane in lanes:
            while lane.is_alive():  # a join without an end would not let a signal through
                lane.join(_POLL_SECONDS)
    finally:
        running.end()
        for lane in lanes:
            lane.join()


class _Parts:
    """The parts that are waiting or running."""

    def __init__(self, report: Report, parts: Mapping[str, Sequence[str]]) -> None:
        self._report = report
        self._waiting: SimpleQueue[tuple[str, Sequence[str]]] = SimpleQueue()
        for part in parts.items():
            self._waiting.put(part)
        self._lock = Lock()
        self._processes: list[subprocess.Popen[str]] = []
        self._is_over = False

    def run_next(self) -> None:
        """Run one part after the other until none is left."""
        while True:
            try:
                part, command = self._waiting.get_nowait()
            except Empty:
                return
            with self._lock:
                if self._is_over:
                    return
                process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                self._processes.append(process)
            last = self._pass_on(process)
            code = process.wait()
            with self._lock:
                if not self._is_over:
                    self._count(part, last, code)

    def end(self) -> None:
        """End the parts that run, and start no other."""
        with self._lock:
            self._is_over = True
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()

    def _pass_on(self, process: "subprocess.Popen[str]") -> str:
        """Print the lines of the process as they come. Returns the last one."""
        last = ""
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                last = line.rstrip("\n")
                if re.fullmatch(CLOSING, last):
                    continue
                with self._lock:
                    if last.startswith(FAILED):
                        self._report.failures.append(last.removeprefix(FAILED))
                    else:
                        sys.stdout.write(line)
                        sys.stdout.flush()
        return last

    def _count(self, part: str, last: str, code: int) -> None:
        with self._report.check(f"the checks of {part} were made to their end"):
            counts = re.fullmatch(CLOSING, last)
            assert counts, f"{part} ended with exit code {code} and without its closing line"
            self._report.passed += int(counts[1])
            self._report.failed += int(counts[2])
