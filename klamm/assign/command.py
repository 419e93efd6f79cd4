"""`klamm assign`: reads lines from a file or stdin, and writes the answer to each line before it reads the next.

This module opens files and decides exit codes; `klamm.assign.lines` answers the lines.
"""

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import BinaryIO, Final

from klamm.assign.lines import answer
from klamm.assign.options import AssignOptions
from klamm.assign.request import MAX_LINE_BYTES
from klamm.console.line_filter import STDIN, STDOUT, Answer, answer_lines, stdout_encoding, write_text
from klamm.console.options import given_columns

EXIT_FAILED: Final = 1
EXIT_REFUSED: Final = 2


def assign_command(options: AssignOptions) -> int:
    """Answer every line. Returns the exit code: 0 even if answers are errors, 1 if reading or writing failed, 2 if the
    file cannot be opened."""
    try:
        source = open(STDIN, "rb", closefd=False) if options.file is None else options.file.open("rb")  # noqa: SIM115
    except OSError as error:
        return _tell(f"cannot read {options.file or 'stdin'}: {error.strerror}", EXIT_REFUSED)
    with source:
        return _answer_all(source, _explanation() if options.explain else _answer)


def _answer_all(source: BinaryIO, answer_line: Answer) -> int:
    try:
        answer_lines(source, answer_line, write_text, MAX_LINE_BYTES)
    except BrokenPipeError:
        return 0  # the reader has closed the pipe
    except OSError as error:
        return _tell(error.strerror or str(error), EXIT_FAILED)
    return 0


def _explanation() -> Answer:
    # Imported only for --explain, because rich takes as long to import as all the rest.
    from klamm.assign.explain import Explainer

    return Explainer(os.isatty(STDOUT), stdout_encoding(), given_columns()).explain


def _answer(_number: int, line: bytes) -> Iterable[str]:
    return answer(line)


def _tell(failure: str, exit_code: int) -> int:
    with suppress(OSError, AttributeError):  # there may be no stderr
        sys.stderr.write(f"klamm assign: {' '.join(failure.split())}\n")
    return exit_code
