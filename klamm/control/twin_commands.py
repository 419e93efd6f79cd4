"""`klamm control twin …`: show a twin, and let it begin again. The standard library alone."""

from collections.abc import Mapping
from typing import Any

from klamm.console.options import CommandParser
from klamm.protocol.printable import printable

RESTART_PATH = "/twin/restart"


def add_twin_commands(commands: Any, everywhere: CommandParser) -> None:
    """Add `twin` with its own command."""
    text = "print the source of a twin (klamm serve --twin DIR --follow), or restart the twin"
    parser = commands.add_parser(
        "twin", parents=[everywhere], help=text, description=text, example="klamm control twin restart"
    )
    parser.set_defaults(request=lambda _: ("GET", "/twin", None))
    below = parser.add_subparsers(title="commands", metavar="COMMAND")
    text = "discard the changes in the twin, and begin again with the present metadata of its source"
    restarting = below.add_parser(
        "restart", parents=[everywhere], help=text, description=text, example="klamm control twin restart"
    )
    restarting.set_defaults(request=lambda _: ("POST", RESTART_PATH, None))


def twin_text(content: Mapping[str, Any]) -> str:
    """The line of a twin."""
    return f"{printable(content['twin'])}  {content['restarts']} restarts  {printable(content['bootstrap_servers'])}\n"
