"""docs/testing.md and the example in the README agree with the code. Their examples and those of docs/faults.md run.
tools/toolchain_checks/pytest_project.py runs all files of the page, with pytest-asyncio installed; these tests run
those that need less."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import klamm
from klamm.cluster.options import OPTION_NAMES
from klamm.testing.pytest_plugin import _INI
from tests.klamm.testing.test_pytest_plugin import await_end

ROOT = Path(klamm.__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "testing.md").read_text()
README = (ROOT / "README.md").read_text()
FAULTS = (ROOT / "docs" / "faults.md").read_text()
FILE = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = dict(FILE.findall(PAGE))


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{folder}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_every_option_is_described_and_no_other() -> None:
    rows = [row for row in PAGE.splitlines() if row.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"^\| `(\w+)=", row)} == {*OPTION_NAMES, "arguments"}
    assert {name for row in rows for name in re.findall(r"`klamm_(\w+) =", row)} == set(_INI)


def test_the_suites_shown_pass(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```python\n(import pytest\n.*?)^```$", README, re.MULTILINE | re.DOTALL)
    for name, text in {**FILES, **dict(FILE.findall(FAULTS)), "test_readme.py": example}.items():
        if "asyncio" not in name:
            (tmp_path / name).write_text(text)
    (toml,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "pyproject.toml").write_text(toml)
    options = (
        "-q",
        "--strict-markers",
        "--strict-config",
        "-p",
        "klamm.testing.pytest_plugin",
        "-p",
        "no:cacheprovider",
    )
    ended = run(tmp_path, sys.executable, "-P", "-m", "pytest", *options)
    assert ended.returncode == 0, ended.stdout
    assert "8 passed" in ended.stdout


def test_the_unittest_shown_passes(tmp_path: Path) -> None:
    (tmp_path / "unittest_orders.py").write_text(FILES["unittest_orders.py"])
    ended = run(tmp_path, sys.executable, "-m", "unittest", "-v", "unittest_orders")
    assert ended.returncode == 0, ended.stderr
    assert "Ran 1 test" in ended.stderr


@pytest.mark.parametrize(("brokers", "code"), [("3", 0), ("none", 2)])
def test_the_line_for_other_languages_waits_for_the_server_and_ends_it(tmp_path: Path, brokers: str, code: int) -> None:
    (line,) = re.findall(r"^exec .*klamm serve.*$", PAGE, re.MULTILINE)
    program = tmp_path / "klamm"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m klamm "$@"\n')
    program.chmod(0o755)
    connects = (
        "server=$!\nfor address in ${BOOTSTRAP_SERVERS//,/ }; do : <>/dev/tcp/${address/:/\\/}; done\necho $server"
    )
    ended = run(tmp_path, "bash", "-c", f"{line.replace('--brokers 3', f'--brokers {brokers}')}\n{connects}")
    assert ended.returncode == code, ended.stderr
    if code:
        assert re.fullmatch(r"klamm serve: argument --brokers: .*\n", ended.stderr)
        assert ended.stdout == ""
    else:
        assert ended.stderr == ""
        await_end(int(ended.stdout))
