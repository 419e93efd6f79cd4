#!/usr/bin/env python3
"""Writes docs/reference/command-line.md and docs/reference/python.md from the code: the help texts and the docstrings.

python tools/reference_pages.py           writes the pages
python tools/reference_pages.py --check   exits 1 if a page differs from what would be written
"""

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import klamm  # noqa: E402 - found once the path is set

FOLDER = ROOT / "docs" / "reference"
WRITTEN = "`tools/reference_pages.py` writes this page. `scripts/lint` checks it."
COMMANDS = (
    "",
    "serve",
    "control",
    "control create-topic",
    "control records",
    "control requests",
    "control wait",
    "control wait isr",
    "control wait group",
    "control clock",
    "control clock advance",
    "scenario",
    "scenario run",
    "control fault",
    "control fault add",
    "control fault wait",
    "broker-properties",
    "assign",
    "reassign-partitions",
    "follow",
    "clone",
    "try",
    "wire",
    "wire decode",
    "wire encode",
    "wire dump",
    "pipeline",
    "pipeline ingest",
    "pipeline report",
    "pipeline verify",
    "pipeline whatif",
    "completion",
)


def help_text(command: str) -> str:
    """What the command prints for --help in 80 columns, without colours."""
    ended = subprocess.run(
        (sys.executable, "-m", "klamm", *command.split(), "--help"),
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout.rstrip()


def command_page() -> str:
    parts = ["# Command line", WRITTEN]
    for command in COMMANDS:
        parts += [f"## `{f'klamm {command}'.rstrip()}`", f"```text\n{help_text(command)}\n```"]
    return "\n\n".join(parts) + "\n"


def _signature(thing: object) -> str:
    """Parameters with their defaults; a default without a repr of its own would show an address in memory."""
    if not callable(thing):
        return ""
    try:
        return re.sub(r"<(\S+) [^>]*? at 0x[0-9a-f]+>", r"<\1>", str(inspect.signature(thing)))
    except ValueError:
        return ""


def _block(name: str, thing: object) -> str:
    text = inspect.getdoc(thing) or ""
    name = f"await {name}" if inspect.iscoroutinefunction(thing) else name
    return f"```text\n{name}{_signature(thing)}\n\n{text}".rstrip() + "\n```"


def _members(owner: type) -> Iterator[str]:
    """Public methods and properties with a docstring, in the order of the source: those of the class itself, then those
    that it inherits from classes of Klamm."""
    seen: set[str] = set()
    for one in owner.__mro__:
        for name, member in vars(one).items() if one.__module__.startswith("klamm.") else ():
            known = name in seen
            seen.add(name)
            if known or name.startswith("_") or not inspect.getdoc(member):
                continue
            if callable(member) or isinstance(member, property):
                yield _block(f"{owner.__name__}.{name}", member)


def python_page() -> str:
    parts = ["# Python API", WRITTEN, "These are the public names of the package `klamm`."]
    for name in sorted(klamm.__all__):
        thing = getattr(klamm, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            parts += [f"## `klamm.{name}`", _block(name, thing)]
        if inspect.isclass(thing):
            parts += _members(thing)
    return "\n\n".join(parts) + "\n"


def main() -> int:
    pages = {FOLDER / "command-line.md": command_page(), FOLDER / "python.md": python_page()}
    if sys.argv[1:] == ["--check"]:
        old = [page.name for page, text in pages.items() if not page.exists() or page.read_text() != text]
        for name in old:
            print(f"docs/reference/{name} is not what tools/reference_pages.py writes")
        return bool(old)
    FOLDER.mkdir(exist_ok=True)
    for page, text in pages.items():
        page.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
