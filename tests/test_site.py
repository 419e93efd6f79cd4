"""The pages of the site: the examples of the tutorial and of the personas run, and users meet no internal words.

tests/klamm/testing/test_docs.py and the test_docs.py of other rooms run those of the longer pages."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from klamm.cluster.server_process import ServerProcess

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
RUN_HERE = (
    "index",
    "tutorial",
    "test-a-service",
    "test-an-admin-tool",
    "write-a-client",
    "try-a-change",
    "own-environment",
    "known-not-to-work",
)
CONTRIBUTORS = {"architecture", "add-an-api", "hard-knocks", "simulation", "mutation", "status", "benchmarks"}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> list[str]:
    return [text for found, text in BLOCK.findall((DOCS / f"{page}.md").read_text()) if found == language]


def environment(folder: Path) -> dict[str, str]:
    """One in which `klamm` is the command of this clone, whatever is installed."""
    program = folder / "klamm"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m klamm "$@"\n')
    program.chmod(0o755)
    return {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.parametrize("page", RUN_HERE)
def test_the_blocks_of_a_page_are_of_kinds_that_are_run(page: str) -> None:
    kinds = {language for language, _ in BLOCK.findall((DOCS / f"{page}.md").read_text())}
    assert kinds <= ({"python", "console", "sh"} if page == "tutorial" else {"python", "console"})
    assert page in {"tutorial", "try-a-change"} or "console" not in kinds


def test_the_suites_shown_pass(tmp_path: Path) -> None:
    shown = [text for page in RUN_HERE for text in blocks(page, "python")]
    for text in shown:
        (tmp_path / text.split()[1]).write_text(text)
    assert len(list(tmp_path.glob("test_*.py"))) == len(shown) == 6
    options = ("-q", "--strict-markers", "-p", "klamm.testing.pytest_plugin", "-p", "no:cacheprovider")
    ended = subprocess.run(
        (sys.executable, "-P", "-m", "pytest", *options),
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    assert "6 passed" in ended.stdout


def test_the_commands_of_the_tutorial_do_what_it_says(tmp_path: Path) -> None:
    (console,) = blocks("tutorial", "console")
    command, *ready = console.splitlines()
    assert command.startswith("$ klamm serve ")
    shown = re.findall(r"https?://\S+", console)[0]
    options = [re.sub(r":9090$", ":0", option) for option in shlex.split(command)[3:]]
    script = "set -e\n" + "".join(blocks("tutorial", "sh"))
    with ServerProcess(*options) as server:
        said = [f"bootstrap.servers={server.bootstrap_servers}", f"control={server.control_url}"]
        assert [re.sub(r"\d{4,5}", "P", line) for line in said] == [re.sub(r"\d{4,5}", "P", line) for line in ready]
        ended = subprocess.run(
            ("bash", "-c", script.replace(shown, server.control_url)),
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        assert re.search(r"^ 2 .* down +yes", ended.stdout, re.MULTILINE)
        assert all(broker.state == "up" for broker in server.brokers())


def test_the_placement_shown_is_the_one_computed(tmp_path: Path) -> None:
    (console,) = blocks("try-a-change", "console")
    command, wanted = console.removeprefix("$ ").splitlines()
    ended = subprocess.run(
        ("bash", "-c", command), env=environment(tmp_path), capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.strip() == wanted


@pytest.mark.parametrize(
    "page", sorted(page.stem for page in DOCS.glob("*.md") if page.stem not in CONTRIBUTORS), ids=str
)
def test_users_meet_no_internal_words(page: str) -> None:
    assert not re.findall(r"\b[Ii]ssues? \d+|\bstatus\.md", (DOCS / f"{page}.md").read_text())
