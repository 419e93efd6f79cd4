#!/usr/bin/env python3
"""Checks the house rules that no linter has: sizes, file names, module docstrings, no paths of a single machine.

    python tools/check_house_rules.py      prints one line for each breach, exits 1 if there is one

Python files have fewer than 400 lines and functions fewer than 60; every module has a docstring; no file contains the
host of a package registry or a path that exists on one machine only. Reads the files that git tracks, or without git
those in the folder.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULE_LINES = 400
FUNCTION_LINES = 60
EMPTY_NAMES = frozenset({"util", "utils", "helper", "helpers", "manager", "misc", "info", "base", "common"})
SKIPPED_FOLDERS = frozenset({".git", ".venv", ".cache", "build", "dist", "__pycache__", "node_modules"})
# Written in pieces, so that this file follows its own rule.
REGISTRY = re.compile(
    "|".join(("pypi" + r"\.org", "pythonhosted" + r"\.org", r"repo1?\.maven" + r"\.", "proxy" + r"\.golang"))
)
MACHINE_PATH = re.compile(
    "|".join(("/work/" + "(main|shared)", "/ro" + "ot/", "/ho" + r"me/\w", "/Us" + r"ers/\w", "/tmp/bash" + "_jobs"))
)


def project_files() -> list[Path]:
    """Every file that git tracks or would track; without git, every file outside of build directories."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        candidates = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    else:
        candidates = [path for path in ROOT.rglob("*") if not SKIPPED_FOLDERS & set(path.relative_to(ROOT).parts)]
    return sorted(path for path in candidates if path.is_file())


def breaches_in_text(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if REGISTRY.search(line):
            yield number, "names the host of a package registry"
        if MACHINE_PATH.search(line):
            yield number, "names a path of one machine"


def breaches_in_python(path: Path, text: str) -> Iterator[tuple[int, str]]:
    lines = text.count("\n")
    if lines >= MODULE_LINES:
        yield 1, f"has {lines} lines; fewer than {MODULE_LINES} are allowed"
    if path.stem in EMPTY_NAMES:
        yield 1, f"is called {path.stem}, which says nothing"
    tree = ast.parse(text, filename=str(path))
    if tree.body and ast.get_docstring(tree) is None:
        yield 1, "has no module docstring"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length >= FUNCTION_LINES:
                yield node.lineno, f"{node.name} has {length} lines; fewer than {FUNCTION_LINES} are allowed"


def breaches(path: Path) -> Iterator[tuple[int, str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:  # a recording or another binary file
        return
    yield from breaches_in_text(text)
    if path.suffix == ".py":
        yield from breaches_in_python(path, text)


def main() -> int:
    found = [f"{path.relative_to(ROOT)}:{line}: {claim}" for path in project_files() for line, claim in breaches(path)]
    print("\n".join(found) if found else "house rules: kept")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
