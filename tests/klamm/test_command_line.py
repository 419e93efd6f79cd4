"""What all commands have in common: help, examples, completion, and readers that close the pipe."""

import argparse
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from klamm.__main__ import main
from klamm.commands import COMMANDS, PARSERS, usage
from klamm.completion import completion_script
from klamm.console.options import CommandParser, given_columns
from klamm.server.event_log import EventLog

ROOT = Path(__file__).parents[2]
SCREEN_LINES, COLUMNS = 40, 80
NO_DEFAULT = {"--set", "--broker-set", "--bootstrap-server", "--zookeeper", "--reassignment-json-file"}
NO_DEFAULT |= {"--topics-to-move-json-file", "--broker-list", "--log", "--requests"}
"""Options with a value that are required, that are needed by single actions only, or that can be repeated."""


def parsers() -> Iterator[CommandParser]:
    """The parsers of all commands, and of the commands below them."""
    found = [command.make_parser() for command in COMMANDS]
    while found:
        parser = found.pop()
        assert isinstance(parser, CommandParser)
        yield parser
        found += [
            below
            for action in parser._actions
            if isinstance(action, argparse._SubParsersAction)
            for below in action.choices.values()
        ]


ALL = list(parsers())


@pytest.mark.parametrize("parser", ALL, ids=lambda parser: parser.prog)
def test_help_fits_in_80_columns_and_ends_with_an_example(
    parser: CommandParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    lines = parser.format_help().splitlines()
    assert max(map(len, lines)) <= COLUMNS
    assert len(lines) <= 2 * SCREEN_LINES
    assert lines[-2:] == ["example:", f"  {parser.example}"]


@pytest.mark.parametrize("parser", ALL, ids=lambda parser: parser.prog)
def test_every_option_is_described_with_its_default(parser: CommandParser) -> None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) or action.help is argparse.SUPPRESS:
            continue
        assert action.help, action
        needs_none = action.nargs == 0 or action.required or not action.option_strings
        assert needs_none or action.option_strings[0] in NO_DEFAULT or "(default: " in action.help, action


EXAMPLES = [*(parser.example for parser in ALL), *(command.example for command in COMMANDS)]


@pytest.mark.parametrize("example", sorted({example for example in EXAMPLES if not example.startswith("eval ")}))
def test_examples_are_accepted(example: str) -> None:
    _, name, *arguments = shlex.split(example)
    command = next(command for command in COMMANDS if command.name == name)
    parser = command.make_parser()
    assert parser is not None
    assert vars(parser.parse_args(arguments))


def test_the_help_of_klamm_has_all_commands_with_examples() -> None:
    assert max(map(len, usage().splitlines())) <= COLUMNS
    for command in COMMANDS:
        assert re.search(rf"^  {command.name} +{re.escape(command.text)}\n +{re.escape(command.example)}$",
            usage(), re.MULTILINE)  # fmt: skip


