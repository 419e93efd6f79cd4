"""The options of `klamm assign`, decoded with the standard library alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from klamm.console.options import CommandParser, file_path


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignOptions:
    """`klamm assign`, as it was asked for."""

    explain: bool = False
    file: Path | None = None
    """None: stdin."""


def decode_assign_options(arguments: Sequence[str]) -> AssignOptions:
    """The options after `klamm assign`. Raises `UsageError`; `--help` prints and exits, as argparse has it."""
    given = _assign_parser().parse_args(arguments)
    return AssignOptions(explain=given.explain, file=None if given.file == Path("-") else given.file)


def _assign_parser() -> CommandParser:
    parser = CommandParser(
        prog="klamm assign",
        description="Place replicas. Each line read is a JSON object that describes brokers and what to place, such as "
        '{"brokers":[[1,"a"],[2,"b"]],"partitions":4,"rf":2}; each is answered with one line: '
        '{"assignment":{"0":[1,2],…}} or {"error":{"reason":…,"message":…}}. docs/placement.md lists all members.',
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--explain", action="store_true", help="draw, for people, a table of the brokers and say what decided")
    add("file", metavar="FILE", type=file_path, nargs="?", help="where the lines are (-: stdin, which is the default)")
    return parser
