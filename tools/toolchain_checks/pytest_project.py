"""Installs Klamm's wheel into a project of its own environment, and runs the pytest suite of docs/testing.md there.

The wheel is built as by an installer, which leaves the clone unchanged, and installed with the versions that
`tools/conformance/pytest/requirements.txt` locks, beside packages that have the names of Klamm's rooms. Nothing of this
tree is on the path. Every Python block of the page becomes a file of the project.
"""

import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools.toolchain_checks.fetching import fetched
from tools.toolchain_checks.program import run_program
from tools.toolchain_checks.report import Report, expect, expect_none

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "tools" / "conformance" / "pytest" / "requirements.txt"
PAGE = ROOT / "docs" / "testing.md"
INSTALL_SECONDS = 600.0
SUITE_SECONDS = 600.0
END_SECONDS = 240.0
POLL_SECONDS = 0.05
_FOREIGN = ("assignment", "broker", "controller", "pipeline", "protocol", "server", "tests", "scripts", "tools")
"""Packages that a service may have, with the names of Klamm's folders."""
_BLOCK = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What the page need not show: the version of Klamm, and the third kind of suite.
_OWN_TESTS = """
import sys
from importlib.resources import files

import klamm
import pytest
from aiokafka.admin import AIOKafkaAdminClient


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
@pytest.mark.klamm(brokers=2)
async def test_anyio(klamm_cluster):
    admin = AIOKafkaAdminClient(bootstrap_servers=klamm_cluster.bootstrap_servers)
    await admin.start()
    assert len((await admin.describe_cluster())["brokers"]) == 2
    await admin.close()


def test_this_is_the_wheel():
    assert klamm.__file__.startswith(sys.prefix)
    page = files("klamm.control.page") / "files"
    assert {"index.html", "page.css", "main.js", "icon.svg"} <= {file.name for file in page.iterdir()}


@pytest.mark.parametrize("turn", range(2))
def test_shared(klamm_session_cluster, worker_id, turn):
    with open(f"../session-{worker_id}", "a") as file:
        file.write(f"{klamm_session_cluster.bootstrap_servers}\\n")
"""
_PYTEST_INI = """
[pytest]
addopts = --strict-markers --strict-config
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""
WORKERS = 2
PASSED = WORKERS * (6 + 4)
"""Each worker runs all tests: those of the page and these."""


def check_pytest_project(report: Report, folder: Path) -> None:
    """The wheel, the environment, the suite in two workers, and unittest."""
    folder.mkdir()
    environment, project = folder / "environment", folder / "project"
    python = environment / "bin" / "python"
    wheel: Path | None = None
    foreign: list[Path] = []
    with report.check("the wheel is built, and installs into an environment that lacks nothing"):
        wheel = _built_wheel(folder)
        _run([sys.executable, "-m", "venv", str(environment)], folder, INSTALL_SECONDS)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input"]
        locked = [*pip, "install", "--quiet", "--require-hashes", "-r", str(REQUIREMENTS)]
        fetched(lambda: _run(locked, folder, INSTALL_SECONDS))
        foreign = _add_foreign_packages(python)
        _run([*pip, "install", "--quiet", "--no-index", str(wheel)], folder, INSTALL_SECONDS)
        _run([*pip, "check"], folder, INSTALL_SECONDS)
    if wheel is None or not foreign:
        return
    _write_project(project)
    with report.check("pytest finds the plugin: synchronous, asyncio and anyio suites pass, in two workers"):
        suite = [str(python), "-m", "pytest", "-q", "-n", str(WORKERS), "--dist", "each", "-p", "no:cacheprovider"]
        reported = _run(suite, project, SUITE_SECONDS)
        expect(f"\n{PASSED} passed in " in reported, reported)
        _expect_no_process(python)
    with report.check("the service's own packages are as they were, and are what their names import"):
        expect([path.read_text() for path in foreign] == [f"NAME = {name!r}\n" for name in _FOREIGN], str(foreign))
        names = "; ".join(f"import {name}; assert {name}.NAME == {name!r}" for name in _FOREIGN)
        _run([str(python), "-c", f"import klamm.controller.core; {names}"], project, SUITE_SECONDS)
    with report.check("each worker has a session's cluster of its own"):
        seen = [set(path.read_text().split()) for path in folder.glob("session-gw*")]
        expect([len(addresses) for addresses in seen] == [1] * WORKERS, f"session's clusters: {seen}")
        expect(len(set().union(*seen)) == WORKERS, f"one cluster for all: {seen}")
    with report.check("the unittest example passes"):
        _run([str(python), "-W", "error", "-m", "unittest", "unittest_orders"], project, SUITE_SECONDS)
        _expect_no_process(python)


def _built_wheel(folder: Path) -> Path:
    before = _tree()
    command = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps")
    # The build backend is downloaded, too.
    fetched(lambda: _run([*command, "--wheel-dir", str(folder), str(ROOT)], folder, INSTALL_SECONDS))
    expect(_tree() == before, f"building has left behind: {sorted(_tree() - before)}")
    (wheel,) = folder.glob("klamm-*.whl")
    return wheel


def _tree() -> set[str]:
    """The files of the clone, without those that running Python creates."""
    skipped = {".git", ".venv", ".cache", "__pycache__"}
    return {str(path) for path in ROOT.rglob("*") if not skipped & set(path.parts)}


def _add_foreign_packages(python: Path) -> list[Path]:
    """Packages of a service, installed beside Klamm."""
    (site,) = python.parents[1].glob("lib/python*/site-packages")
    made = []
    for name in _FOREIGN:
        (site / name).mkdir()
        made.append(site / name / "__init__.py")
        made[-1].write_text(f"NAME = {name!r}\n")
    return made


def _write_project(project: Path) -> None:
    project.mkdir()
    for name, text in _BLOCK.findall(PAGE.read_text()):
        (project / name).write_text(text)
    (project / "test_own.py").write_text(_OWN_TESTS)
    (project / "pytest.ini").write_text(_PYTEST_INI)


def _expect_no_process(python: Path) -> None:
    """Check that no process of this environment's Python is left after a short time."""
    deadline = time.monotonic() + END_SECONDS
    while (left := _processes(python)) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    expect_none(left, "processes that are left")


def _processes(python: Path) -> list[str]:
    """The processes that this environment's Python runs."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:  # It has ended meanwhile.
            continue
        if words[0] == os.fsencode(python):
            found.append(os.fsdecode(b" ".join(words)))
    return found


def _run(command: Sequence[str], folder: Path, seconds: float) -> str:
    """The output of a program, without this tree on the path."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KAFKA_"))}
    return run_program(command, seconds, folder=folder, environment=variables)
