"""The commands of docs/twins.md, in their order, beside a cluster that stands for the real one."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from klamm.cluster.server_process import ServerProcess

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "twins.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PLAN = {"version": 1, "partitions": [{"topic": "orders-2", "partition": 0, "replicas": [2, 1]}]}
RACKS = ("a", "b", "c")


def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    (tmp_path / "client.properties").write_text("client.id=me\n")
    (tmp_path / "changes.yaml").write_text(next(text for kind, text in BLOCKS if kind == "yaml"))
    (follow,), (clone,), (serve,), tries = ([*text.splitlines()] for kind, text in BLOCKS if kind == "sh")
    with ServerProcess(brokers=3, racks=RACKS, controller_listener="127.0.0.1:0", control=True) as real:
        real.create_topic("orders-2", num_partitions=2, replication_factor=2)
        followed = run(
            follow.replace("prod-1:9093,prod-2:9093", real.controller_bootstrap_servers) + " --once", tmp_path
        )
        cloned = run(clone.replace("prod:9092", real.bootstrap_servers).replace("copy", "cloned"), tmp_path)
    assert (followed.returncode, cloned.returncode) == (0, 0), (followed.stderr, cloned.stderr)
    shown = next(text for kind, text in BLOCKS if kind == "text")
    assert re.sub(r"\d+", "N", shown.replace("prod-2:9093", "")) == re.sub(
        r"\d+", "N", followed.stderr.splitlines()[0].replace(real.controller_bootstrap_servers, "") + "\n"
    )
    assert serve.startswith("klamm serve --twin copy")
    with ServerProcess(twin=tmp_path / "copy", control=True) as twin:
        assert len(twin.bootstrap_servers.split(",")) == len(twin.brokers()) == 3
    for copy in ("copy", "cloned"):
        for command in tries:
            done = run(command.replace("--twin copy", f"--twin {copy}"), tmp_path)
            assert done.stdout or (tmp_path / "report.html").stat().st_size, done.stderr
            assert done.returncode == (1 if "--fail-on" in command and "changes" in command else 0), done.stderr
    assert "lose rack b" in (tmp_path / "report.html").read_text()
    suggestion = run("klamm try --twin copy --suggest", tmp_path)
    assert json.loads(suggestion.stdout)["version"] == 1


def run(command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    program = folder / "klamm"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m klamm "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{folder}:{os.environ['PATH']}"}
    return subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
