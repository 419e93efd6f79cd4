"""The order of strings in a Java HashMap: Kafka writes records, and chooses the error to report, in that order.

A string is placed by the bucket of its hash code; strings of one bucket keep the order of insertion.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

_FIRST_BUCKETS: Final = 16
_LONG_BYTES: Final = 200
# For more names than one request may change the order does not matter, and finding it takes a while.
MAX_ORDERED_NAMES: Final = 10_000


def in_hash_order(names: Iterable[str], room: int = _FIRST_BUCKETS) -> list[str]:
    """The names, each once, in the order of a HashMap with the initial capacity `room` into which they were put one by
    one; too many names keep their order."""
    distinct = list(dict.fromkeys(names))
    if not 1 < len(distinct) <= MAX_ORDERED_NAMES:
        return distinct
    buckets = 1 << (room - 1).bit_length()
    while len(distinct) * 4 > buckets * 3:
        buckets *= 2
    return sorted(distinct, key=lambda name: _bucket(name, buckets))


def java_hash(text: str) -> int:
    """The hash code of a Java string: a signed number of 32 bits."""
    code = _unsigned_hash(text)
    return code - (1 << 32) if code >= 1 << 31 else code


def _unsigned_hash(text: str) -> int:
    utf16 = text.encode("utf-16-be", "surrogatepass")
    if len(utf16) > _LONG_BYTES:
        return _hash_of_long(utf16)
    code = 0
    for high, low in zip(utf16[::2], utf16[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code


def _hash_of_long(utf16: bytes) -> int:
    """The same for long texts, 32 kB of which would take 4 ms character by character. NumPy's numbers wrap around."""
    units = np.frombuffer(utf16, ">u2").astype(np.uint32)
    factors = np.full(len(units), 31, np.uint32)
    factors[-1] = 1
    powers = np.multiply.accumulate(factors[::-1], dtype=np.uint32)[::-1]
    return int((units * powers).sum(dtype=np.uint32))


def _bucket(name: str, buckets: int) -> int:
    code = _unsigned_hash(name)
    return (code ^ code >> 16) & (buckets - 1)
