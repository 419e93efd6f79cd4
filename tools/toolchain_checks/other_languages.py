"""Runs the fixtures of docs/testing.md for other languages with the test runners of these languages.

Every Java, Go and JavaScript block of the page becomes a file of a project; the blocks are kept on the page only.
"""

import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.toolchain_checks.client_stories import PROGRAMS, compile_java, node_packages
from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.kafka_jars import find_program
from tools.toolchain_checks.program import run_program, with_variables
from tools.toolchain_checks.report import CheckFailed, Report, expect, expect_none

_ROOT: Final = Path(__file__).resolve().parents[2]
_PAGE: Final = _ROOT / "docs" / "testing.md"
_BLOCK: Final = re.compile(r"^```(\w+)\n// ([\w.]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SUITE_SECONDS: Final = 600.0
_END_SECONDS: Final = 240.0
_POLL_SECONDS: Final = 0.05
_TIMES: Final = 2
"""A suite that runs again must not find topics of the first run."""
_UNUSABLE: Final = "KLAMM_OF_THE_CHECKS_IS_UNUSABLE"
"""With this variable the `klamm` of the checks refuses to start."""
_KLAMM: Final = """#!/bin/sh
exec '{klamm}' "$@" ${{{unusable}:+--set num.partitions=none}}
"""
_SAID: Final = ("klamm serve: ", "klamm did not start")


def check_other_languages(report: Report, java: Java | None, folder: Path) -> None:
    """JUnit, `go test` and `node --test` on the page's files; JUnit needs the jars, the others do not."""
    folder.mkdir()
    programs = folder / "programs"
    programs.mkdir()
    klamm = programs / "klamm"
    klamm.write_text(_KLAMM.format(klamm=_ROOT / "scripts" / "klamm", unusable=_UNUSABLE))
    klamm.chmod(0o755)
    environment = with_variables({"PATH": os.pathsep.join((str(programs), os.environ["PATH"]))})
    if java is not None:
        with report.check("the JUnit example of docs/testing.md passes, and fails where Klamm cannot start"):
            _check(_junit(java, _project(folder, "java"), environment), "1 tests successful")
    with report.check("the go test example of docs/testing.md passes, and fails where Klamm cannot start"):
        _check(_go_test(_project(folder, "go"), environment), "--- PASS")
    with report.check("the node:test example of docs/testing.md passes, and fails where Klamm cannot start"):
        _check(_node_test(_project(folder, "js"), environment), "\n# pass 1\n")


@dataclass(frozen=True, slots=True)
class _Suite:
    command: Sequence[str]
    project: Path
    environment: Mapping[str, str]

    def run(self, variables: Mapping[str, str]) -> str:
        environment = {**self.environment, **variables}
        reported = run_program(self.command, _SUITE_SECONDS, folder=self.project, environment=environment)
        _expect_no_server(self.project)
        return reported


def _check(suite: _Suite, passed: str) -> None:
    for _ in range(_TIMES):
        reported = suite.run({})
        expect(passed in reported, reported)
    try:
        suite.run({_UNUSABLE: "1"})
    except CheckFailed as failure:
        for said in _SAID:
            expect(said in str(failure), f"it does not say “{said}”:\n{failure}")
    else:
        raise CheckFailed("it passes where Klamm cannot start")
    _expect_no_server(suite.project)


def _junit(java: Java, project: Path, environment: Mapping[str, str]) -> _Suite:
    classes = project / "classes"
    classes.mkdir()
    compile_java(java, sorted(project.glob("*.java")), classes)
    class_path = os.pathsep.join((str(classes), java.class_path))
    launcher = ("org.junit.platform.console.ConsoleLauncher", "execute", "--select-class", "OrdersTest")
    # Only the end of a failure's output is shown, so it should be the relevant part.
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return _Suite([java.program, quiet, "-cp", class_path, *launcher, "--disable-banner"], project, environment)


def _go_test(project: Path, environment: Mapping[str, str]) -> _Suite:
    for name in ("go.mod", "go.sum"):
        shutil.copy(PROGRAMS / "go" / name, project)
    # Otherwise Go would print its cached result.
    return _Suite([find_program("go", "golang-go"), "test", "-v", "-count=1", "."], project, environment)


def _node_test(project: Path, environment: Mapping[str, str]) -> _Suite:
    command = [find_program("node", "nodejs"), "--test", "--test-reporter=tap"]
    return _Suite(command, project, {**environment, "NODE_PATH": str(node_packages())})


def _project(folder: Path, language: str) -> Path:
    """A folder with the page's files of a language."""
    project = folder / language
    project.mkdir()
    files = {name: text for found, name, text in _BLOCK.findall(_PAGE.read_text()) if found == language}
    expect(bool(files), f"docs/testing.md has no {language} files")
    for name, text in files.items():
        (project / name).write_text(text)
    return project


def _expect_no_server(project: Path) -> None:
    """The servers of a project run in its folder, and end soon after its tests."""
    deadline = time.monotonic() + _END_SECONDS
    while (left := _processes_in(project)) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    expect_none(left, "processes that are left")


def _processes_in(project: Path) -> list[str]:
    left = []
    for path in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if path.readlink() == project:
                left.append(path.parent.name)
        except OSError:  # It has ended meanwhile, or belongs to another program.
            continue
    return left
