"""The argument parser that all commands use, and types of arguments. Standard library alone.

A wrong command line raises `UsageError`, whose text is one line.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

T = TypeVar("T")

FEWEST_COLUMNS, MOST_COLUMNS = 20, 1_000
MOST_HELP_COLUMNS: Final = 100
"""Longer lines of text are hard to read."""

MOST_NAMED_COMMANDS: Final = 8
"""A refusal that names more commands is not easy to read."""


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
    help ends with; options cannot be abbreviated. Misspelt options, commands and choices are refused with the nearest
    one."""

    def __init__(self, *, example: str = "", **given: Any) -> None:
        if example:
            given["epilog"] = f"example:\n  {example}"
        super().__init__(**{"formatter_class": HelpFormatter, "allow_abbrev": False, **given})
        self.example = example
        self._given: list[str] = []

    def error(self, message: str) -> NoReturn:
        self._refuse_misspelt()
        raise UsageError(f"{message}{self._known_commands()}" if message.endswith(" required: COMMAND") else message)

    def _known_commands(self) -> str:
        """The commands that can be given, or where the help has them."""
        (commands,) = (one for one in self._actions if isinstance(one, argparse._SubParsersAction))
        if len(commands.choices) > MOST_NAMED_COMMANDS:
            return f"; see {self.prog} --help"
        return f", one of {', '.join(commands.choices)}"

    def _refuse_misspelt(self) -> None:
        """Refuse an unknown option that is near a known one: argparse complains of what follows from it, such as the
        lack of a needed option, or a value that it takes for a command."""
        words = self._given[: self._given.index("--")] if "--" in self._given else self._given
        for option in (word.partition("=")[0] for word in words if word.startswith("--")):
            known = self._option_string_actions
            if option not in known and (near := _did_you_mean(option, known)):
                raise UsageError(f"unrecognized arguments: {option}{near}")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As in argparse, but a parser leaves nothing to the one whose command it is: only it knows its options."""
        self._given = sys.argv[1:] if args is None else list(args)
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self._refuse_unknown(unknown)
        return found, unknown

    def _refuse_unknown(self, unknown: Sequence[str]) -> NoReturn:
        options = [word.partition("=")[0] for word in unknown if word.startswith("-")]
        clauses = (_did_you_mean(option, self._option_string_actions) for option in options)
        raise UsageError(f"unrecognized arguments: {' '.join(unknown)}{next(filter(None, clauses), '')}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            near = _did_you_mean(str(value), map(str, action.choices or ()))
            raise argparse.ArgumentError(action, f"{error.message}{near}") from None


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    from klamm.protocol.near_names import did_you_mean

    return did_you_mean(name, known)


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
