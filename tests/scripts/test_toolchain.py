"""The parts of scripts/toolchain that run side by side: what they print, how they are counted, and how they end."""

import sys
import time

import pytest

from tools.toolchain_checks.report import Report
from tools.toolchain_checks.side_by_side import beside

SECONDS = 10.0


def part(program: str) -> tuple[str, ...]:
    return (sys.executable, "-u", "-c", program)


def test_lines_come_as_they_are_printed_and_the_counts_are_added(capfd: pytest.CaptureFixture[str]) -> None:
    report = Report()
    program = "print('ok    first'); print('FAIL  second'); print('toolchain: 3 passed, 1 failed')"
    with beside(report, "tools", part(program)), report.check("something else"):
        pass
    assert (report.passed, report.failed) == (5, 1)
    lines = [line.partition(" (")[0] for line in capfd.readouterr().out.splitlines()]
    assert sorted(lines[:-1]) == ["FAIL  second", "ok    first", "ok    something else"]
    assert lines[-1] == "ok    the checks of tools were made to their end"


@pytest.mark.parametrize("program", ["print('ok    first'); raise SystemExit(3)", "pass", "print('toolchain: ended')"])
def test_a_part_that_ends_too_early_is_a_failure(program: str, capfd: pytest.CaptureFixture[str]) -> None:
    report = Report()
    with beside(report, "tools", part(program)):
        pass
    assert (report.passed, report.failed) == (0, 1)
    assert "FAIL  the checks of tools were made to their end" in capfd.readouterr().out


def test_a_part_is_ended_with_the_others() -> None:
    started = time.monotonic()
    with pytest.raises(SystemExit), beside(Report(), "tools", part("import time; time.sleep(60)")):
        sys.exit(143)
    assert time.monotonic() - started < SECONDS
