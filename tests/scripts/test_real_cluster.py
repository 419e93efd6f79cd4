"""`scripts/real-cluster` refuses wrong options before it starts a process; scripts/toolchain starts such a cluster."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def ended(*arguments: str, path: str = "") -> "subprocess.CompletedProcess[str]":
    """The program with these arguments, which finds other programs in `path` only."""
    return subprocess.run(
        (sys.executable, "-P", "-m", "tools.real_clusters.three_brokers", *arguments),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--port", "0"), "'0': a port from 1 to 65532 is expected"),
        (("--port", "65533"), "'65533': a port from 1 to 65532 is expected"),
        (("--port", "x"), "'x': a port from 1 to 65532 is expected"),
        (("--set", "num.partitions"), "'num.partitions': KEY=VALUE is expected"),
        (("--set", "=3"), "'=3': KEY=VALUE is expected"),
        (("--brokers", "4"), "unrecognized arguments: --brokers 4"),
    ],
)
def test_wrong_options_are_refused(arguments: tuple[str, ...], reason: str) -> None:
    refused = ended(*arguments)
    assert refused.returncode == 2
    assert refused.stderr.endswith(f"{reason}\n")


def test_without_java_there_is_one_line_and_the_directory_stays_empty(tmp_path: Path) -> None:
    refused = ended("--port", "65532", "--data-dir", str(tmp_path / "data"), path=str(tmp_path))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        "real-cluster: java is needed, and is not on the PATH (Debian: apt install default-jre-headless)\n"
    )
    assert not list((tmp_path / "data").iterdir())
