"""The iteration order of Java's HashMap. Kafka's striped placement draws random numbers for racks in it, and its
uniform assignor gives partitions to the members of a group in it.

Entries are in the bins of a table, by hash code. They are visited bin by bin, and within a bin in the order of their
insertion. The table starts with 16 bins and doubles when it is more than three quarters full, and also when a bin gets
a ninth entry while there are fewer than 64 bins. Source: the documented policy of java.util.HashMap, checked against
JDK 17. From 64 bins on, such a bin becomes a tree, which is not reproduced here: see `hash_map_order`.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from klamm.assignment.kafka.rack_order import utf16_units

_FIRST_BINS: Final = 16
_BINS_FOR_TREES: Final = 64
_MOST_IN_A_CHAIN: Final = 8
_LONG_TEXT: Final = 100


def hash_map_order(racks: Sequence[str | None]) -> list[int]:
    """Indexes of distinct `racks` in the iteration order of a HashMap<Optional<String>, …> in which they were inserted
    one by one.

    None is the empty Optional. The order is exact unless nine racks share one of 64 or more bins, which only happens
    with names that are constructed for it (1,000 racks with usual numbering are not enough). Java makes such a bin a
    red-black tree and orders names of equal hash codes by their addresses, so its order differs from run to run. Here
    such a bin stays in the order of insertion.
    """
    return hash_order([string_hash_code(rack) if rack is not None else 0 for rack in racks])


def hash_order(hash_codes: Sequence[int], room_for: int = 0, bins: int | None = None) -> list[int]:
    """Indexes of distinct keys, of these hash codes (32 bits without sign), in the iteration order of a HashMap.

    `room_for`: the map was made from a collection of so many keys, so that its table is large enough from the start.
    `bins`: the table has so many bins at first, whatever `room_for` is. Exact under the same condition as
    `hash_map_order`.
    """
    hashes = [_spread(hash_code) for hash_code in hash_codes]
    mask = _final_bins(hashes, _bins_for(room_for) if bins is None else bins) - 1
    # Doubling keeps the order within bins, so only the final number of bins matters.
    return sorted(range(len(hashes)), key=lambda index: hashes[index] & mask)


def bins_for_capacity(capacity: int) -> int:
    """The bins that `new HashMap(capacity)` has at first."""
    return 1 << (max(capacity, 1) - 1).bit_length()


def _bins_for(room_for: int) -> int:
    """`new HashSet(collection)` asks for a third more than the keys and one, and gets the next power of two."""
    asked = max(int(room_for / 0.75) + 1, _FIRST_BINS)
    return 1 << (asked - 1).bit_length()


def _final_bins(hashes: Sequence[int], bins: int) -> int:
    for present, newcomer in enumerate(hashes):
        if bins < _BINS_FOR_TREES and present >= _MOST_IN_A_CHAIN:
            in_its_bin = sum((newcomer ^ other) & (bins - 1) == 0 for other in hashes[:present])
            if in_its_bin >= _MOST_IN_A_CHAIN:
                bins *= 2
        if (present + 1) * 4 > bins * 3:
            bins *= 2
    return bins


def string_hash_code(text: str) -> int:
    """`String.hashCode` as 32 bits without sign, over the UTF-16 units of `text`."""
    return _hash_of_short(text) if len(text) <= _LONG_TEXT else _hash_of_long(text)


@lru_cache(maxsize=8192)
def _hash_of_short(text: str) -> int:
    """The ids of groups and members are hashed again with each request; the cache takes 2 MB at most."""
    units = utf16_units(text)
    hash_code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        hash_code = (31 * hash_code + (high << 8 | low)) & 0xFFFFFFFF
    return hash_code


def _hash_of_long(text: str) -> int:
    """The same for long texts, 32 kB of which would take 4 ms unit by unit. NumPy's numbers wrap around."""
    units = np.frombuffer(utf16_units(text), ">u2").astype(np.uint32)
    factors = np.full(len(units), 31, np.uint32)
    factors[-1] = 1
    powers = np.multiply.accumulate(factors[::-1], dtype=np.uint32)[::-1]
    return int((units * powers).sum(dtype=np.uint32))


def _spread(hash_code: int) -> int:
    # The low bits select the bin, so the high bits are mixed into them.
    return hash_code ^ hash_code >> 16
