"""`klamm assign`: reads lines, answers each at once, and ends quietly however it is ended.

What a line means is decided elsewhere; here are files, bytes and exit codes. An answer is written without a buffer
of ours: whoever asks can wait for it before asking again, and nothing is left to be flushed when the reader is gone.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import BinaryIO, Final

from klamm.assign_lines import answer
from klamm.assign_request import MAX_LINE_BYTES
from klamm.command_line import AssignOptions

EXIT_FAILED: Final = 1
EXIT_REFUSED: Final = 2
_STDIN, _STDOUT = 0, 1
_WRITE_CHARACTERS: Final = 1 << 18

Answer = Callable[[int, bytes], Iterable[str]]
"""From a line and its number, counted from 1, to pieces of text without the last line end."""


def assign_command(options: AssignOptions) -> int:
    """Answers every line; returns the exit code: 0, also where answers are errors, 1 if reading or writing failed."""
    try:
        source = open(_STDIN, "rb", closefd=False) if options.file is None else options.file.open("rb")  # noqa: SIM115
    except OSError as error:
        return _tell(f"cannot read {options.file or 'stdin'}: {error.strerror}", EXIT_REFUSED)
    with source:
        return answer_lines(source, _explanation() if options.explain else _answer, _write)


def answer_lines(source: BinaryIO, answer_line: Answer, write: Callable[[str], None]) -> int:
    """Answers the lines of a file one by one; an answer has been written before the next line is read."""
    try:
        for number, line in enumerate(_lines(source), start=1):
            _write_pieces(answer_line(number, line), write)
    except BrokenPipeError:
        return 0  # whoever read the answers has enough
    except OSError as error:
        return _tell(error.strerror or str(error), EXIT_FAILED)
    return 0


def _lines(source: BinaryIO) -> Iterator[bytes]:
    """Lines with their ends, the last one maybe without; of a line that is too long, MAX_LINE_BYTES + 1 bytes."""
    while line := source.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
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


def _write(text: str) -> None:
    left = memoryview(text.encode(_encoding(), "backslashreplace"))
    while left:
        left = left[os.write(_STDOUT, left) :]


def _encoding() -> str:
    return sys.stdout.encoding if sys.stdout is not None else "utf-8"  # None: it was closed from the start


def _explanation() -> Answer:
    # Only now: rich takes as long to import as all the rest.
    from klamm.assign_explain import Explainer

    return Explainer(terminal=os.isatty(_STDOUT), encoding=_encoding()).explain


def _answer(_number: int, line: bytes) -> Iterable[str]:
    return answer(line)


def _tell(failure: str, exit_code: int) -> int:
    with suppress(OSError, AttributeError):  # there may be no stderr
        sys.stderr.write(f"klamm assign: {' '.join(failure.split())}\n")
    return exit_code
