"""The options of `klamm assign`, decoded with the standard library alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from klamm.console.options import CommandParser, file_path


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignOptions:
    """The options of `klamm assign`."""

    explain: bool = False
    file: Path | None = None
    """None: stdin."""


def decode_assign_options(arguments: Sequence[str]) -> AssignOptions:
    """Decode the arguments after `klamm assign`. Raises `UsageError`; `--help` prints the help and exits."""
    given = assign_parser().parse_args(arguments)
    return AssignOptions(explain=given.explain, file=None if given.file == Path("-") else given.file)


def assign_parser() -> CommandParser:
    """The options of `klamm assign`."""
    parser = CommandParser(
        prog="klamm assign",
        description="Place replicas. Each line of input is a JSON object with brokers and a topic, such as "
        '{"brokers":[[1,"a"],[2,"b"]],"partitions":4,"rf":2}. The answer is one line: '
        '{"assignment":{"0":[1,2],…}} or {"error":{"reason":…,"message":…}}. docs/placement.md lists all members.',
        example="klamm assign --explain requests.jsonl",
    )
    add = parser.add_argument
    add("--explain", action="store_true", help="print a table of the brokers and explain the placement in sentences")
    add("file", metavar="FILE", type=file_path, nargs="?", help="file of the lines (default: -, stdin)")
    return parser
