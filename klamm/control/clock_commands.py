"""`klamm control clock …`: show the controller's clock, and advance a manual one. The standard library alone."""

from collections.abc import Mapping
from typing import Any

from klamm.console.options import CommandParser, argument_of
from klamm.control.durations import milliseconds


def add_clock_commands(commands: Any, everywhere: CommandParser) -> None:
    """Add `clock` with its own command."""
    text = "print the controller's time, or advance a manual clock (klamm serve --clock manual)"
    parser = commands.add_parser(
        "clock", parents=[everywhere], help=text, description=text, example="klamm control clock advance 5m"
    )
    parser.set_defaults(request=lambda _: ("GET", "/clock", None))
    below = parser.add_subparsers(title="commands", metavar="COMMAND")
    text = "advance the cluster's time. Sessions, rebalances, transactions and replication continue"
    advancing = below.add_parser(
        "advance", parents=[everywhere], help=text, description=text, example="klamm control clock advance 5m"
    )
    advancing.set_defaults(request=lambda given: ("POST", "/clock/advance", {"ms": given.duration}))
    advancing.add_argument(
        "duration",
        metavar="DURATION",
        type=argument_of(milliseconds),
        help="how long, such as 300ms, 10s, 5m, 2h or 7d",
    )


def clock_text(content: Mapping[str, Any]) -> str:
    """The line of a clock."""
    return f"{content['time']}  {content['now_ms']}  {content['clock']}\n"