def test_help_of_a_command_has_two_spellings(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for arguments in (["serve", "--help"], ["help", "serve"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    assert main(["help"]) == 0
    assert capsys.readouterr().out == usage()


@pytest.mark.parametrize(("typed", "expected"), [
    ("klamm se", ["serve"]),
    ("klamm serve --data-", ["--data-memory-bytes", "--data-file-bytes", "--data-dir"]),
    ("klamm serve --brokers 3 --profile ", ["kip", "kafka"]),
    ("klamm serve --brokers ", []),
    ("klamm control --json st", ["stop", "start"]),
    ("klamm control stop --cr", ["--crash"]),
    ("klamm wire d", ["decode", "dump"]),
    ("klamm pipeline whatif --sh", ["--shapes"]),
    ("klamm completion z", ["zsh"]),
    ("klamm scenario run sp", ["split-client"]),
    ("klamm scenario show fu", ["full-disk"]),
    ("klamm control fault add --answer h", ["half"]),
    ("klamm control fault add --error NOT_L", ["NOT_LEADER_OR_FOLLOWER"]),
    ("klamm control requests --api AddP", ["AddPartitionsToTxn"]),
    ("klamm scenario run --co", []),
])  # fmt: skip
def test_a_shell_completes_commands_options_and_choices(typed: str, expected: list[str]) -> None:
    words = typed.split(" ")
    script = (
        f"{completion_script('bash')}\nCOMP_WORDS=({' '.join(map(shlex.quote, words))}); "
        f'COMP_CWORD={len(words) - 1}; _klamm; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == expected


def test_the_script_for_zsh_loads_what_bash_has() -> None:
    assert completion_script("zsh").endswith(completion_script("bash"))
    assert "bashcompinit" in completion_script("zsh")


@pytest.mark.parametrize("arguments", [
    [], ["--version"], ["serve", "--help"], ["wire", "list"], ["completion", "bash"], ["control", "stop", "--help"],
])  # fmt: skip
def test_a_reader_that_has_closed_the_pipe_is_no_traceback(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}  # the default
    process = subprocess.run([sys.executable, "-m", "klamm", *arguments], stdout=writing, stderr=subprocess.PIPE,
        cwd=ROOT, env=buffered, check=False)  # fmt: skip
    os.close(writing)
    assert (process.returncode, process.stderr) == (0, b"")


@pytest.mark.parametrize("arguments", [[], ["--version"], ["wire", "list"], ["completion", "bash"]])
def test_a_full_disk_is_one_line_and_exit_code_1(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        process = subprocess.run([sys.executable, "-m", "klamm", *arguments], stdout=full, stderr=subprocess.PIPE,
            text=True, cwd=ROOT, check=False)  # fmt: skip
    assert process.returncode == 1
    assert re.fullmatch(r"klamm.*: stdout cannot be written: No space left on device\n", process.stderr)


@pytest.mark.parametrize(
    ("arguments", "code"), [([], 0), (["--version"], 0), (["serve", "--help"], 0), (["wire", "list"], 1)]
)
def test_without_stdout_there_is_no_traceback(arguments: list[str], code: int) -> None:
    command = shlex.join([sys.executable, "-m", "klamm", *arguments])
    ended = subprocess.run(["bash", "-c", f"{command} >&-"], capture_output=True, text=True, cwd=ROOT, check=False)
    assert ended.returncode == code
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(("columns", "width"), [("80", 80), ("", None), ("x", None), ("0", None), ("99999", None)])
def test_a_variable_asks_for_a_width(columns: str, width: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert given_columns() == width


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_warnings_have_colours_unless_they_are_not_wanted(
    variables: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in {"TERM": "xterm", **variables}.items():
        monkeypatch.setenv(name, value)
    terminal = Terminal()
    EventLog(stream=terminal).warning("something")
    assert ("\x1b[" in terminal.getvalue()) is coloured


def test_each_command_has_a_parser() -> None:
    assert all(":" in parser for parser in PARSERS.values())


@pytest.mark.parametrize(("line", "said"), [
    ("sevre", "klamm: there is no command 'sevre' (klamm --help lists them); did you mean 'serve'?"),
    ("help pipelin", "klamm: there is no command 'pipelin' (klamm --help lists them); did you mean 'pipeline'?"),
    ("--versoin", "klamm: there is no command '--versoin' (klamm --help lists them); did you mean '--version'?"),
    ("qqq", "klamm: there is no command 'qqq' (klamm --help lists them)"),
    ("serve --broker=3", "klamm serve: unrecognized arguments: --broker=3; did you mean '--brokers'?"),
    ("serve --zzz 3 --listn 1", "klamm serve: unrecognized arguments: --zzz 3 --listn 1; did you mean '--listen'?"),
    ("serve --zzz", "klamm serve: unrecognized arguments: --zzz"),
    ("control --url u stop 2 --crsh", "klamm control: unrecognized arguments: --crsh; did you mean '--crash'?"),
    # What argparse complains of follows from the misspelt option.
    ("control --tokn f brokers", "klamm control: unrecognized arguments: --tokn; did you mean '--token-file'?"),
    ("broker-properties --idd 1", "klamm broker-properties: unrecognized arguments: --idd; did you mean '--id'?"),
    ("broker-properties -- --idd",
        "klamm broker-properties: the following arguments are required: --id, --cluster-id, --log-dir"),
    ("scenario rnu x", ("klamm scenario: argument COMMAND: invalid choice: 'rnu' (choose from 'run', 'list'); "
        "did you mean 'run'?")),
    ("completion bsh", ("klamm completion: argument shell: invalid choice: 'bsh' (choose from 'bash', 'zsh'); "
        "did you mean 'bash'?")),
])  # fmt: skip
def test_what_is_misspelt_is_refused_with_the_nearest(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(line.split())
    stderr = capsys.readouterr().err
    # Versions of Python show the choices with or without quotes.
    assert (code, re.sub(r"\(choose from .*\)", "", stderr)) == (2, re.sub(r"\(choose from .*\)", "", said) + "\n")
