"""The order of strings in a Java HashMap: Kafka writes records, and chooses the error to report, in that order."""

from collections.abc import Iterable
from typing import Final

from klamm.assignment.kafka.java_hash_map import bins_for_capacity, hash_order, string_hash_code

_FIRST_BINS: Final = 16
# For more names than one request may change the order does not matter, and finding it takes a while.
MAX_ORDERED_NAMES: Final = 10_000


def in_hash_order(names: Iterable[str], room: int = _FIRST_BINS) -> list[str]:
    """The names, each once, in the order of a HashMap with the initial capacity `room` into which they were put one by
    one; too many names keep their order."""
    distinct = list(dict.fromkeys(names))
    if not 1 < len(distinct) <= MAX_ORDERED_NAMES:
        return distinct
    codes = [string_hash_code(name) for name in distinct]
    return [distinct[at] for at in hash_order(codes, bins=bins_for_capacity(room))]


def java_hash(text: str) -> int:
    """The hash code of a Java string: a signed number of 32 bits."""
    code = string_hash_code(text)
    return code - (1 << 32) if code >= 1 << 31 else code
