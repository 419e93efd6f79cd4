"""The iteration order of Java's HashMap, in which Kafka's striped placement draws random numbers for racks.

Entries are in the bins of a table, by hash code. They are visited bin by bin, and within a bin in the order of their
insertion. The table starts with 16 bins and doubles when it is more than three quarters full, and also when a bin gets
a ninth entry while there are fewer than 64 bins. Source: the documented policy of java.util.HashMap, checked against
JDK 17. From 64 bins on, such a bin becomes a tree, which is not reproduced here: see `hash_map_order`.
"""

from collections.abc import Sequence
from typing import Final

from klamm.assignment.kafka.rack_order import utf16_units

_FIRST_BINS: Final = 16
_BINS_FOR_TREES: Final = 64
_MOST_IN_A_CHAIN: Final = 8


def hash_map_order(racks: Sequence[str | None]) -> list[int]:
    """Indexes of distinct `racks` in the iteration order of a HashMap<Optional<String>, …> in which they were inserted
    one by one.

    None is the empty Optional. The order is exact unless nine racks share one of 64 or more bins, which only happens
    with names that are constructed for it (1,000 racks with usual numbering are not enough). Java makes such a bin a
    red-black tree and orders names of equal hash codes by their addresses, so its order differs from run to run. Here
    such a bin stays in the order of insertion.
    """
    hashes = [_spread(_hash_code(rack)) for rack in racks]
    mask = _final_bins(hashes) - 1
    # Doubling keeps the order within bins, so only the final number of bins matters.
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
    """`Optional.hashCode` as an unsigned 32-bit number: the hash code of the string's UTF-16 units, or 0 for None."""
    if rack is None:
        return 0
    units = utf16_units(rack)
    hash_code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        hash_code = (31 * hash_code + (high << 8 | low)) & 0xFFFFFFFF
    return hash_code


def _spread(hash_code: int) -> int:
    # The low bits select the bin, so the high bits are mixed into them.
    return hash_code ^ hash_code >> 16
