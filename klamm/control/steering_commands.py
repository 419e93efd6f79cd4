"""`klamm control` for steering by hand and for waits: `leader`, `isr`, `replication`, `fence`, `wait` and others. The
standard library alone."""

import argparse
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from klamm.console.options import CommandParser, UsageError, whole_number
from klamm.protocol.printable import printable

MAX_NUMBER = 2**31 - 1
MAX_WAIT_SECONDS = 300
Add = Callable[[str, Any, str, str], argparse.ArgumentParser]


def add_steering_commands(add: Add, commands: Any, everywhere: CommandParser) -> None:
    """Add the commands."""
    leading = add("leader", _leader, "make a member of the ISR the leader of a partition", "leader orders 0 2")
    _add_partition(leading)
    leading.add_argument("broker_id", metavar="ID", type=_number, help="id of the broker")
    syncing = add("isr", _isr, "add a replica to an ISR, or keep a replica out of it. Without an option, print the "
        "partition",
        "isr orders 0 --remove 2")  # fmt: skip
    _add_partition(syncing)
    either = syncing.add_mutually_exclusive_group()
    either.add_argument("--add", metavar="ID", type=_number, help="add this broker's replica (default: none)")
    either.add_argument("--remove", metavar="ID", type=_number, help="remove this broker's replica, and keep it out "
        "(default: none)")  # fmt: skip
    rating = add("replication", _rate, "set the messages per second that a broker's followers fetch from each "
        "partition",
        "replication 2 --rate 0")  # fmt: skip
    rating.add_argument("broker_id", metavar="ID", type=_number, help="id of the broker")
    rating.add_argument("--rate", metavar="N", type=_number, help="messages per second; 0: none (default: as others)")
    for name, text in (
        ("fence", "fence a broker that is up, and stop its heartbeats"),
        ("unfence", "let a broker send heartbeats again"),
        ("expire-session", "fence a broker as if its session had expired"),
    ):
        one = add(name, _on_broker(name), text, f"{name} 2")
        one.add_argument("broker_id", metavar="ID", type=_number, help="id of the broker")
    disk = add("disk", _disk, "take a broker's disk away, or bring it back", "disk 2 --away")
    disk.add_argument("broker_id", metavar="ID", type=_number, help="id of the broker")
    where = disk.add_mutually_exclusive_group(required=True)
    where.add_argument("--away", action="store_true", help="answer KAFKA_STORAGE_ERROR to requests for records")
    where.add_argument("--back", action="store_true", help="serve records again")
    text = "let a log directory of a broker fail, or repair it. Without an option, list them"
    directory = add("log-dir", _log_dir, text, "log-dir 2 /tmp/kafka-logs-1 --offline")
    directory.add_argument("broker_id", metavar="ID", type=_number, help="id of the broker")
    directory.add_argument("log_dir", metavar="PATH", nargs="?", help="its path (default: list all)")
    state = directory.add_mutually_exclusive_group()
    state.add_argument("--offline", action="store_true", help="its disk fails; its leaderships move")
    state.add_argument("--repaired", action="store_true", help="the broker uses it from its next start on")
    rehash = add("rehash-coordinators", lambda given: ("POST", "/coordinators/rehash",
        {} if given.of is None else {"of": given.of}), "move the coordinators of groups, transactional ids and share "
        "groups to other brokers", "rehash-coordinators --of groups")  # fmt: skip
    rehash.add_argument("--of", metavar="KIND", help="groups, transactions or 'share groups' (default: all)")
    cleaned = ("POST", "/logs/clean", None)
    add(
        "clean-logs",
        lambda _: cleaned,
        "apply retention and compaction at once, by the configs of each topic",
        "clean-logs",
    )
    text = "abort an open transaction as if it had timed out"
    timing = add("time-out-transaction", _time_out, text, "time-out-transaction orders-1")
    timing.add_argument("transactional_id", metavar="ID", help="its transactional id")
    _add_waits(commands, everywhere)


