"""What a measurement of placement gives: a time, and beside it how good the placement is that took so long.

Plain values that go to JSON and come back. Nothing is measured here; how evenness is counted stands in `spread`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How uneven a placement is: largest minus smallest number; 0 is perfectly even."""

    replicas_per_broker: int
    leaders_per_broker: int
    replicas_per_rack: int | None = None
    """None without racks, as the following ones."""
    leaders_per_rack: int | None = None
    racks_missed: int | None = None
    """Replicas in a rack that their row already has, although another rack was possible."""

    @property
    def racked(self) -> bool:
        return self.replicas_per_rack is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRow:
    """One placer at one task."""

    task: str
    placer: str
    seconds: float
    """The median of all samples."""
    fastest: float
    samples: int
    ratio: float | None = None
    """Klamm's median divided by this one; None for Klamm itself."""
    spread: Spread | None = None
    moves: int | None = None
    """Replicas on brokers on which their row had none before."""
    fewest_moves: int | None = None
    """The least number for any plan with the same evenness, if it is known."""
    beyond_limits: int | None = None
    """Replicas above the brokers' limits; None without limits."""
    mark_seconds: float | None = None
    """The mark; None where there is none."""
    less_even_than: Sequence[str] | None = None
    """Kafka's placers with a smaller spread at the same task, and in what; None if none can be compared."""
    same_as: str | None = None
    """The peer with the same placement, id for id."""

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> "PlacementRow":
        """What `dataclasses.asdict` made of a row."""
        return cls(**{**members, "spread": Spread(**members["spread"]) if members["spread"] else None})

    @property
    def ahead(self) -> bool | None:
        """Whether Klamm is at least as fast; None for Klamm itself."""
        return None if self.ratio is None else self.ratio <= 1

    @property
    def reached(self) -> bool | None:
        """Whether the median meets the mark."""
        return None if self.mark_seconds is None else self.seconds <= self.mark_seconds
