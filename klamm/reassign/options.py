"""The command line of `klamm reassign-partitions`: its options, and which of them can be combined.

Standard library alone. A wrong command line raises `UsageError`, whose text is one line. The combinations are those of
Apache Kafka's tool; --progress, --watch and --json are Klamm's.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

from klamm.console.options import CommandParser, Once, UsageError
from klamm.reassign.files import MAX_INT32
from klamm.server.addresses import decode_address

DEFAULT_TIMEOUT_MS: Final = 10_000
MAX_THROTTLE: Final = 2**63 - 1
ZOOKEEPER_REFUSED: Final = (
    "--zookeeper is deprecated and not supported, because Kafka no longer uses ZooKeeper: use --bootstrap-server"
)


class Action(Enum):
    """The action of a run; the value is its option."""

    GENERATE = "--generate"
    EXECUTE = "--execute"
    VERIFY = "--verify"
    PROGRESS = "--progress"
    WATCH = "--watch"
    LIST = "--list"
    CANCEL = "--cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignOptions:
    """The options of `klamm reassign-partitions`. Options that the action does not use have their defaults."""

    bootstrap_servers: str
    action: Action
    command_config: Path | None = None
    """The properties file of the client; None: PLAINTEXT."""
    reassignment_file: Path | None = None
    topics_file: Path | None = None
    broker_list: tuple[int, ...] = ()
    disable_rack_aware: bool = False
    additional: bool = False
    allow_replication_factor_change: bool = True
    throttle: int | None = None
    """The replication throttle, in bytes per second and broker; None: no throttle is set."""
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    preserve_throttles: bool = False
    watch: bool = False
    """After --execute, watch the reassignments until they are complete."""
    as_json: bool = False


_ACTIONS: Final = {
    Action.GENERATE: "print the current assignment of topics and a proposed one on the listed brokers. Change nothing",
    Action.EXECUTE: "start the reassignments of the file",
    Action.VERIFY: "print which reassignments of the file are complete. Remove throttles if none is in progress",
    Action.PROGRESS: "print the lag of each replica of the file once",
    Action.WATCH: "show the lags until all replicas are in sync (exit code 0) or have a permanent error (1). Can be "
    "combined with --execute",
    Action.LIST: "list all reassignments in progress",
    Action.CANCEL: "cancel the reassignments of the file that are in progress, and remove throttles",
}
# The options that an action needs or allows, in addition to --bootstrap-server and --json.
_NEEDED: Final = {
    Action.GENERATE: {"topics_file", "broker_list"},
    Action.EXECUTE: {"reassignment_file"},
    Action.VERIFY: {"reassignment_file"},
    Action.PROGRESS: {"reassignment_file"},
    Action.WATCH: {"reassignment_file"},
    Action.LIST: set[str](),
    Action.CANCEL: {"reassignment_file"},
}
_ALLOWED: Final = {
    Action.GENERATE: {"disable_rack_aware"},
    Action.EXECUTE: {"additional", "throttle", "timeout_ms", "disallow_replication_factor_change", "watch"},
    Action.VERIFY: {"preserve_throttles"},
    Action.PROGRESS: {"watch"},
    Action.WATCH: set[str](),
    Action.LIST: set[str](),
    Action.CANCEL: {"preserve_throttles", "timeout_ms"},
}
_OPTIONS: Final = {
    "reassignment_file": "--reassignment-json-file",
    "topics_file": "--topics-to-move-json-file",
    "broker_list": "--broker-list",
    "disable_rack_aware": "--disable-rack-aware",
    "additional": "--additional",
    "throttle": "--throttle",
    "timeout_ms": "--timeout",
    "disallow_replication_factor_change": "--disallow-replication-factor-change",
    "preserve_throttles": "--preserve-throttles",
    "watch": "--watch",
}


def decode_reassign_options(arguments: Sequence[str]) -> ReassignOptions:
    """Decode the arguments after `klamm reassign-partitions`; `--help` prints the help and exits.

    Raises `UsageError`; --zookeeper is refused before any other check.
    """
    if any(one == "--zookeeper" or one.startswith("--zookeeper=") for one in arguments):
        raise UsageError(ZOOKEEPER_REFUSED)
    given = vars(reassign_parser().parse_args(arguments))
    action = _action(given)
    _check_together(action, {name for name in _OPTIONS if given[name] is not None and given[name] is not False})
    if given["bootstrap_servers"] is None:
        raise UsageError("--bootstrap-server is needed")
    watches = action in (Action.PROGRESS, Action.WATCH) and given["watch"]
    return ReassignOptions(
        bootstrap_servers=given["bootstrap_servers"],
        action=Action.WATCH if watches else action,
        command_config=given["command_config"],
        reassignment_file=given["reassignment_file"],
        topics_file=given["topics_file"],
        broker_list=given["broker_list"] or (),
        disable_rack_aware=given["disable_rack_aware"],
        additional=given["additional"],
        allow_replication_factor_change=not given["disallow_replication_factor_change"],
        throttle=given["throttle"],
        timeout_ms=DEFAULT_TIMEOUT_MS if given["timeout_ms"] is None else given["timeout_ms"],
        preserve_throttles=given["preserve_throttles"],
        watch=given["watch"],
        as_json=given["as_json"],
    )


def _action(given: dict[str, Any]) -> Action:
    """The action. --watch is the action if it is given alone, and an option of --execute and --progress."""
    asked = [action for action in Action if given[action.name.lower()]]
    actions = [action for action in asked if action is not Action.WATCH] or asked
    if len(actions) == 1:
        return actions[0]
    choice = "--generate, --execute, --verify, --progress, --watch, --list or --cancel"
    if actions:
        raise UsageError(f"{' and '.join(action.value for action in actions)} cannot be used together")
    raise UsageError(f"an action is needed: {choice}")


def _check_together(action: Action, given: set[str]) -> None:
    given -= {"watch"} if action is Action.WATCH else set()
    for name, option in _OPTIONS.items():
        if name in _NEEDED[action] and name not in given:
            raise UsageError(f"{action.value} needs {option}")
        if name in given - _NEEDED[action] - _ALLOWED[action]:
            raise UsageError(f"{option} cannot be used with {action.value}")


def reassign_parser() -> CommandParser:
    """The options of `klamm reassign-partitions`."""
    parser = CommandParser(
        prog="klamm reassign-partitions",
        usage="klamm reassign-partitions --bootstrap-server HOST:PORT ACTION [OPTIONS]",
        description="Move partitions of a Kafka cluster between brokers and show the progress. File formats, output "
        "and exit codes are those of Apache Kafka's tool: 0 success, 1 failure, with the reason on stderr.",
        example="klamm reassign-partitions --bootstrap-server localhost:9092 --list",
        add_help=False,
    )
    cluster = parser.add_argument_group("cluster")
    cluster.add_argument("--bootstrap-server", metavar="HOST:PORT,…", dest="bootstrap_servers", type=bootstrap_servers,
        action=Once, help="brokers of the cluster")  # fmt: skip
    cluster.add_argument("--command-config", metavar="FILE", type=_path, action=Once,
        help="settings of a Kafka client: security.protocol, ssl.…, sasl.… (default: none)")  # fmt: skip
    actions = parser.add_argument_group("actions")
    for action, text in _ACTIONS.items():
        actions.add_argument(action.value, action="store_true", help=text)
    add = parser.add_argument_group("what to move").add_argument
    add("--reassignment-json-file", metavar="FILE", dest="reassignment_file", type=_path, action=Once,
        help='the moves: {"version":1, "partitions":[{"topic":"orders", "partition":0, "replicas":[1,2]},'
        "…]}")  # fmt: skip
    add("--topics-to-move-json-file", metavar="FILE", dest="topics_file", type=_path, action=Once,
        help='for --generate: {"version":1, "topics":[{"topic":"orders"},…]}')  # fmt: skip
    add("--broker-list", metavar="1,2,3", type=_broker_ids, action=Once, help="for --generate: the brokers to use")
    add("--disable-rack-aware", action="store_true", help="for --generate: ignore the brokers' racks")
    add = parser.add_argument_group("how").add_argument
    add("--additional", action="store_true",
        help="for --execute: execute the file even if other reassignments are in progress")  # fmt: skip
    add("--throttle", metavar="BYTES", type=_throttle, action=Once,
        help="for --execute: limit of the bytes per second from and to each broker (default: no limit)")  # fmt: skip
    add("--disallow-replication-factor-change", action="store_true",
        help="for --execute: refuse reassignments that change the replication factor")  # fmt: skip
    add(
        "--timeout",
        metavar="MS",
        dest="timeout_ms",
        type=_timeout,
        action=Once,
        help=f"for --execute and --cancel: time limit for the controller, in ms (default: {DEFAULT_TIMEOUT_MS})",
    )
    add("--preserve-throttles", action="store_true", help="for --verify and --cancel: do not remove throttles")
    add = parser.add_argument_group("output").add_argument
    add("--json", dest="as_json", action="store_true", help="print JSON, one object per line")
    add("--zookeeper", metavar="HOST:PORT", help="not supported, use --bootstrap-server")
    add("-h", "--help", action="help", help="show this help and exit")
    return parser


def bootstrap_servers(text: str) -> str:
    """Addresses of brokers, separated by commas; used as `type=` of an argument."""
    for one in text.split(","):
        try:
            decode_address(one.strip())
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _path(text: str) -> Path:
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError(f"{text!r} is no path")
    return Path(text)


def _broker_ids(text: str) -> tuple[int, ...]:
    ids = tuple(_whole_number(one.strip(), MAX_INT32) for one in text.split(","))
    for broker_id in ids:
        if ids.count(broker_id) > 1:
            raise argparse.ArgumentTypeError(f"broker {broker_id} is given twice")
    return ids


def _throttle(text: str) -> int:
    return _whole_number(text, MAX_THROTTLE)


def _timeout(text: str) -> int:
    return _whole_number(text, MAX_INT32)


def _whole_number(text: str, highest: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > len(str(highest)) or int(text) > highest:
        raise argparse.ArgumentTypeError(f"{text[:40]!r}: a whole number from 0 to {highest} is expected")
    return int(text)