def _add_waits(commands: Any, everywhere: CommandParser) -> None:
    text = "wait for a topic, an ISR, a group or the end of reassignments"
    parser = commands.add_parser(
        "wait", parents=[everywhere], help=text, description=text, example="klamm control wait isr orders"
    )
    below = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def add(name: str, request: Any, text: str, example: str) -> CommandParser:
        command: CommandParser = below.add_parser(
            name, parents=[everywhere], help=text, description=f"{text}. The exit code is 1 after the time limit.",
            example=f"klamm control wait {example}",
        )  # fmt: skip
        command.set_defaults(request=request)
        command.add_argument("--seconds", metavar="S", type=_seconds, default=10, help="the longest wait (default: 10)")
        return command

    topic = add("topic", _wait_topic, "wait until a topic exists", "topic orders --partitions 6")
    topic.add_argument("topic", metavar="TOPIC", help="name of the topic")
    topic.add_argument("--partitions", metavar="N", type=_number, default=1, help="with so many (default: 1)")
    isr = add("isr", _wait_isr, "wait until all replicas are in sync", "isr orders")
    isr.add_argument("topic", metavar="TOPIC", help="name of the topic")
    isr.add_argument("--partition", metavar="N", type=_number, help="of one partition (default: of all)")
    group = add("group", _wait_group, "wait until a group is stable", "group billing --members 2")
    group.add_argument("group", metavar="GROUP", help="id of the group")
    group.add_argument("--members", metavar="N", type=_number, default=1, help="with so many members (default: 1)")
    group.add_argument("--state", metavar="STATE", default="Stable", help="another state (default: Stable)")
    moves = add("reassignments", _wait_moves, "wait until no reassignment is in progress", "reassignments")
    moves.add_argument("--topic", metavar="TOPIC", help="of one topic (default: of all)")


def _add_partition(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="name of the topic")
    parser.add_argument("partition", metavar="PARTITION", type=_number, help="index of the partition")


def _leader(given: argparse.Namespace) -> tuple[str, str, dict[str, object]]:
    return "POST", f"{_partition(given)}/leader", {"broker": given.broker_id}


def _isr(given: argparse.Namespace) -> tuple[str, str, dict[str, object] | None]:
    if given.add is None and given.remove is None:
        return "GET", _partition(given), None
    body: dict[str, object] = {"add": given.add} if given.remove is None else {"remove": given.remove}
    return "POST", f"{_partition(given)}/isr", body


def _rate(given: argparse.Namespace) -> tuple[str, str, dict[str, object]]:
    return "POST", f"/brokers/{given.broker_id}/replication", {"rate": given.rate}


def _disk(given: argparse.Namespace) -> tuple[str, str, dict[str, object]]:
    return "POST", f"/brokers/{given.broker_id}/disk", {"away": given.away}


def _log_dir(given: argparse.Namespace) -> tuple[str, str, dict[str, object] | None]:
    path = f"/brokers/{given.broker_id}/log-dirs"
    if given.log_dir is None and not given.offline and not given.repaired:
        return "GET", path, None
    if given.log_dir is None or not (given.offline or given.repaired):
        raise UsageError("PATH and one of --offline and --repaired are expected together")
    return "POST", path, {"log_dir": given.log_dir, "failed": given.offline}


def log_dirs_text(content: Mapping[str, Any]) -> str:
    """The lines of a broker's log directories."""
    lines = []
    for one in content["log_dirs"]:
        state = "online" if one["online"] else "offline"
        waits = "" if one["failed"] is not one["online"] else ", until a restart"
        lines.append(f"{printable(str(one['log_dir']))}  {one['directory_id']}  {state}{waits}\n")
    return "".join(lines)


def _on_broker(name: str) -> Callable[[argparse.Namespace], tuple[str, str, None]]:
    return lambda given: ("POST", f"/brokers/{given.broker_id}/{name}", None)


def _wait_topic(given: argparse.Namespace) -> tuple[str, str, dict[str, object]]:
    return "POST", f"/topics/{_quoted(given.topic)}/wait", {"num_partitions": given.partitions, **_timeout(given)}


def _wait_isr(given: argparse.Namespace) -> tuple[str, str, dict[str, object]]:
    return "POST", f"/topics/{_quoted(given.topic)}/isr/wait", {"partition": given.partition, **_timeout(given)}


def _wait_group(given: argparse.Namespace) -> tuple[str, str, dict[str, object]]:
    body = {"members": given.members, "state": given.state, **_timeout(given)}
    return "POST", f"/groups/{_quoted(given.group)}/wait", body


def _wait_moves(given: argparse.Namespace) -> tuple[str, str, dict[str, object]]:
    return "POST", "/reassignments/wait", {"topic": given.topic, **_timeout(given)}


def _time_out(given: argparse.Namespace) -> tuple[str, str, None]:
    return "POST", f"/transactions/{_quoted(given.transactional_id)}/time-out", None


def _timeout(given: argparse.Namespace) -> dict[str, object]:
    return {"timeout_ms": given.seconds * 1000}


def _partition(given: argparse.Namespace) -> str:
    return f"/topics/{_quoted(given.topic)}/partitions/{given.partition}"


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _number(text: str) -> int:
    return whole_number(text, 0, MAX_NUMBER)


def _seconds(text: str) -> int:
    return whole_number(text, 0, MAX_WAIT_SECONDS)


def partition_text(content: Mapping[str, Any]) -> str:
    """The line of a partition."""
    name = printable(f"{content['topic']}-{content['partition']}")
    replicas, isr = (",".join(map(str, content[member])) for member in ("replicas", "isr"))
    return f"{name}  leader {content['leader']}  epoch {content['leader_epoch']}  replicas {replicas}  isr {isr}\n"
