"""Convert Kafka's bytes to JSON and back, line by line, and print metadata logs as JSON lines."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from klamm.console.line_filter import answer_lines, write_text
from klamm.console.options import CommandParser
from klamm.wire.lines import MAX_LINE_BYTES, Answered, decode_line, encode_line

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1
EXIT_REFUSED: Final = 2


def wire_command(arguments: Sequence[str]) -> int:
    """Run `klamm wire`. Returns the exit code: 1 if a line failed, 2 if a file cannot be read. Raises UsageError."""
    given = wire_parser().parse_args(arguments)
    if given.command == "list":
        from klamm.wire.listing import version_table

        write_text(version_table())
        return EXIT_DONE
    if given.command == "dump":
        return _each_file(given.files, _dump)
    convert = decode_line if given.command == "decode" else encode_line
    return _each_file(given.files or [None], lambda path: _filter(path, convert))


def wire_parser() -> CommandParser:
    """The options and commands of `klamm wire`."""
    parser = CommandParser(prog="klamm wire", description=__doc__, example="klamm wire list")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    commands.add_parser("list", help="print all APIs and record types with their versions",
        description="Print all APIs and record types with their versions.", example="klamm wire list")  # fmt: skip
    for name, what in (("decode", "hex to header and body"), ("encode", "header and body to hex")):
        text = f"convert JSON lines: {what}"
        command = commands.add_parser(name, help=text, description=text, example=f"klamm wire {name} messages.jsonl")
        command.add_argument("files", nargs="*", type=Path, metavar="FILE", help="files to read (default: stdin)")
    dump = commands.add_parser(
        "dump",
        help="print metadata log segments or snapshots as JSON lines",
        description="Print metadata log segments or snapshots as JSON lines.",
        example="klamm wire dump data/__cluster_metadata-0/00000000000000000000.log",
    )
    dump.add_argument("files", nargs="+", type=Path, metavar="FILE", help="segments or snapshots")
    return parser


def _each_file(paths: Iterable[Path | None], do: Callable[[Path | None], bool]) -> int:
    all_well = True
    for path in paths:
        try:
            all_well &= do(path)
        except BrokenPipeError:
            return EXIT_DONE  # the reader has closed the pipe
        except OSError as error:
            return _tell(f"cannot read {path or 'stdin'}: {error.strerror or error}", EXIT_REFUSED)
    return EXIT_DONE if all_well else EXIT_FAILED


def _filter(path: Path | None, convert: Callable[[bytes], Answered]) -> bool:
    all_well = True

    def answer(_number: int, line: bytes) -> Iterator[str]:
        nonlocal all_well
        text, well = convert(line)
        all_well &= well
        yield text

    with _opened(path) as source:
        answer_lines(source, answer, write_text, MAX_LINE_BYTES)
    return all_well


def _dump(path: Path | None) -> bool:
    from klamm.wire.dump import dump_lines

    assert path is not None, "dump has no stdin"
    all_well = True
    for text, well in dump_lines(path):
        write_text(f"{text}\n")
        all_well &= well
    return all_well


def _opened(path: Path | None) -> BinaryIO:
    return open(0, "rb", closefd=False) if path is None else path.open("rb")


def _tell(reason: str, exit_code: int) -> int:
    with suppress(OSError, AttributeError):  # there may be no stderr
        sys.stderr.write(f"klamm wire: {reason}\n")
    return exit_code
