"""What a measurement gives: one row of the table, with its ratio to a peer and the mark that it is held against.

Plain values that go to JSON and come back; what is printed is made of them in `tables`. Nothing is measured here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.placement_rows import PlacementRow

PERCENT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Klamm beside one peer, or alone where only a mark counts."""

    group: str
    what: str
    unit: str
    klamm: float
    peer: str | None = None
    theirs: float | None = None
    higher_is_better: bool = False
    samples: int = 1
    """The number of samples of Klamm; of the peer the same, unless `peer_samples` has another number."""
    peer_samples: int | None = None
    mark: str | None = None
    """The mark in words; None without one."""
    reached: bool | None = None
    details: Mapping[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Klamm divided by the peer."""
        return self.klamm / self.theirs if self.theirs else None

    @property
    def ahead(self) -> bool | None:
        """Whether Klamm is at least as good as the peer; None without a peer."""
        if self.ratio is None:
            return None
        return self.ratio >= 1 if self.higher_is_better else self.ratio <= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run. Parts that were not measured in it are empty."""

    date: str
    machine: Mapping[str, str]
    versions: Mapping[str, str]
    rows: Sequence[Row]
    placements: Sequence[PlacementRow] = ()

    def to_json(self) -> dict[str, Any]:
        rows = [{**asdict(row), "ratio": row.ratio, "ahead": row.ahead} for row in self.rows]
        placements = [{**asdict(row), "reached": row.reached, "ahead": row.ahead} for row in self.placements]
        surroundings = {"date": self.date, "machine": self.machine, "versions": self.versions}
        return {"v": 1, **surroundings, "rows": rows, "placements": placements}

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> "Report":
        rows = [Row(**_without(row, "ratio", "ahead")) for row in members["rows"]]
        placements = [
            PlacementRow.from_json(_without(row, "reached", "ahead")) for row in members.get("placements", ())
        ]
        surroundings = {name: members[name] for name in ("date", "machine", "versions")}
        return cls(**surroundings, rows=rows, placements=placements)


def _without(members: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in members.items() if name not in names}


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-len(ordered) * percent // PERCENT) - 1)]


def median(values: Sequence[float]) -> float:
    return percentile(values, 50)
