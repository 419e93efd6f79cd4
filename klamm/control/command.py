"""`klamm control`: the control interface for shells. The standard library alone, so that a call is quick.

Exit codes: 0 done, 1 refused by the server, 2 for a wrong call and for a server that cannot be reached, 130 after
Ctrl-C; then one line on stderr says why.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from klamm.console.options import CommandParser, UsageError, file_path, whole_number
from klamm.control.client import (
    ControlClient,
    ControlRefused,
    ControlUnreachable,
    await_restart,
    records_path,
    topic_path,
)
from klamm.control.clock_commands import add_clock_commands
from klamm.control.fault_commands import add_fault_commands
from klamm.control.recorded import ISOLATION_LEVELS
from klamm.control.steering_commands import add_steering_commands
from klamm.control.tables import as_text
from klamm.control.tokens import CA_VARIABLE, TOKEN_VARIABLE, read_token
from klamm.control.twin_commands import RESTART_PATH, add_twin_commands
from klamm.protocol.printable import printable

EXIT_DONE, EXIT_REFUSED, EXIT_UNREACHABLE, EXIT_INTERRUPTED = 0, 1, 2, 130
URL_VARIABLE = "KLAMM_CONTROL_URL"
MAX_BROKER_ID = 2**31 - 1
MAX_COUNT = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlOptions:
    """The parsed options of `klamm control`: a request. It is repeated for each page of a long answer."""

    client: ControlClient
    as_json: bool
    method: str
    path: str
    body: dict[str, object] | None


def decode_control_options(arguments: Sequence[str], environment: Mapping[str, str]) -> ControlOptions:
    """The options after `klamm control`. Raises `UsageError`; `--help` prints and exits, as in argparse."""
    given = control_parser().parse_args(arguments)
    url = getattr(given, "url", None) or environment.get(URL_VARIABLE)
    if not url:
        raise UsageError(f"the control interface has no address: give --url http://HOST:PORT or set {URL_VARIABLE}")
    try:
        file = getattr(given, "token_file", None)
        token = read_token(file) if file is not None else environment.get(TOKEN_VARIABLE)
        client = ControlClient(url, token, ca_file=getattr(given, "ca_file", None) or environment.get(CA_VARIABLE))
    except ValueError as error:
        raise UsageError(str(error)) from None
    method, path, body = given.request(given)
    return ControlOptions(client=client, as_json=hasattr(given, "as_json"), method=method, path=path, body=body)


def control_command(options: ControlOptions) -> int:
    """Run `klamm control` with these options; returns the exit code."""
    try:
        for content in _answers(options):
            _write(f"{json.dumps(content)}\n" if options.as_json else as_text(content))
    except BrokenPipeError:
        return EXIT_DONE  # the reader has closed the pipe
    except ControlRefused as error:
        return _tell(error, EXIT_REFUSED)
    except ControlUnreachable as error:
        return _tell(error, EXIT_UNREACHABLE)
    except KeyboardInterrupt:
        return _tell("interrupted; a change that has begun goes on", EXIT_INTERRUPTED)
    return EXIT_DONE


def _answers(options: ControlOptions) -> Iterator[Any]:
    """The answer, or its pages."""
    body: dict[str, object] | None = options.body
    while True:
        content = options.client.ask(options.method, options.path, body)
        if options.path == RESTART_PATH:
            content = await_restart(options.client, content)
        yield content
        following = _following(content)
        if following is None:
            return
        body = {**(body or {}), **following}


def _following(content: Any) -> dict[str, object] | None:
    """What the request for the next page has in addition; None: this was the last page."""
    if isinstance(content, dict) and content.get("requests") and "hits" not in content:
        return {"after_seq": content["requests"][-1]["seq"]}
    if isinstance(content, dict) and content.get("next_partition") is not None:
        return {"from_partition": content["next_partition"], "from_offset": content["next_offset"]}
    return None


def _write(text: str) -> None:
    """Write to stdout, if there is one and it can be written. Raises BrokenPipeError."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (OSError, AttributeError):
        pass


