"""Shares of work out of pieces of files."""

from collections.abc import Sequence
from typing import Protocol, TypeVar


class _Stretch(Protocol):
    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...


PieceT = TypeVar("PieceT", bound=_Stretch)


def pack(pieces: Sequence[PieceT], piece_bytes: int) -> list[tuple[PieceT, ...]]:
    """Shares of some `piece_bytes` each: small files go together, so that a thousand of them are few tasks."""
    shares: list[tuple[PieceT, ...]] = []
    share: list[PieceT] = []
    size = 0
    for piece in pieces:
        share.append(piece)
        size += piece.end - piece.start
        if size >= piece_bytes:
            shares.append(tuple(share))
            share, size = [], 0
    if share:
        shares.append(tuple(share))
    return shares
