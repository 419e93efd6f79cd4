"""The commands of docs/twins.md, in their order, beside a cluster that stands for the real one."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from klamm.cluster.server_process import ServerProcess

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "twins.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SERVE = "klamm serve --seed 1 --brokers 6 --racks a,b,c --controller-listener 127.0.0.1:9193 --control 127.0.0.1:9190"
OPTIONS = ("--seed", "1", "--brokers", "6", "--racks", "a,b,c", "--controller-listener", "127.0.0.1:0")


def blocks(kind: str) -> list[str]:
    return [text for found, text in BLOCKS if found == kind]


def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(next(text for text in blocks("json") if '"topic"' in text))
    (tmp_path / "client.properties").write_text("client.id=me\n")
    (tmp_path / "changes.yaml").write_text(blocks("yaml")[0])
    (follow,), (clone,), (serve,), tries = ([*text.splitlines()] for text in blocks("sh"))
    (start,), (export, *steps) = ([line.removeprefix("$ ") for line in text.splitlines()] for text in blocks("console"))
    assert start == SERVE
    with ServerProcess(*OPTIONS, control=True) as real:
        environment = {export.split()[1].split("=")[0]: real.control_url}
        for step in steps:
            done = run(step.replace("127.0.0.1:9193", real.controller_bootstrap_servers), tmp_path, environment)
            assert done.returncode == 0, done.stderr
        followed = run(
            follow.replace("prod-1:9093,prod-2:9093", real.controller_bootstrap_servers).replace("copy", "new")
            + " --once",
            tmp_path,
        )
        cloned = run(clone.replace("prod:9092", real.bootstrap_servers).replace("copy", "cloned"), tmp_path)
    assert (followed.returncode, cloned.returncode) == (0, 0), (followed.stderr, cloned.stderr)
    shown, _, report = blocks("text")
    assert re.sub(r"\d+", "N", shown.replace("prod-2:9093", "")) == re.sub(
        r"\d+", "N", followed.stderr.splitlines()[0].replace(real.controller_bootstrap_servers, "") + "\n"
    )
    assert serve.startswith("klamm serve --twin copy")
    with ServerProcess(twin=tmp_path / "copy", control=True) as twin:
        assert len(twin.bootstrap_servers.split(",")) == len(twin.brokers()) == 6
    for copy in ("copy", "cloned"):
        for command in tries:
            done = run(command.replace("--twin copy", f"--twin {copy}"), tmp_path)
            assert done.stdout or (tmp_path / "report.html").stat().st_size, done.stderr
            assert done.returncode == 0, done.stderr
    assert "lose rack b" in (tmp_path / "report.html").read_text()
    assert "`klamm try --twin copy changes.yaml --profile kafka` prints this report" in PAGE
    printed = run("klamm try --twin copy changes.yaml --profile kafka", tmp_path).stdout
    about_the_copy = re.compile("^metadata in copy: up to offset .*", re.MULTILINE)
    assert about_the_copy.sub("", printed) == about_the_copy.sub("", report)
    suggestion = run("klamm try --twin copy --suggest", tmp_path)
    assert json.loads(suggestion.stdout)["version"] == 1


def run(command: str, folder: Path, more: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    program = folder / "klamm"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m klamm "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{folder}:{os.environ['PATH']}", **(more or {})}
    return subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
