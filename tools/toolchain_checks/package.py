"""Checks of the package: archives that are the same in each build, and wide ranges of versions.

What is installed here is locked in `tools/conformance/package/`: packages of services that Klamm must not move, the
oldest versions that pyproject.toml allows, and the tools that make archives.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tools.toolchain_checks.fetching import fetched
from tools.toolchain_checks.program import run_program
from tools.toolchain_checks.report import Report, expect, expect_none

ROOT: Final = Path(__file__).resolve().parents[2]
LOCKED: Final = ROOT / "tools" / "conformance" / "package"
INSTALL_SECONDS: Final = 300.0
SUITE_SECONDS: Final = 600.0
TESTS_WITH_LOWEST: Final = (
    "tests/server",
    "tests/klamm/cluster",
    "tests/klamm/control",
    "tests/assignment/test_place_limits.py",
)
"""Tests that use each of the packages that Klamm needs."""


def check_package(report: Report, folder: Path) -> None:
    """The archives, the neighbours, the oldest versions."""
    folder.mkdir()
    with report.check("the wheel and the source archive are the same in two builds, and twine accepts them"):
        python = _environment(folder / "build-environment", "build")
        first, second = (_built(python, folder / name) for name in ("first", "second"))
        expect({path.suffix for path in first} == {".whl", ".gz"}, f"archives: {sorted(first)}")
        expect(
            [path.read_bytes() for path in first] == [path.read_bytes() for path in second], "two builds are not equal"
        )
        _run([str(python), "-m", "twine", "check", "--strict", *map(str, first)], folder, INSTALL_SECONDS)
    with report.check("installing Klamm beside Flask 2.3, NumPy 1.26 and an older FastAPI changes no version"):
        python = _environment(folder / "neighbours-environment", "neighbours")
        before = {_name(found) for found in json.loads(_pip(python, folder, "list", "--format", "json"))}
        planned = folder / "planned.json"
        fetched(lambda: _pip(python, folder, "install", "--quiet", "--dry-run", "--report", str(planned), str(ROOT)))
        new = {_name(found["metadata"]) for found in json.loads(planned.read_text())["install"]}
        expect("klamm" in new, f"pip would install {sorted(new)}")
        expect_none(sorted(new & before), "packages that pip would move")
    with report.check("tests pass with the oldest versions that the package allows"):
        python = _environment(folder / "lowest-environment", "lowest")
        suite = [str(python), "-m", "pytest", "-q", "-n", "2", "-m", "not slow"]
        _run([*suite, *TESTS_WITH_LOWEST], ROOT, SUITE_SECONDS)


def _environment(folder: Path, name: str) -> Path:
    """The Python of a new environment with what the lock file of this name has."""
    _run([sys.executable, "-m", "venv", str(folder)], folder.parent, INSTALL_SECONDS)
    python = folder / "bin" / "python"
    locked = ("install", "--quiet", "--require-hashes", "--requirement", str(LOCKED / f"{name}.txt"))
    fetched(lambda: _pip(python, folder, *locked))
    return python


def _built(python: Path, folder: Path) -> list[Path]:
    # The build backend is in the environment, so nothing is downloaded. The date of the files is that of the release.
    command = [str(python), "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    _run(command, folder.parent, INSTALL_SECONDS)
    return sorted(folder.iterdir())


def _pip(python: Path, folder: Path, *words: str) -> str:
    return _run(
        [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", *words], folder, INSTALL_SECONDS
    )


def _name(found: dict[str, Any]) -> str:
    return str(found["name"]).lower().replace("_", "-")


def _run(command: Sequence[str], folder: Path, seconds: float) -> str:
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KAFKA_"))}
    return run_program(command, seconds, folder=folder, environment=variables)
