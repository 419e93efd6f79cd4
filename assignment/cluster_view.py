"""The brokers that a placement may use, as parallel arrays. What is not here cannot influence a placement.

The order of the brokers is the order given, and it matters where racks are unknown (KIP-36). Fenced or full
brokers are left out by whoever builds the view; a view is checked once, when it is made.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Int32Array = npt.NDArray[np.int32]

_SHOWN_IDS: Final = 5  # enough to find the culprit, short enough for a log line


@dataclass(frozen=True, slots=True, eq=False)
class ClusterView:
    """`broker_ids` int32[n], distinct and not negative, and `racks[n]`, None where a broker told none.

    The array is copied and made read-only. An empty string is a rack like any other.
    Raises ValueError, with the numbers, for anything else.
    """

    broker_ids: Int32Array
    racks: tuple[str | None, ...]

    def __post_init__(self) -> None:
        ids = np.asarray(self.broker_ids)
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
            raise ValueError(f"broker ids are a list of integers, not {ids.dtype} of {ids.ndim} dimensions")
        if len(self.racks) != len(ids):
            raise ValueError(f"{len(ids)} brokers but {len(self.racks)} racks")
        outside = ids[(ids < 0) | (ids > np.iinfo(np.int32).max)]
        if outside.size:
            raise ValueError(f"{outside.size} broker ids outside 0..2147483647: {_first_few(outside)}")
        in_order = np.sort(ids)
        again = in_order[1:][in_order[1:] == in_order[:-1]]
        if again.size:
            repeated = np.unique(again)
            raise ValueError(f"{repeated.size} broker ids given more than once: {_first_few(repeated)}")
        owned = ids.astype(np.int32)
        owned.flags.writeable = False
        object.__setattr__(self, "broker_ids", owned)
        object.__setattr__(self, "racks", tuple(self.racks))

    def __len__(self) -> int:
        return len(self.racks)


def _first_few(ids: npt.NDArray[np.integer]) -> str:
    return ", ".join(str(broker_id) for broker_id in ids[:_SHOWN_IDS]) + ("…" if ids.size > _SHOWN_IDS else "")
