"""How often a rule has matched and hit, and whether it counts now. The state of one rule.

The order is: the first `skip` matches do nothing; of the others every `every`th remains; of these each is a hit with
the rule's `probability`, until there are `times` hits or `for_ms` are over. Random numbers are the rule's own, so that
a rule changes neither the answers of the controller nor the hits of other rules.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from klamm.quick_dataclasses import dataclass
from klamm.server.faults.rule import Delay, FaultRule

MAX_HITS: Final = 100
"""The newest hits of a rule that are kept with their requests. All are counted."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A request that a rule has touched."""

    time_ms: int
    api: str
    api_version: int
    correlation_id: int
    client_id: str | None
    broker_id: int | None
    items: tuple[str, ...]
    """The items that the rule took, such as "orders-0"; empty: the request itself."""


class RuleState:
    """A rule of a running server, with its counts."""

    def __init__(self, rule: FaultRule, rule_id: str, number: int, added_ms: int, rng: np.random.Generator) -> None:
        self.rule = rule
        self.rule_id = rule_id
        self.number = number
        """Rules are applied in this order."""
        self.ends_ms = None if rule.for_ms is None else added_ms + rule.for_ms
        self.matches = 0
        self.hits = 0
        self.requests: deque[Hit] = deque(maxlen=MAX_HITS)
        self.is_removed = False
        self.at_removal: set[Callable[[], None]] = set()
        """Called when the rule is removed: by connections that it keeps silent."""
        self.stale: Any = None
        """The metadata at the time when the rule was added, if it answers from there."""
        self._rng = rng

    def is_over(self, now_ms: int) -> bool:
        """Whether the rule will never hit again."""
        return self.hits == self.rule.times or (self.ends_ms is not None and now_ms >= self.ends_ms)

    def count(self, now_ms: int) -> bool:
        """Count a match. Returns whether it is a hit."""
        if self.is_over(now_ms):
            return False
        rule = self.rule
        self.matches += 1
        place = self.matches - rule.skip
        if place < 1 or (place - 1) % rule.every:
            return False
        if rule.probability < 1 and self._rng.random() >= rule.probability:
            return False
        self.hits += 1
        return True

    def delay_ms(self, longest_ms: float) -> float:
        """The delay of the next hit."""
        return min(max(0.0, _drawn(self.rule.delay, self._rng)), longest_ms) if self.rule.delay else 0.0


def _drawn(delay: Delay, rng: np.random.Generator) -> float:
    if delay.mean_ms is not None:
        if delay.deviation_ms is None:
            return float(rng.exponential(delay.mean_ms))
        return float(rng.normal(delay.mean_ms, delay.deviation_ms))
    if delay.highest_ms is not None:
        return float(rng.uniform(delay.lowest_ms, delay.highest_ms))
    return delay.lowest_ms
