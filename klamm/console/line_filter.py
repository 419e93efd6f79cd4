"""Filters that read lines from a file and write an answer for each line.

Answers are written to the file descriptor of stdout without a buffer, so that a program can wait for an answer before
it sends the next line, and nothing has to be flushed when the reader has closed the pipe.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, Final

STDIN, STDOUT = 0, 1
_WRITE_CHARACTERS: Final = 1 << 18

Answer = Callable[[int, bytes], Iterable[str]]
"""Called with the number of a line, from 1, and the line; gives the answer in pieces, without its line end."""


def answer_lines(source: BinaryIO, answer: Answer, write: Callable[[str], None], max_line_bytes: int) -> None:
    """Answer the lines of a file one by one; an answer is written before the next line is read.

    A line that is too long is cut to `max_line_bytes` + 1 bytes. Raises OSError if reading or writing fails, and its
    subclass BrokenPipeError if the reader of the answers has closed the pipe.
    """
    for number, line in enumerate(_lines(source, max_line_bytes), start=1):
        _write_pieces(answer(number, line), write)


def _lines(source: BinaryIO, max_line_bytes: int) -> Iterator[bytes]:
    """The lines with their line ends; the last one may have none."""
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
    """Write to stdout without a buffer; characters that its encoding lacks are escaped. Raises OSError."""
    left = memoryview(text.encode(stdout_encoding(), "backslashreplace"))
    while left:
        left = left[os.write(STDOUT, left) :]


def stdout_encoding() -> str:
    """The encoding of stdout; UTF-8 if stdout was closed when the process started."""
    return sys.stdout.encoding if sys.stdout is not None else "utf-8"
