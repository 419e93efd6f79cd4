"""Gives up large messages in pieces, in a thread.

Python frees a message with all that it holds in one step, during which no other thread runs: 50 ms for a request of
1 MB, 0.3 s for one of 200,000 entries with its response. So the elements of its long arrays are listed first, and then
given up one after the other.
"""

from typing import Final

from klamm.protocol.fields import Message, wire_fields

FEW: Final = 100
"""The elements of an array of at most this many are looked through for longer arrays."""


def release(roots: list[object]) -> None:
    """Empty `roots`, which are messages and arrays, and free what only they refer to. May be called in a thread; what
    others refer to stays as it is."""
    parts: list[object] = []
    while roots:
        _add_parts(roots[-1], parts)
        roots.pop()
    parts.reverse()  # an array is given up before its elements, which are still in the list then
    while parts:
        parts.pop()


def _add_parts(value: object, parts: list[object]) -> None:
    if isinstance(value, Message):
        for wire in wire_fields(type(value)):
            _add_parts(getattr(value, wire.name), parts)
    elif isinstance(value, (tuple, list)):
        parts += value
        if len(value) <= FEW:
            for element in value:
                _add_parts(element, parts)
