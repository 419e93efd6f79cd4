"""A fault: one module of the project with one plausible slip in it. Hand-written faults are read from TOML files.

A file of hand-written faults has one table for each fault:

    [[fault]]
    name = "fenced brokers count as over their limit"
    file = "assignment/limited/drop.py"
    old = "np.where(view.fenced, 0, over)"
    new = "over"
    equivalent = "why no test can see it"     # only where that is so

`old` occurs exactly once in the file. A fault whose text is not there any more is stale, which is an error.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


class StaleFault(Exception):
    """A hand-written fault that no longer fits the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One change of one file that makes it wrong."""

    name: str
    """What is wrong: for generated faults the old text and the new one."""
    file: str
    """Path from the root of the project."""
    line: int
    """The first changed line, from 1."""
    last_line: int
    """The last changed line."""
    text: str
    """The whole module with the fault."""
    equivalent: str = ""
    """Why no test can see the fault; empty if one can."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.name}"


def loaded_path(file: str) -> str:
    """The path under which Python loads a module: a room of `klamm` is reached through its link there."""
    link = ROOT / "klamm" / Path(file).parts[0]
    return str(ROOT / "klamm" / file if link.is_symlink() else ROOT / file)


def read_faults(path: Path, root: Path = ROOT) -> list[Fault]:
    """The hand-written faults of one TOML file.

    Raises StaleFault if the old text of a fault is not in its file exactly once.
    """
    tables = tomllib.loads(path.read_text(encoding="utf-8"))["fault"]
    return [_read_fault(table, root) for table in tables]


def _read_fault(table: dict[str, str], root: Path) -> Fault:
    file = root / table["file"]
    source = file.read_text(encoding="utf-8") if file.is_file() else ""
    if (found := source.count(table["old"])) != 1:
        raise StaleFault(f"{table['name']}: the old text is {found} times in {table['file']}, not once")
    start = source.index(table["old"])
    return Fault(
        name=table["name"],
        file=table["file"],
        line=source.count("\n", 0, start) + 1,
        last_line=source.count("\n", 0, start + len(table["old"].rstrip())) + 1,
        text=source[:start] + table["new"] + source[start + len(table["old"]) :],
        equivalent=table.get("equivalent", ""),
    )
