"""The order in which the leader of a partition lists the ISR in an AlterPartition request, and so in the metadata log.

The brokers of Apache Kafka 4.3 make the list from a hash table of Scala, whose slot of a broker is the remainder of its
id in small clusters: brokers 1, 2 and 3 are listed in this order, brokers 7, 8 and 9 as 8, 9 and 7. The table of an ISR
that grows is as large as the ISR needs; the table of an ISR that shrinks begins with 16 slots. If a controller removes
a broker from an ISR, the others keep their order.
"""

from collections.abc import Collection
from typing import Final

import numpy as np

from klamm.controller.metadata.columns import Ints

_SMALLEST_GROWN: Final = 8
_SMALLEST_SHRUNK: Final = 16
_FULL: Final = 0.75
"""The load at which the table grows."""
_HASH_BITS: Final = 32


def listed_isr(isr: Collection[int], before: Collection[int]) -> tuple[int, ...]:
    """The ISR as a leader lists it that had the ISR `before`. An ISR with the same members keeps its order."""
    if set(isr) == set(before):
        return tuple(before)
    has_new = not set(isr) <= set(before)
    slots = _slots_grown(len(isr)) if has_new else _slots_shrunk(len(isr))
    return tuple(sorted(isr, key=lambda replica: (_spread(replica) % slots, _spread(replica))))


def listed_grown_isrs(isrs: Ints) -> Ints:
    """ISRs of one length without padding, each with a new member, as their leaders list them."""
    mixed = isrs.astype(np.int64)
    mixed ^= mixed >> 16
    mixed |= (mixed % _slots_grown(isrs.shape[1])) << _HASH_BITS
    mixed.sort(axis=1)
    mixed &= (1 << _HASH_BITS) - 1
    mixed ^= mixed >> 16
    return mixed.astype(np.int32)


def _spread(replica: int) -> int:
    return replica ^ replica >> 16


def _slots_grown(members: int) -> int:
    """The smallest power of two from which on the table has room for one more than `members`."""
    room, slots = int((members + 1) / _FULL), _SMALLEST_GROWN
    while slots < room:
        slots *= 2
    return slots


def _slots_shrunk(members: int) -> int:
    slots = _SMALLEST_SHRUNK
    while members >= slots * _FULL:
        slots *= 2
    return slots
