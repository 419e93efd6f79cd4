"""A package of the user's that has the name of one of ours is told in one line, not in a traceback of our own."""

import subprocess
import sys
from pathlib import Path

import pytest

from klamm.rooms import ROOMS, foreign_room

ROOT = Path(__file__).resolve().parents[2]


def run_beside(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={"PYTHONPATH": f"{folder}:{ROOT}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_ours_are_ours() -> None:
    assert foreign_room() is None


@pytest.mark.parametrize("room", ROOMS)
def test_a_package_of_the_same_name(room: str, tmp_path: Path) -> None:
    (tmp_path / room).mkdir()
    (tmp_path / room / "__init__.py").touch()
    served = run_beside(tmp_path, "-m", "klamm", "serve")
    assert served.returncode == 2
    assert served.stdout == ""
    [line] = served.stderr.splitlines()
    assert f"package {room!r} is {tmp_path / room}" in line
    imported = run_beside(tmp_path, "-c", "from klamm import Cluster")
    assert imported.stderr.splitlines()[-1].startswith(f"ImportError: Klamm's package {room!r}")
