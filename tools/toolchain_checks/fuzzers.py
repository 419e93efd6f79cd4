"""Runs the fuzzers for a short time: they must work, and find nothing (docs/fuzzing.md)."""

from pathlib import Path

from tools.toolchain_checks.program import run_program
from tools.toolchain_checks.report import Report

FUZZ = Path(__file__).resolve().parents[2] / "scripts" / "fuzz"
FUZZING_SECONDS = 5
SEED = "1"
"""The same in every run: scripts/fuzz by hand draws others."""
DEADLINE_SECONDS = 900.0


def check_fuzzers(report: Report, folder: Path) -> None:
    """A short run of each; findings are in the failure and in `folder`."""
    for kind in ("codec", "server"):
        with report.check(f"scripts/fuzz {kind} finds nothing in {FUZZING_SECONDS} seconds"):
            options = ["--seconds", str(FUZZING_SECONDS), "--seed", SEED, "--keep", str(folder / kind)]
            run_program([str(FUZZ), kind, *options], DEADLINE_SECONDS)
