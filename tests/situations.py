"""Whether generated cases meet what a rule is about: a property whose cases never do holds for any code.

A test beside the property counts, for each named situation, in how many of the cases that its strategy generates the
situation occurs. So a strategy that is changed and loses a situation fails by the name of that situation.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

T = TypeVar("T")

CASES: Final = 100
"""Cases that are generated and counted: twice as many as a property tries in the quick profile."""
LEAST: Final = 8
"""A situation that so many of them meet is met by hardly any fifty of them in vain."""


def cases_of(strategy: st.SearchStrategy[T], count: int = CASES) -> list[T]:
    """So many cases of the strategy, the same ones each time."""
    found: list[T] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(case: T) -> None:
        found.append(case)

    collect()
    return found


def rare_situations(
    strategy: st.SearchStrategy[T],
    situations: Mapping[str, Callable[[T], bool]],
    *,
    count: int = CASES,
    least: int = LEAST,
) -> dict[str, int]:
    """The situations that fewer than `least` of `count` generated cases meet, and how many do."""
    cases = cases_of(strategy, count)
    met = {name: sum(map(occurs, cases)) for name, occurs in situations.items()}
    return {name: times for name, times in met.items() if times < least}
