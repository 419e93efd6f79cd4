"""The table of docs/known-differences.md: where we answer otherwise than Apache Kafka did, and why.

One row is one difference: scenario, step, path in the answer, both values as `comparison.shown` prints them. The
values may be empty for what is compared nowhere. Reads and prints rows; what they mean is the player's affair.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.behaviour.comparison import Difference

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "known-differences.md"
HEADER = ("Scenario", "Step", "Path", "Recorded", "Ours", "Why")


@dataclass(frozen=True, slots=True, order=True)
class KnownDifference:
    """One row, without the reason, which is for people."""

    scenario: str
    step: str
    path: str
    recorded: str
    ours: str

    @classmethod
    def of(cls, scenario: str, step: str, difference: Difference) -> "KnownDifference":
        return cls(scenario, step, difference.path, difference.recorded, difference.ours)

    def __str__(self) -> str:
        cells = (self.scenario, self.step, self.path, self.recorded, self.ours)
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " | (why) |"


@cache
def known_differences() -> tuple[KnownDifference, ...]:
    """The rows of the table, in its order."""
    return tuple(KnownDifference(*cells[:5]) for cells in _rows(DOCUMENT.read_text(encoding="utf-8").splitlines()))


def rows_without_reason() -> list[str]:
    """Rows whose last cell is empty."""
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    return [" | ".join(cells) for cells in _rows(lines) if not cells[5]]


def _rows(lines: Iterable[str]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    inside = False
    for line in lines:
        cells = tuple(cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1])
        if cells == HEADER:
            inside = True
        elif not cells:
            inside = False
        elif inside and set("".join(cells)) != {"-"}:
            if len(cells) != len(HEADER):
                raise ValueError(f"a row of {len(cells)} cells: {line}")
            rows.append(cells)
    return rows
