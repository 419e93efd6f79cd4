"""All of Klamm is importable under `klamm.` alone, beside packages of a service with any name (decision 10)."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("assignment", "broker", "controller", "pipeline", "protocol", "server")
IMPORT_ALL = """
import importlib, pkgutil, sys
import klamm

for found in pkgutil.walk_packages(klamm.__path__, "klamm."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
print(*sorted(name for name in sys.modules if name.split(".")[0] in sys.argv[1:]))
print(sum(name.startswith("klamm.") for name in sys.modules))
"""


def run_beside(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder with packages named like Klamm's rooms: they are first on the path and may not be
    imported."""
    for room in ROOMS:
        (folder / room).mkdir()
        (folder / room / "__init__.py").write_text(f"raise ImportError('the service has its own {room}')\n")
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={"PYTHONPATH": f"{folder}:{ROOT}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_every_module_is_imported_under_klamm_and_under_no_other_name(tmp_path: Path) -> None:
    done = run_beside(tmp_path, "-c", IMPORT_ALL, *ROOMS)
    assert done.returncode == 0, done.stderr
    bare, count = done.stdout.splitlines()
    assert bare == ""
    assert int(count) > 400


def test_the_command_line_runs_beside_packages_of_the_same_names(tmp_path: Path) -> None:
    done = run_beside(tmp_path, "-m", "klamm", "--version")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_reached_through_a_link_that_git_keeps(room: str) -> None:
    assert (ROOT / "klamm" / room).readlink() == Path("..") / room
