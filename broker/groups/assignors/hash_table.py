"""A Java HashMap's keys while entries come and go: which key the simple assignor visits first depends on it.

The bins are those of `klamm.assignment.kafka.java_hash_map`, which has the order of a map that is only filled. Here
keys are removed too. Bins with nine keys in a table of 64 bins or more become trees in Java, which is not reproduced.
"""

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)

DEFAULT_BINS: Final = 16
_BINS_FOR_TREES: Final = 64
_MOST_IN_A_CHAIN: Final = 8


def bins_for(keys: int) -> int:
    """The bins of a table that an assignor makes for so many keys (`AssignorHelpers.newHashMap`)."""
    return 1 << (int((keys + 1) / 0.75) + 1 - 1).bit_length()


class HashTable(Generic[KeyT]):
    """Keys in the iteration order of a HashMap or a HashSet."""

    __slots__ = ("_bins", "_hash_code", "_hashes", "_places", "_serial")

    def __init__(self, hash_code: Callable[[KeyT], int], bins: int = DEFAULT_BINS) -> None:
        """`hash_code` gives 32 bits without sign."""
        self._hash_code = hash_code
        self._bins = bins
        self._hashes: dict[KeyT, int] = {}
        self._places: dict[KeyT, int] = {}
        """The order of the keys of one bin."""
        self._serial = 0

    def __len__(self) -> int:
        return len(self._hashes)

    def __contains__(self, key: KeyT) -> bool:
        return key in self._hashes

    def add(self, key: KeyT, *, at_head: bool = False) -> None:
        """Add a key behind the others of its bin, as `put` does, or before them, as `computeIfAbsent` does."""
        if key in self._hashes:
            return
        code = self._hash_code(key)
        spread = code ^ code >> 16
        if self._bins < _BINS_FOR_TREES and len(self._hashes) >= _MOST_IN_A_CHAIN:
            in_its_bin = sum((spread ^ other) & (self._bins - 1) == 0 for other in self._hashes.values())
            if in_its_bin >= _MOST_IN_A_CHAIN:
                self._bins *= 2
        if at_head:
            self._grow()
        self._hashes[key] = spread
        self._serial += 1
        self._places[key] = -self._serial if at_head else self._serial
        if not at_head:
            self._grow()

    def _grow(self) -> None:
        """`put` does so after it has added the key, `computeIfAbsent` before."""
        if len(self._hashes) * 4 > self._bins * 3:
            self._bins *= 2

    def remove(self, key: KeyT) -> None:
        """Remove a key. The table does not become smaller."""
        del self._hashes[key], self._places[key]

    def in_order(self) -> list[KeyT]:
        """The keys as Java visits them."""
        mask = self._bins - 1
        return sorted(self._hashes, key=lambda key: (self._hashes[key] & mask, self._places[key]))
