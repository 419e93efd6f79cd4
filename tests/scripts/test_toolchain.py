"""The parts of scripts/toolchain that run side by side: what they print, how they are counted, and how they end."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tools.toolchain_checks.report import Report
from tools.toolchain_checks.side_by_side import run_parts

ROOT = Path(__file__).parents[2]
SECONDS = 60.0
ENDED = """
import signal, sys
from tools.toolchain_checks.report import Report
from tools.toolchain_checks.side_by_side import run_parts
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
wait = (sys.executable, "-c", "import time; print('waiting', flush=True); time.sleep(600)")
run_parts(Report(), {"one": wait, "two": wait, "three": wait}, 2)
"""


def part(program: str) -> tuple[str, ...]:
    return (sys.executable, "-u", "-c", program)


def test_lines_come_as_they_are_printed_and_the_counts_are_added(capfd: pytest.CaptureFixture[str]) -> None:
    report = Report()
    tools = (
        "print('ok    first'); print('FAIL  second'); print('failed: second'); print('toolchain: 3 passed, 1 failed')"
    )
    others = "print('ok    other'); print('toolchain: 1 passed, 0 failed')"
    run_parts(report, {"tools": part(tools), "others": part(others), "more": part(others)}, 2)
    assert (report.passed, report.failed) == (3 + 1 + 1 + 3, 1)
    assert report.close() == 1
    lines = [line.partition(" (")[0] for line in capfd.readouterr().out.splitlines()]
    assert lines[-2:] == ["failed: second", "toolchain: 8 passed, 1 failed"]
    ends = [f"ok    the checks of {name} were made to their end" for name in ("more", "others", "tools")]
    assert sorted(lines[:-2]) == ["FAIL  second", "ok    first", "ok    other", "ok    other", *ends]


@pytest.mark.parametrize("program", ["print('ok    first'); raise SystemExit(3)", "pass", "print('toolchain: ended')"])
def test_a_part_that_ends_too_early_is_a_failure(program: str, capfd: pytest.CaptureFixture[str]) -> None:
    report = Report()
    run_parts(report, {"tools": part(program)}, 2)
    assert (report.passed, report.failed) == (0, 1)
    assert report.close() == 1
    printed = capfd.readouterr().out
    assert "FAIL  the checks of tools were made to their end" in printed
    assert "failed: the checks of tools were made to their end" in printed.splitlines()


def test_the_parts_are_ended_with_the_process() -> None:
    """Two parts run, and the third waits for them: it is not started."""
    command = [sys.executable, "-P", "-u", "-c", ENDED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(ROOT)}) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["waiting\n"] * 2
        process.send_signal(signal.SIGTERM)
        printed, _ = process.communicate(timeout=SECONDS)
    assert (process.returncode, printed) == (143, "")
