"""Changes single fields of a valid frame: numbers, lengths, texts, missing and repeated pieces."""

from collections.abc import Sequence
from random import Random
from typing import Final

from klamm.protocol.codec.primitives import NUMBER_CODES
from tools.fuzzing.pieces import Piece, head_of, joined, uvarint

_COUNTS: Final = (-1, -2, 0, 1, 2, 127, 128, 32767, 65535, 2**31 - 1, 2**28)
_WIDE_VARINTS: Final = (b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff", b"\x80\0", b"\xff")
_CONTENTS: Final = (
    b"",
    b"\0",
    b"\xff\xfe",
    b"a" * 249,
    b"a" * 250,
    b"a" * 1000,
    "Ü€\U0001f600".encode(),
    b"..",
    b"-1",
    b"%n%s",
)


def mutated(pieces: Sequence[Piece], chance: Random) -> bytes:
    """The request with no changed field, or with one or two: half of the requests should reach the handlers."""
    changed = list(pieces)
    for _ in range(chance.choice((0, 0, 0, 1, 1, 2))):
        if changed:
            _mutate_one(changed, chance)
    data = joined(changed)
    how = chance.random()
    if how < 0.03:
        return data[: chance.randrange(len(data) + 1)]
    return data + chance.choice((b"\0", b"\xff" * 9)) if how < 0.06 else data


def _mutate_one(pieces: list[Piece], chance: Random) -> None:
    index = chance.randrange(len(pieces))
    how = chance.random()
    if how < 0.05:
        del pieces[index]
    elif how < 0.1:
        pieces.insert(index, pieces[index])
    else:
        pieces[index] = _changed(pieces[index], chance)


def _changed(piece: Piece, chance: Random) -> Piece:
    if piece.kind in NUMBER_CODES:
        return piece.with_content(_number(piece.content, chance))
    if piece.kind in {"tag", "tags"}:
        varint = chance.choice((uvarint(chance.choice((0, 1, 2, 127, 128, 2**31))), *_WIDE_VARINTS))
        return Piece(piece.path, piece.kind, varint)
    if piece.head and (piece.kind in {"array", "null"} or chance.random() < 0.4):
        return Piece(piece.path, piece.kind, piece.content, _head(piece, chance), piece.head_width)
    return piece.with_content(chance.choice((*_CONTENTS, piece.content * 2, piece.content[1:])))


def _number(content: bytes, chance: Random) -> bytes:
    width = len(content)
    value = int.from_bytes(content, "big")
    largest = 1 << 8 * width
    values = (0, 1, -1, -2, largest // 2 - 1, largest // 2, value + 1, value - 1, 2 * value, chance.randrange(largest))
    return (chance.choice(values) % largest).to_bytes(width, "big")


def _head(piece: Piece, chance: Random) -> bytes:
    if not piece.head_width and chance.random() < 0.3:
        return chance.choice(_WIDE_VARINTS)
    count = chance.choice((*_COUNTS, len(piece.content) + 1, len(piece.content) - 1))
    return head_of(max(count, -1) if not piece.head_width else count, piece.head_width)
