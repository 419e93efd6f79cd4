"""`klamm control`: the control interface for shells. The standard library alone, so that a call is quick.

Exit codes: 0 done, 1 refused by the server, 2 for a wrong call and for a server that cannot be reached; then one line
on stderr says why.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from klamm.console.options import CommandParser, UsageError
from klamm.control.client import ControlClient, ControlRefused, ControlUnreachable
from klamm.protocol.printable import printable

EXIT_DONE, EXIT_REFUSED, EXIT_UNREACHABLE = 0, 1, 2
URL_VARIABLE = "KLAMM_CONTROL_URL"
MAX_BROKER_ID = 2**31 - 1
COLUMNS = ("id", "rack", "host", "port", "state", "fenced", "broker_epoch", "replicas")
NUMBERS = frozenset({"id", "port", "broker_epoch", "replicas"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlOptions:
    """The parsed options of `klamm control`: one request."""

    client: ControlClient
    as_json: bool
    method: str
    path: str
    body: dict[str, object] | None


def decode_control_options(arguments: Sequence[str], environment: Mapping[str, str]) -> ControlOptions:
    """The options after `klamm control`. Raises `UsageError`; `--help` prints and exits, as in argparse."""
    given = _parser().parse_args(arguments)
    url = getattr(given, "url", None) or environment.get(URL_VARIABLE)
    if not url:
        raise UsageError(f"where is it? Give --url http://HOST:PORT or set {URL_VARIABLE}")
    try:
        client = ControlClient(url)
    except ValueError as error:
        raise UsageError(str(error)) from None
    method, path, body = given.request(given)
    return ControlOptions(client=client, as_json=hasattr(given, "as_json"), method=method, path=path, body=body)


def control_command(options: ControlOptions) -> int:
    """Run `klamm control` with these options; returns the exit code."""
    try:
        content = options.client.ask(options.method, options.path, options.body)
    except ControlRefused as error:
        return _tell(error, EXIT_REFUSED)
    except ControlUnreachable as error:
        return _tell(error, EXIT_UNREACHABLE)
    except KeyboardInterrupt:
        return _tell("interrupted; what was asked for goes on", EXIT_REFUSED)
    with suppress(OSError):  # nobody has to read it
        sys.stdout.write(f"{json.dumps(content)}\n" if options.as_json else _table(content))
        sys.stdout.flush()
    return EXIT_DONE


def _parser() -> CommandParser:
    # Before and behind the command: both are habits.
    everywhere = CommandParser(add_help=False, argument_default=argparse.SUPPRESS)
    everywhere.add_argument("--url", metavar="URL", help=f"the server's control=… line tells it (${URL_VARIABLE})")
    everywhere.add_argument("--json", dest="as_json", action="store_true", help="print the server's JSON, on one line")
    parser = CommandParser(
        prog="klamm control",
        description="Stop, start, add and remove brokers of a klamm serve that was started with --control, or take "
        "a snapshot of its metadata log. Each command returns when the metadata shows what it did. Exit codes: 0 done, "
        "1 refused, 2 wrong call or not reachable.",
        parents=[everywhere],
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, request: Any, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, parents=[everywhere], allow_abbrev=False, help=text, description=text)
        command.set_defaults(request=request)
        return command

    add("snapshot", lambda _: ("POST", "/snapshot", None), "write a snapshot of the metadata log")
    add("brokers", lambda _: ("GET", "/brokers", None), "list all simulated brokers")
    adding = add("add", lambda given: ("POST", "/brokers", {"rack": given.rack}), "add a broker")
    adding.add_argument("--rack", metavar="R", help="its rack (the one whose turn it is)")
    stopping = add("stop", _stop_request, "stop a broker by a controlled shutdown")
    stopping.add_argument("broker_id", metavar="ID", type=_broker_id)
    stopping.add_argument("--crash", action="store_true", help="close its connections at once; it is fenced when "
        "broker.session.timeout.ms is over")  # fmt: skip
    killing = add("kill", lambda given: ("POST", f"/brokers/{given.broker_id}/kill", None), "crash a broker: close its "
        "connections at once; it is fenced when broker.session.timeout.ms is over")  # fmt: skip
    killing.add_argument("broker_id", metavar="ID", type=_broker_id)
    starting = add(
        "start", _start_request, "start a broker that is down; after a crash that waits for its session's end"
    )
    starting.add_argument("broker_id", metavar="ID", type=_broker_id)
    removing = add("remove", lambda given: ("DELETE", f"/brokers/{given.broker_id}", None), "shut a broker down, if it "
        "is up, and have the cluster forget it")  # fmt: skip
    removing.add_argument("broker_id", metavar="ID", type=_broker_id)
    return parser


def _stop_request(given: argparse.Namespace) -> tuple[str, str, dict[str, object]]:
    return "POST", f"/brokers/{given.broker_id}/stop", {"mode": "crash" if given.crash else "shutdown"}


def _start_request(given: argparse.Namespace) -> tuple[str, str, None]:
    return "POST", f"/brokers/{given.broker_id}/start", None


def _broker_id(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > len(str(MAX_BROKER_ID)) or int(text) > MAX_BROKER_ID:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no broker id")
    return int(text)


def _table(content: Any) -> str:
    """Brokers as columns; a removed broker has fewer members in the answer."""
    if "end_offset" in content:
        return f"a snapshot of {content['records']} records stands for all up to offset {content['end_offset']}\n"
    brokers = content if isinstance(content, list) else [content]
    columns = [name for name in COLUMNS if all(name in broker for broker in brokers)]
    rows = [columns, *([_cell(broker[name]) for name in columns] for broker in brokers)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            cell.rjust(width) if name in NUMBERS else cell.ljust(width)
            for name, cell, width in zip(columns, row, widths, strict=True)
        ).rstrip()
        for row in rows
    )
    return "".join(f"{line}\n" for line in lines)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else printable(str(value))


def _tell(reason: object, exit_code: int) -> int:
    with suppress(OSError, AttributeError):  # there may be no stderr
        sys.stderr.write(f"klamm control: {printable(' '.join(str(reason).split()))}\n")
    return exit_code