def control_parser() -> CommandParser:
    """The options and commands of `klamm control`."""
    # Before and behind the command: both are habits.
    everywhere = CommandParser(add_help=False, argument_default=argparse.SUPPRESS)
    everywhere.add_argument(
        "--url",
        metavar="URL",
        help=f"address of the control interface. klamm serve prints control=URL (default: ${URL_VARIABLE})",
    )
    everywhere.add_argument("--control", metavar="URL", dest="url", help=argparse.SUPPRESS)
    everywhere.add_argument("--token-file", metavar="FILE", type=file_path, help="a file with the control token. An "
        f"address that is not loopback needs it (default: ${TOKEN_VARIABLE})")  # fmt: skip
    everywhere.add_argument("--ca-file", metavar="FILE", type=file_path, help="trusted certificates for https. "
        f"klamm serve prints control.ca=FILE (default: ${CA_VARIABLE})")  # fmt: skip
    everywhere.add_argument("--json", dest="as_json", action="store_true", help="print the server's JSON, on one line")
    parser = CommandParser(
        prog="klamm control",
        description="Stop, start, add and remove brokers, create and delete topics, and print records and requests. "
        "The cluster is a klamm serve with --control. Each command returns when the metadata has the change. Exit "
        "codes: 0 done, 1 refused, 2 wrong call or no connection.",
        example="klamm control --url http://127.0.0.1:9090 stop 2",
        parents=[everywhere],
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def add(name: str, request: Any, text: str, example: str) -> argparse.ArgumentParser:
        command = commands.add_parser(
            name, parents=[everywhere], help=text, description=text, example=f"klamm control {example}"
        )
        command.set_defaults(request=request)
        return command

    add("snapshot", lambda _: ("POST", "/snapshot", None), "write a snapshot of the metadata log", "snapshot")
    add("brokers", lambda _: ("GET", "/brokers", None), "list all simulated brokers", "brokers --json")
    adding = add("add", lambda given: ("POST", "/brokers", {"rack": given.rack}), "add a broker", "add --rack b")
    adding.add_argument("--rack", metavar="R", help="its rack (default: the next one in turn)")
    stopping = add("stop", _stop_request, "stop a broker by a controlled shutdown", "stop 2")
    stopping.add_argument("broker_id", metavar="ID", type=_broker_id, help="id of the broker")
    stopping.add_argument("--crash", action="store_true", help="close its connections at once; it is fenced when "
        "broker.session.timeout.ms is over")  # fmt: skip
    killing = add("kill", lambda given: ("POST", f"/brokers/{given.broker_id}/kill", None), "crash a broker. Its "
        "connections are closed at once. It is fenced after broker.session.timeout.ms", "kill 2")  # fmt: skip
    killing.add_argument("broker_id", metavar="ID", type=_broker_id, help="id of the broker")
    starting = add(
        "start",
        _start_request,
        "start a broker that is down. After a crash, this waits until its session has expired",
        "start 2",
    )
    starting.add_argument("broker_id", metavar="ID", type=_broker_id, help="id of the broker")
    removing = add("remove", lambda given: ("DELETE", f"/brokers/{given.broker_id}", None), "shut a broker down, if it "
        "is up, and unregister it", "remove 4")  # fmt: skip
    removing.add_argument("broker_id", metavar="ID", type=_broker_id, help="id of the broker")
    _add_topic_commands(add)
    add_fault_commands(commands, everywhere)
    add_clock_commands(commands, everywhere)
    add_steering_commands(add, commands, everywhere)
    add_twin_commands(commands, everywhere)
    return parser


def _add_topic_commands(add: Callable[[str, Any, str, str], argparse.ArgumentParser]) -> None:
    creating = add("create-topic", _topic_request, "create a topic", "create-topic orders --partitions 6")
    creating.add_argument("name", metavar="NAME", help="name of the topic")
    creating.add_argument("--partitions", metavar="N", type=_count, help="number of partitions (default: the broker's)")
    creating.add_argument("--replication-factor", metavar="N", type=_count, help="number of replicas of each partition "
        "(default: the broker's)")  # fmt: skip
    creating.add_argument("--config", metavar="KEY=VALUE", type=_config, dest="configs", action="append", default=[],
        help="a config of the topic; can be repeated (default: none)")  # fmt: skip
    deleting = add("delete-topic", lambda given: ("DELETE", topic_path(given.name), None), "delete a topic and its "
        "records", "delete-topic orders")  # fmt: skip
    deleting.add_argument("name", metavar="NAME", help="name of the topic")
    reading = add("records", _records_request, "print the records of a topic: partition, offset, key, value and "
        "headers. With --json, print pages, with bytes in base64", "records orders")  # fmt: skip
    reading.add_argument("topic", metavar="TOPIC", help="name of the topic")
    reading.add_argument("--partition", metavar="N", type=_index, help="a partition (default: all)")
    reading.add_argument("--isolation-level", metavar="LEVEL", choices=ISOLATION_LEVELS, default=ISOLATION_LEVELS[0],
        help=f"{ISOLATION_LEVELS[1]} omits aborted and open transactions "
        f"(default: {ISOLATION_LEVELS[0]})")  # fmt: skip
    asking = add("requests", lambda given: ("POST", "/requests", {"api": given.api}), "print the newest requests of "
        "clients, at most 10,000", "requests --api Produce")  # fmt: skip
    asking.add_argument("--api", metavar="NAME", help="requests of one API (default: of all)")
    telemetry = add("telemetry", _telemetry_request, "list clients that have pushed metrics, or print the latest "
        "metrics of one client", "telemetry")  # fmt: skip
    telemetry.add_argument("client_instance_id", metavar="CLIENT", nargs="?", help="client instance id (default: list "
        "the clients)")  # fmt: skip


def _telemetry_request(given: argparse.Namespace) -> tuple[str, str, None]:
    client = given.client_instance_id
    return "GET", "/telemetry" if client is None else f"/telemetry/{quote(client, safe='')}", None


def _topic_request(given: argparse.Namespace) -> tuple[str, str, dict[str, object]]:
    members = {"name": given.name, "num_partitions": given.partitions, "replication_factor": given.replication_factor}
    return "POST", "/topics", {**members, "configs": dict(given.configs)}


def _records_request(given: argparse.Namespace) -> tuple[str, str, dict[str, object]]:
    which = {"partition": given.partition, "isolation_level": given.isolation_level}
    return "POST", records_path(given.topic), which


def _count(text: str) -> int:
    return whole_number(text, 1, MAX_COUNT)


def _index(text: str) -> int:
    return whole_number(text, 0, MAX_COUNT)


def _config(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text[:40]!r}: KEY=VALUE is expected")
    return key, value


def _stop_request(given: argparse.Namespace) -> tuple[str, str, dict[str, object]]:
    return "POST", f"/brokers/{given.broker_id}/stop", {"mode": "crash" if given.crash else "shutdown"}


def _start_request(given: argparse.Namespace) -> tuple[str, str, None]:
    return "POST", f"/brokers/{given.broker_id}/start", None


def _broker_id(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > len(str(MAX_BROKER_ID)) or int(text) > MAX_BROKER_ID:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no broker id")
    return int(text)


def _tell(reason: object, exit_code: int) -> int:
    with suppress(OSError, AttributeError):  # there may be no stderr
        sys.stderr.write(f"klamm control: {printable(' '.join(str(reason).split()))}\n")
    return exit_code
