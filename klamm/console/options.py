"""The argument parser that all commands use, and types of arguments. Standard library alone.

A wrong command line raises `UsageError`, whose text is one line.
"""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

T = TypeVar("T")

FEWEST_COLUMNS, MOST_COLUMNS = 20, 1_000
MOST_HELP_COLUMNS: Final = 100
"""Longer lines of text are hard to read."""


class UsageError(Exception):
    """The command line is wrong. The text is one line for users."""


class HelpFormatter(argparse.HelpFormatter):
    """Help that is as wide as the terminal or the variable COLUMNS says, and at most `MOST_HELP_COLUMNS`. Lines of a
    text that begin with blanks, such as examples, stay as they are."""

    def __init__(self, prog: str, **given: Any) -> None:
        super().__init__(prog, **given)
        self._width = min(self._width, MOST_HELP_COLUMNS)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(
            line if line.startswith(" ") else super(HelpFormatter, self)._fill_text(line, width, indent)
            for line in text.splitlines()
        )


class CommandParser(argparse.ArgumentParser):
    """An argument parser that raises instead of printing its usage and exiting. `example` is a command line that the
    help ends with; options cannot be abbreviated."""

    def __init__(self, *, example: str = "", **given: Any) -> None:
        if example:
            given["epilog"] = f"example:\n  {example}"
        super().__init__(**{"formatter_class": HelpFormatter, "allow_abbrev": False, **given})
        self.example = example

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


class Once(argparse.Action):
    """Stores a value and refuses a second one, because it is unclear which of the two is meant."""

    def __call__(
        self, _parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, _option: str | None = None
    ) -> None:
        if getattr(namespace, self.dest) is not None:
            raise argparse.ArgumentError(self, "is given twice")
        setattr(namespace, self.dest, values)


def given_columns() -> int | None:
    """The width that the variable COLUMNS asks for, in characters; None if it is not set or not usable."""
    text = os.environ.get("COLUMNS", "")
    usable = text.isascii() and text.isdigit() and len(text) <= len(str(MOST_COLUMNS))
    return int(text) if usable and FEWEST_COLUMNS <= int(text) <= MOST_COLUMNS else None


def argument_of(decode: Callable[[str], T]) -> Callable[[str], T]:
    """The `type=` of an argument that `decode` reads: the text of its ValueError becomes that of the refusal."""

    def decoded(text: str) -> T:
        try:
            return decode(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return decoded


def file_path(text: str) -> Path:
    """Decode a path; used as `type=` of an argument."""
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError(f"{text!r} is no path")
    return Path(text)


def whole_number(text: str, lowest: int, highest: int) -> int:
    """Decode a whole number from `lowest` to `highest`; for functions that are `type=` of an argument."""
    # Digits only: int() would also accept "1_0", " 3 " and digits of other scripts.
    if not text.isascii() or not text.isdigit() or len(text) > len(str(highest)) or not lowest <= int(text) <= highest:
        raise argparse.ArgumentTypeError(f"{text[:40]!r}: a whole number from {lowest} to {highest} is expected")
    return int(text)
