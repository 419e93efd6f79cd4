"""`klamm completion`: a script that lets a shell complete commands, options and their choices. It is made from the
parsers of all commands, so that it needs no library and starts no Python when the user presses Tab.
"""

import argparse
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from klamm.commands import COMMANDS
from klamm.console.options import CommandParser

SHELLS: Final = ("bash", "zsh")
_FILES: Final = frozenset({"FILE", "DIR", "PATH"})
_SCRIPT: Final = """\
_klamm() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command= words= i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$command/${{COMP_WORDS[i]}}" in
            {commands}) command=$command/${{COMP_WORDS[i]}} ;;
        esac
    done
    case "$command $previous" in
        {files}) compopt -o default 2>/dev/null; return ;;
{choices}        {values}) return ;;
    esac
    case "$command" in
{options}    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    [[ ${{#COMPREPLY[@]}} -gt 0 || $word == -* ]] || compopt -o default 2>/dev/null
}}
complete -F _klamm klamm
"""
_ZSH: Final = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"


@dataclass(frozen=True, slots=True)
class _Option:
    path: str
    """The command that has the option, such as "/control/stop"."""
    spellings: Sequence[str]
    takes: str = ""
    """The metavar of its value; empty: it has none."""
    choices: Sequence[str] = ()


def completion_parser() -> CommandParser:
    """The options of `klamm completion`."""
    parser = CommandParser(
        prog="klamm completion",
        description="Print a script that completes klamm's commands, options and their choices in a shell. Add the "
        "example to ~/.bashrc. For zsh, add it to ~/.zshrc with zsh instead of bash.",
        example='eval "$(klamm completion bash)"',
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell that will read the script")
    return parser


def completion_text(arguments: Sequence[str]) -> str:
    """The output of `klamm completion`. Raises UsageError."""
    return completion_script(completion_parser().parse_args(arguments).shell)


def completion_script(shell: str) -> str:
    """The script for one of `SHELLS`."""
    words: dict[str, list[str]] = {"": ["--help", "--version", *(command.name for command in COMMANDS)]}
    options: list[_Option] = []
    for command in COMMANDS:
        parser = command.make_parser()
        if parser is not None:
            _collect(parser, f"/{command.name}", words, options)
    with_values = [option for option in options if option.takes]
    script = _SCRIPT.format(
        commands=_pattern(path for path in words if path),
        files=_pattern(_keys(option for option in with_values if option.takes in _FILES)),
        choices="".join(
            f"        {_pattern(_keys([option]))}) words={shlex.quote(' '.join(option.choices))}\n"
            '            COMPREPLY=($(compgen -W "$words" -- "$word")); return ;;\n'
            for option in with_values
            if option.choices
        ),
        values=_pattern(_keys(o for o in with_values if o.takes not in _FILES and not o.choices)),
        options="".join(
            f"        {shlex.quote(path)}) words={shlex.quote(' '.join(offered))} ;;\n"
            for path, offered in words.items()
        ),
    )
    return script if shell == "bash" else _ZSH + script


def _collect(parser: argparse.ArgumentParser, path: str, words: dict[str, list[str]], options: list[_Option]) -> None:
    """Add what can follow the command `path`, and the same for its own commands."""
    offered = words.setdefault(path, [])
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            offered += action.choices
            for name, below in action.choices.items():
                _collect(below, f"{path}/{name}", words, options)
        elif action.option_strings:
            if action.help is argparse.SUPPRESS:
                continue
            offered += [spelling for spelling in action.option_strings if spelling.startswith("--")]
            choices = tuple(map(str, action.choices or _names_of(path, action.option_strings[-1])))
            takes = "" if action.nargs == 0 else str(action.metavar or "VALUE")
            options.append(_Option(path, action.option_strings, takes, choices))
        else:
            offered += map(str, action.choices or _names_of(path, action.dest))


def _names_of(path: str, argument: str) -> Sequence[str]:
    """The names that an argument takes although its parser has no list of choices, because it would have to import it
    for every call; empty: none are known."""
    if argument == "scenario" and path in ("/scenario/run", "/scenario/show"):
        from klamm.control.scenario_file import shipped_scenarios

        return tuple(shipped_scenarios())
    if path.startswith("/control/") and argument == "--api":
        from klamm.broker.dispatch import APIS

        return sorted(api.name for api in APIS)
    if path == "/control/fault/add" and argument == "--error":
        from klamm.protocol.error_codes import ErrorCode

        return sorted(code.name for code in ErrorCode if code)
    if path == "/control/fault/add" and argument == "--answer":
        from klamm.server.faults.rule import ANSWER_FAULTS

        return ANSWER_FAULTS
    return ()


def _keys(options: "Iterator[_Option] | Sequence[_Option]") -> Iterator[str]:
    return (f"{option.path} {spelling}" for option in options for spelling in option.spellings)


def _pattern(keys: Iterator[str]) -> str:
    return "|".join(map(shlex.quote, keys)) or "''"
