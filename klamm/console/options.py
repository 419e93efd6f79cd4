"""The argument parser that all commands use, and types of arguments. Standard library alone.

A wrong command line raises `UsageError`, whose text is one line.
"""

import argparse
from pathlib import Path
from typing import Any, NoReturn


class UsageError(Exception):
    """The command line is wrong. The text is one line for users."""


class CommandParser(argparse.ArgumentParser):
    """An argument parser that raises instead of printing its usage and exiting."""

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
