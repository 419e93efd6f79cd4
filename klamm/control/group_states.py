"""Kafka's names of the states of groups, of all kinds. The standard library alone."""

from typing import Final

from klamm.console.shown import shown
from klamm.protocol.near_names import did_you_mean

GROUP_STATES: Final = (
    "Assigning", "CompletingRebalance", "Dead", "Empty", "NotReady", "PreparingRebalance", "Reconciling", "Stable",
)  # fmt: skip
"""The states of classic, consumer, share and streams groups together."""


def check_group_state(state: object) -> None:
    """Refuse what is no state of a group. Upper and lower case are the same. Raises ValueError with a clause."""
    if not isinstance(state, str) or state.lower() not in map(str.lower, GROUP_STATES):
        known = ", ".join(GROUP_STATES)
        raise ValueError(f"state {shown(state)}: one of {known} is expected{did_you_mean(str(state), GROUP_STATES)}")
