"""The brokers that a placement may use, as parallel arrays, and the cluster's replica and partition counts (KIP-578).

A placement depends on the view, the request and the random numbers only. Brokers keep the order in which they are
given, which matters if racks are unknown (KIP-36). A view is checked when it is made, and never changes.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from klamm.assignment.wording import counted, first_few
from klamm.quick_dataclasses import dataclass

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

NO_LIMIT: Final = 2**63 - 1
"""The value of a limit that is not set: Java's largest long, KIP-578's default."""
MAX_BROKERS: Final = 100_000
"""The most brokers in one view. A larger view is refused before memory is allocated."""

_INT32_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class ClusterView:
    """The brokers as parallel arrays of length n, and two facts about the whole cluster.

    Arrays are copied and made read-only. Raises ValueError if a field is not as described here.
    """

    broker_ids: Int32Array
    """int32[n], distinct and not negative."""
    racks: tuple[str | None, ...]
    """The rack of each broker, or None if it has none. An empty string is a rack like any other."""
    fenced: BoolArray = ()  # type: ignore[assignment]  # empty: n times False
    """bool[n]: brokers that are registered but not live. Only striped placement uses them, and uses them last."""
    replica_counts: Int64Array = ()  # type: ignore[assignment]
    """int64[n]: existing replicas that count against the limit; empty: none. They include the placements given to
    `grow`, `shrink`, `fill_placeholders` and `rebalance`."""
    replica_limit: int = NO_LIMIT
    """`max.broker.partitions`: most replicas on a broker, at least 1."""
    partition_count: int = 0
    """Existing partitions that count against `partition_limit`."""
    partition_limit: int = NO_LIMIT
    """`max.partitions`: most partitions in the cluster, at least 1."""

    def __post_init__(self) -> None:
        size = len(self.broker_ids)
        if size > MAX_BROKERS:
            raise ValueError(f"{size} brokers, more than {MAX_BROKERS}")
        if len(self.racks) != size:
            raise ValueError(f"{counted(size, 'broker')} but {counted(len(self.racks), 'rack')}")
        set_field = object.__setattr__
        set_field(self, "broker_ids", _broker_ids(self.broker_ids))
        racks: tuple[Any, ...] = tuple(self.racks)
        strange = [rack for rack in racks if not (rack is None or isinstance(rack, str))]
        if strange:
            raise ValueError(f"a rack is a string or None, not {strange[0]!r}")
        set_field(self, "racks", racks)
        set_field(self, "fenced", _fenced(self.fenced, size))
        set_field(self, "replica_counts", _replica_counts(self.replica_counts, size))
        for name in ("replica_limit", "partition_limit"):
            _check_between(name.replace("_", " "), getattr(self, name), 1)
        _check_between("partition count", self.partition_count, 0)

    def __len__(self) -> int:
        return len(self.racks)

    @property
    def live(self) -> BoolArray:
        """bool[n]: the brokers that are not fenced."""
        return ~self.fenced

    @property
    def room(self) -> Int64Array:
        """int64[n]: how many replicas each broker can take by its limit alone, live or not; never below 0."""
        room: Int64Array = np.maximum(self.replica_limit - self.replica_counts, 0)
        return room

    @property
    def headroom(self) -> Int64Array:
        """int64[n]: how many replicas each broker can still take: its room, and 0 where it is fenced."""
        return np.where(self.fenced, 0, self.room)

    def live_only(self) -> "ClusterView":
        """The view without its fenced brokers: the same object if no broker is fenced."""
        if not self.fenced.any():
            return self
        return self.only(self.live)

    def only(self, chosen: BoolArray) -> "ClusterView":
        """The view with only the chosen brokers, bool[n]. The counts and limits of the cluster stay the same."""
        return ClusterView(
            broker_ids=self.broker_ids[chosen],
            racks=tuple(rack for rack, wanted in zip(self.racks, chosen.tolist(), strict=True) if wanted),
            fenced=self.fenced[chosen],
            replica_counts=self.replica_counts[chosen],
            replica_limit=self.replica_limit,
            partition_count=self.partition_count,
            partition_limit=self.partition_limit,
        )

    def index_of(self, broker_ids: npt.ArrayLike) -> Int64Array:
        """Indexes of broker ids, of any shape; -1 for an id that is not in the view, placeholders included."""
        wanted = np.asarray(broker_ids)
        if not len(self):
            return np.full(wanted.shape, -1, dtype=np.int64)
        highest = int(self.broker_ids.max())
        if highest <= wanted.size + len(self):
            # The last entry of the table is for all ids that no broker has.
            table = np.full(highest + 2, -1, dtype=np.int64)
            table[self.broker_ids] = np.arange(len(self))
            return table[np.where((wanted < 0) | (wanted > highest), highest + 1, wanted)]
        ascending = np.argsort(self.broker_ids)
        at = np.searchsorted(self.broker_ids, wanted, sorter=ascending)
        found = ascending[np.minimum(at, len(self) - 1)]
        return np.where(self.broker_ids[found] == wanted, found, -1)


def _broker_ids(given: Any) -> Int32Array:
    ids = np.asarray(given)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise ValueError(f"broker ids are a list of integers, not {ids.dtype} of {ids.ndim} dimensions")
    outside = ids[(ids < 0) | (ids > _INT32_MAX)]
    if outside.size:
        raise ValueError(f"{counted(outside.size, 'broker id')} outside 0..{_INT32_MAX}: {first_few(outside)}")
    listed = ids.tolist()
    if len(set(listed)) != len(listed):
        values, times = np.unique(ids, return_counts=True)
        again = values[times > 1]
        raise ValueError(f"{counted(again.size, 'broker id')} given more than once: {first_few(again)}")
    return _owned(ids, np.int32)


def _fenced(given: Any, size: int) -> BoolArray:
    fenced = np.asarray(given if len(given) else np.zeros(size, dtype=np.bool_))
    if fenced.shape != (size,) or fenced.dtype != np.bool_:
        raise ValueError(f"fenced is {counted(size, 'boolean')}, not {fenced.dtype} of shape {fenced.shape}")
    return _owned(fenced, np.bool_)


def _replica_counts(given: Any, size: int) -> Int64Array:
    counts = np.asarray(given if len(given) else np.zeros(size, dtype=np.int64))
    if counts.shape != (size,) or counts.dtype.kind not in "iu":
        raise ValueError(f"replica counts are {counted(size, 'integer')}, not {counts.dtype} of shape {counts.shape}")
    outside = counts[(counts < 0) | (counts > NO_LIMIT)]
    if outside.size:
        raise ValueError(f"{counted(outside.size, 'replica count')} outside 0..{NO_LIMIT}: {first_few(outside)}")
    return _owned(counts, np.int64)


def _owned(array: npt.NDArray[Any], dtype: Any) -> npt.NDArray[Any]:
    owned = array.astype(dtype)
    owned.flags.writeable = False
    return owned


def _check_between(name: str, value: int, least: int) -> None:
    if type(value) is not int or not least <= value <= NO_LIMIT:
        raise ValueError(f"the {name} is {least} to {NO_LIMIT}, not {value!r}")
