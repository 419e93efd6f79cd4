"""`klamm control fault …`: add, list, show, remove and wait for fault rules. The standard library alone."""

import argparse
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from klamm.console.options import CommandParser, whole_number
from klamm.protocol.printable import printable

MAX_COUNT = 2**31 - 1
MAX_WAIT_SECONDS = 300
_TEXTS: Mapping[str, str] = {
    "id": "its id (default: fault-N)",
    "versions": "only these versions of the API, such as 3-9",
    "listener": "only requests on this listener",
    "client-id": "only requests of this client id, * stands for any characters",
    "software-name": "only requests of this client software",
    "software-version": "only requests of this version of a client software",
    "principal": "only requests of this principal",
    "topic": "only items of this topic, * stands for any characters",
    "group": "only items of this group",
    "transactional-id": "only items of this transactional id",
    "error": "refuse with this error, such as NOT_LEADER_OR_FOLLOWER",
    "answer": "none, close, half, flipped_frame, flipped_batch or other_correlation_id",
}
_NUMBERS: Mapping[str, str] = {
    "skip": "ignore the first N matches",
    "times": "end after N hits",
    "every": "take the first match, and every Nth after it",
    "for-ms": "end after N ms on the controller's clock",
    "throttle-time-ms": "throttle time in the response, in ms",
}
_DEFAULTS: Mapping[str, str] = {"skip": "0", "times": "no end", "every": "1", "for-ms": "no end"}
_FLAGS: Mapping[str, str] = {
    "whole": "refuse the whole request, not only the items that match",
    "after": "process the request first, then apply the fault",
    "stale-metadata": "answer with the metadata of the time when the rule was added",
}


def add_fault_commands(commands: Any, everywhere: CommandParser) -> None:
    """Add `fault` with its own commands."""
    parser = commands.add_parser(
        "fault",
        parents=[everywhere],
        help="add, list, show, remove and wait for fault rules",
        description="Fault rules make requests fail (docs/faults.md).",
        example="klamm control fault add --api Produce --error REQUEST_TIMED_OUT",
    )
    below = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def add(name: str, request: Callable[[argparse.Namespace], Any], text: str, example: str) -> CommandParser:
        command: CommandParser = below.add_parser(
            name, parents=[everywhere], help=text, description=text, example=f"klamm control fault {example}"
        )
        command.set_defaults(request=request)
        return command

    _add_members(
        add("add", _add_request, "add a rule. It applies from the next request on", "add --api Metadata --delay-ms 500")
    )
    add("list", lambda _: ("GET", "/faults", None), "list all rules in their order, with their hits", "list")
    for name, method, text in (
        ("show", "GET", "print a rule and its newest hits"),
        ("remove", "DELETE", "remove a rule"),
    ):
        one = add(name, _request_of(method), text, f"{name} fault-1")
        one.add_argument("rule_id", metavar="ID", help="id of the rule")
    add("clear", lambda _: ("DELETE", "/faults", None), "remove all rules", "clear")
    waiting = add(
        "wait",
        _wait_request,
        "wait until a rule has hits. The exit code is 1 after the time limit",
        "wait fault-1 --hits 3",
    )
    waiting.add_argument("rule_id", metavar="ID", help="id of the rule")
    waiting.add_argument("--hits", metavar="N", type=_count, default=1, help="number of hits (default: 1)")
    waiting.add_argument("--seconds", metavar="S", type=_seconds, default=10, help="the longest wait (default: 10)")


def _add_members(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--api", metavar="NAME", action="append", help="only this API, can be repeated (default: all)")
    add("--broker", metavar="ID", type=_index, action="append", help="only this broker, can be repeated (default: any)")
    add(
        "--partition",
        metavar="N",
        type=_index,
        action="append",
        help="only this partition, can be repeated (default: any)",
    )
    add("--where", metavar="PATH=VALUE", type=_assignment, action="append", help="only requests with this JSON "
        "value at this path, can be repeated (default: any)")  # fmt: skip
    add("--set", metavar="PATH=VALUE", type=_assignment, action="append", help="set a value of the response, can be "
        "repeated (default: none)")  # fmt: skip
    add("--delay-ms", metavar="MS", type=_delay, help='delay before the request: a number, {"min": …, "max": …}, '
        '{"mean": …} or {"mean": …, "deviation": …} (default: 0)')  # fmt: skip
    add("--probability", metavar="P", type=_probability, help="take a match with this probability (default: 1)")
    for name, text in _TEXTS.items():
        default = "" if "default" in text else " (default: none)" if name in ("error", "answer") else " (default: any)"
        add(f"--{name}", metavar="TEXT", help=text + default)
    for name, text in _NUMBERS.items():
        add(f"--{name}", metavar="N", type=_index, help=f"{text} (default: {_DEFAULTS.get(name, 'none')})")
    for name, text in _FLAGS.items():
        add(f"--{name}", action="store_true", help=text)


def _add_request(given: argparse.Namespace) -> tuple[str, str, dict[str, object]]:
    flags = [name.replace("-", "_") for name in _FLAGS]
    names = [name.replace("-", "_") for name in (*_TEXTS, *_NUMBERS)]
    members: dict[str, object] = {name: getattr(given, name) or None for name in flags}
    names += ["api", "broker", "partition", "delay_ms", "probability"]
    members |= {name: getattr(given, name) for name in names}
    members |= {name: dict(pairs) for name in ("where", "set") if (pairs := getattr(given, name))}
    return "POST", "/faults", {name: value for name, value in members.items() if value is not None}


def _request_of(method: str) -> Callable[[argparse.Namespace], tuple[str, str, None]]:
    return lambda given: (method, f"/faults/{quote(given.rule_id, safe='')}", None)


def _wait_request(given: argparse.Namespace) -> tuple[str, str, dict[str, object]]:
    path = f"/faults/{quote(given.rule_id, safe='')}/wait"
    return "POST", path, {"hits": given.hits, "timeout_ms": given.seconds * 1000}


def _count(text: str) -> int:
    return whole_number(text, 1, MAX_COUNT)


def _index(text: str) -> int:
    return whole_number(text, 0, MAX_COUNT)


def _seconds(text: str) -> int:
    return whole_number(text, 0, MAX_WAIT_SECONDS)


def _probability(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number") from None


def _delay(text: str) -> object:
    value = _json(text)
    if isinstance(value, str):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no delay")
    return value


def _assignment(text: str) -> tuple[str, object]:
    path, equals, value = text.partition("=")
    if not path or not equals:
        raise argparse.ArgumentTypeError(f"{text[:40]!r}: PATH=VALUE is expected")
    return path, _json(value)


def _json(text: str) -> object:
    """The JSON value of a text; a text that is no JSON is a string."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def faults_text(content: Mapping[str, Any]) -> str:
    """A line for each rule: id, state, hits, and its members."""
    lines = []
    for rule in content["faults"]:
        members = printable(json.dumps(rule["rule"], ensure_ascii=False))
        lines.append(f"{rule['id']}  {rule['state']}  hits {rule['hits']}  {members}\n")
    return "".join(lines)


def fault_text(content: Mapping[str, Any]) -> str:
    """The line of a rule, and one for each of its newest hits."""
    lines = [faults_text({"faults": [content]})]
    for hit in content["requests"]:
        broker = "controller" if hit["broker_id"] is None else f"broker {hit['broker_id']}"
        client = "-" if hit["client_id"] is None else hit["client_id"]
        items = " ".join(hit["items"][:20])
        lines.append(printable(f"  {hit['api']} v{hit['api_version']}  {client}  {broker}  {items}").rstrip() + "\n")
    return "".join(lines)
