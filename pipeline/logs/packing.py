"""Groups pieces of files into tasks."""

from collections.abc import Sequence
from typing import Protocol, TypeVar


class _Sized(Protocol):
    @property
    def size(self) -> int: ...


PieceT = TypeVar("PieceT", bound=_Sized)


def pack(pieces: Sequence[PieceT], piece_bytes: int) -> list[tuple[PieceT, ...]]:
    """Groups of pieces of about `piece_bytes` each, so that a thousand small files need few tasks."""
    shares: list[tuple[PieceT, ...]] = []
    share: list[PieceT] = []
    size = 0
    for piece in pieces:
        share.append(piece)
        size += piece.size
        if size >= piece_bytes:
            shares.append(tuple(share))
            share, size = [], 0
    if share:
        shares.append(tuple(share))
    return shares
