"""Tries a fault in a copy of the tree, with the tests in a new process: code that runs at import is faulty, too."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.mutation.faults import ROOT, Fault
from tools.mutation.verdict import DEATH, TIME

_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_NOT_COPIED: Final = shutil.ignore_patterns(".git", ".venv", ".cache", "__pycache__", "*.egg-info", "build", "dist")
_ALL_PASSED: Final = 0
_SOME_FAILED: Final = frozenset({1, 2})
"""pytest's exit codes: a test failed; a test module could not be imported."""


def first_failure(fault: Fault, tests: Sequence[str], scratch: Path, *, seconds: float) -> str:
    """Run tests, given by their ids, on a faulty tree. Returns the first failure, TIME or DEATH, or nothing. The copy
    is made of hard links; only the faulty file is written, as a new file."""
    tree = scratch / "tree"
    shutil.copytree(ROOT, tree, symlinks=True, ignore=_NOT_COPIED, copy_function=os.link)
    faulty = tree / fault.file
    faulty.unlink()
    faulty.write_text(fault.text, encoding="utf-8")
    chosen = scratch / "tests"
    chosen.write_text("\n".join(tests))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:xdist", f"@{chosen}"]
    environment = os.environ | {
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(scratch / "hypothesis"),
    }
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return TIME
    finally:
        shutil.rmtree(tree, ignore_errors=True)
    if done.returncode == _ALL_PASSED:
        return ""
    found = _FAILED.search(done.stdout)
    return found[1] if found and done.returncode in _SOME_FAILED else DEATH
