"""Counts the partitions by state, in slices between which requests are served."""

from typing import Final

from klamm.control.page.cells import (
    MOVING,
    NO_LEADER,
    NOT_PREFERRED,
    RECOVERING,
    UNDER_MIN_ISR,
    UNDER_REPLICATED,
    CellWriter,
)
from klamm.server.server import Server

STATES: Final = {
    "offline": NO_LEADER,
    "under_replicated": UNDER_REPLICATED,
    "under_min_isr": UNDER_MIN_ISR,
    "reassigning": MOVING,
    "not_preferred_leader": NOT_PREFERRED,
    "recovering": RECOVERING,
}
"""The states by name. A partition may be in several of them."""
WITH_PLACEHOLDERS: Final = "with_placeholders"


async def count_states(server: Server) -> dict[str, int]:
    """The partitions in each state."""
    counts = dict.fromkeys((*STATES, WITH_PLACEHOLDERS), 0)
    async for cells in CellWriter(server.observed.settings).slices(server.image):
        for name, bit in STATES.items():
            counts[name] += int((cells["state"] & bit != 0).sum())
        counts[WITH_PLACEHOLDERS] += int((cells["placeholders"] != 0).sum())
    return counts
