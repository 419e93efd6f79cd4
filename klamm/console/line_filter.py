"""Filters of lines: each is answered at once, and the filter ends quietly however it is ended.

An answer is written without a buffer of ours: whoever asks can wait for it before asking again, and nothing is left to
be flushed when the reader is gone.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, Final

STDIN, STDOUT = 0, 1
_WRITE_CHARACTERS: Final = 1 << 18

Answer = Callable[[int, bytes], Iterable[str]]
"""From a line and its number, counted from 1, to pieces of text without the last line end."""


def answer_lines(source: BinaryIO, answer: Answer, write: Callable[[str], None], max_line_bytes: int) -> None:
    """Answer the lines of a file one by one; an answer has been written before the next line is read. Of a line that is
    too long, `max_line_bytes` + 1 bytes are given. OSError if reading or writing fails, BrokenPipeError if nobody
    reads the answers any more."""
    for number, line in enumerate(_lines(source, max_line_bytes), start=1):
        _write_pieces(answer(number, line), write)


def _lines(source: BinaryIO, max_line_bytes: int) -> Iterator[bytes]:
    """Lines with their ends, the last one maybe without."""
    while line := source.readline(max_line_bytes + 1):
        if len(line) > max_line_bytes:
            rest = line
            while rest and not rest.endswith(b"\n"):
                rest = source.readline(1 << 20)
        yield line


def _write_pieces(pieces: Iterable[str], write: Callable[[str], None]) -> None:
    held: list[str] = []
    characters = 0
    for piece in pieces:
        held.append(piece)
        characters += len(piece)
        if characters >= _WRITE_CHARACTERS:
            write("".join(held))
            held, characters = [], 0
    write("".join((*held, "\n")))


def write_text(text: str) -> None:
    """Write to stdout at once; what it cannot encode is escaped. OSError."""
    left = memoryview(text.encode(stdout_encoding(), "backslashreplace"))
    while left:
        left = left[os.write(STDOUT, left) :]


def stdout_encoding() -> str:
    """The encoding of stdout; UTF-8 if it was closed from the start."""
    return sys.stdout.encoding if sys.stdout is not None else "utf-8"
