"""The order in which Java's HashMap visits racks: Kafka's striped placement draws its random numbers in it.

Entries lie in the bins of a table, by hash, and are visited bin by bin; within a bin in the order in which they came.
The table starts with 16 bins and doubles when it is more than three quarters full, and also when a bin gets a ninth
entry while there are fewer than 64 bins. Source: the documented policy of java.util.HashMap, tried against JDK 17.
From 64 bins on such a bin becomes a tree, which is not rebuilt here: see `hash_map_order`.
"""

from collections.abc import Sequence
from typing import Final

from klamm.assignment.kafka.rack_order import utf16_units

_FIRST_BINS: Final = 16
_BINS_FOR_TREES: Final = 64
_MOST_IN_A_CHAIN: Final = 8


def hash_map_order(racks: Sequence[str | None]) -> list[int]:
    """Indexes of distinct `racks` in the order in which a HashMap<Optional<String>, …> that got them in turn has them.

    None is the empty Optional. Exact as long as no nine of them share a bin of 64 or more bins, which takes names
    made for it (1,000 racks numbered in any of the usual ways do not get there). Such a bin stays in the order of
    arrival here, whereas Java makes it a red-black tree: its root is visited first, each newcomer right behind the
    node that it hangs on, and names of equal hash codes are told apart by their addresses, so that Java itself has
    another order each time.
    """
    hashes = [_spread(_hash_code(rack)) for rack in racks]
    mask = _final_bins(hashes) - 1
    # A table that doubles keeps the order within its bins: only the last one counts.
    return sorted(range(len(hashes)), key=lambda index: hashes[index] & mask)


def _final_bins(hashes: Sequence[int]) -> int:
    bins = _FIRST_BINS
    for present, newcomer in enumerate(hashes):
        if bins < _BINS_FOR_TREES and present >= _MOST_IN_A_CHAIN:
            in_its_bin = sum((newcomer ^ other) & (bins - 1) == 0 for other in hashes[:present])
            if in_its_bin >= _MOST_IN_A_CHAIN:
                bins *= 2
        if (present + 1) * 4 > bins * 3:
            bins *= 2
    return bins


def _hash_code(rack: str | None) -> int:
    """`Optional.hashCode` as 32 bits without sign: the string's, over its UTF-16 units; 0 without a string."""
    if rack is None:
        return 0
    units = utf16_units(rack)
    hash_code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        hash_code = (31 * hash_code + (high << 8 | low)) & 0xFFFFFFFF
    return hash_code


def _spread(hash_code: int) -> int:
    # Bins go by the low bits: the high ones are mixed into them.
    return hash_code ^ hash_code >> 16
