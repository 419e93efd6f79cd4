"""How many bytes the answer to one request may take, for requests whose answer may be much larger than they are.

A handler counts an item's bytes before it makes the item's messages, or before the messages are encoded. What has no
room is refused with INVALID_REQUEST where the response has an error for each item, or else the request is refused as a
whole (docs/bounds.md has a line for each API).
"""

from collections.abc import Hashable
from typing import Final

from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.fields import Message, wire_fields
from klamm.protocol.uuid import Uuid

MAX_BYTES: Final = 64 * 1024 * 1024
"""The items of one answer take at most this much."""
MAX_REPEATED_BYTES: Final = 1024 * 1024
"""The items that a request names again take at most this much: otherwise, a few bytes of a request could ask for
everything that the cluster knows of a group or a partition, thousands of times."""
NO_ROOM: Final = ApiError(ErrorCode.INVALID_REQUEST, "The answer would be too large; ask for fewer items at a time.")
_BYTES_OF_NUMBER: Final = 8
_BYTES_OF_UUID: Final = 16
_BYTES_OF_LENGTH: Final = 5
_BYTES_OF_CHARACTER: Final = 4


class AnswerRoom:
    """What is left of the room of one answer."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._left = max_bytes
        self._left_for_repeats = MAX_REPEATED_BYTES
        self._named: set[Hashable] = set()

    def take(self, item: Hashable, size: int) -> bool:
        """Whether there is room for so many bytes about `item`. If there is, they are taken."""
        is_repeated = item in self._named
        if size > self._left or (is_repeated and size > self._left_for_repeats):
            return False
        self._named.add(item)
        self._left -= size
        if is_repeated:
            self._left_for_repeats -= size
        return True


def encoded_at_most(value: object) -> int:
    """An upper bound of the bytes of a message, or of the value of one of its fields, when it is encoded."""
    if isinstance(value, Message):
        return 1 + sum(encoded_at_most(getattr(value, wire.name)) for wire in wire_fields(type(value)))
    if isinstance(value, str):
        return _BYTES_OF_LENGTH + len(value) * (1 if value.isascii() else _BYTES_OF_CHARACTER)
    if isinstance(value, (bytes, bytearray)):
        return _BYTES_OF_LENGTH + len(value)
    if isinstance(value, (list, tuple)):
        if value and isinstance(value[0], int):
            return _BYTES_OF_LENGTH + len(value) * _BYTES_OF_NUMBER
        return _BYTES_OF_LENGTH + sum(map(encoded_at_most, value))
    return _BYTES_OF_UUID if isinstance(value, Uuid) else _BYTES_OF_NUMBER
