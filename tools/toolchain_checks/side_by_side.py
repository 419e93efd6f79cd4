"""A part of the checks in a process of its own, because most of the time programs of the JVM start on one processor.

Its lines are printed as they come; its last one has its counts, which are added to those of the report.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread

from tools.toolchain_checks.report import CLOSING, Report

END_SECONDS = 60.0


@contextmanager
def beside(report: Report, part: str, command: Sequence[str]) -> Iterator[None]:
    """The checks of a part, which `command` makes, run while the block does; at its end they are awaited and
    counted."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    lines: list[str] = []
    reader = Thread(target=_pass_on, args=(process, lines))
    reader.start()
    try:
        yield
        reader.join()
        with report.check(f"the checks of {part} were made to their end"):
            counts = re.fullmatch(CLOSING, lines[-1] if lines else "")
            assert counts, f"{part} ended with exit code {process.wait()} and without its closing line"
            report.passed += int(counts[1])
            report.failed += int(counts[2])
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
        reader.join()


def _pass_on(process: "subprocess.Popen[str]", lines: list[str]) -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if not re.fullmatch(CLOSING, lines[-1]):
                sys.stdout.write(line)
                sys.stdout.flush()
