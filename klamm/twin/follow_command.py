"""`klamm follow`: keeps a copy of a cluster's metadata log, as an observer of its controllers (docs/twins.md).

Exit codes: 0 after an interrupt or SIGTERM, and with --once when the copy has caught up; 1 if the cluster cannot be
followed into this directory any more, with the reason in one line on stderr; 2 for a wrong call or wrong properties.
"""

import argparse
import math
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import trio

from klamm.admin.client_configs import InvalidClientProperties
from klamm.admin.client_properties import command_properties
from klamm.admin.connection import Connection, open_connection
from klamm.admin.security import ClientSecurity
from klamm.admin.streams import ConnectionLost
from klamm.cluster.options import checked_cluster_id
from klamm.console.options import CommandParser, Once, argument_of, file_path, whole_number
from klamm.controller.log.errors import LogError
from klamm.protocol.printable import printable
from klamm.server.addresses import Address, decode_listen
from klamm.twin.followed_log import FollowedLog
from klamm.twin.follower import Follower
from klamm.twin.leader import NotFollowable

CLIENT_ID: Final = "klamm-follow"
MAX_ANSWER_BYTES: Final = 100 << 20
CONNECT_SECONDS: Final = 10.0
ONCE_TIMEOUT_SECONDS: Final = 30
MAX_TIMEOUT_SECONDS: Final = 86_400
EXIT_DONE, EXIT_FAILED, EXIT_WRONG_CALL = 0, 1, 2


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """The parsed options of `klamm follow`."""

    controllers: Sequence[Address]
    data_dir: Path
    command_config: Path | None
    cluster_id: str | None
    once: bool
    timeout_seconds: float
    """So long without progress end the call; inf: it goes on trying."""


def follow_parser() -> CommandParser:
    """The options of `klamm follow`."""
    parser = CommandParser(
        prog="klamm follow",
        description="Keep a copy of the metadata log of a Kafka cluster without ZooKeeper (3.3 or newer), until it "
        "is interrupted. Klamm reads as a broker does, and changes nothing. The controllers list it among their "
        "observers for some minutes.",
        example="klamm follow --bootstrap-controller prod:9093 --data-dir copy",
    )
    add = parser.add_argument
    add("--bootstrap-controller", metavar="HOST:PORT,…", type=argument_of(_addresses), action=Once, required=True,
        help="controllers of the cluster. Klamm finds the leading one")  # fmt: skip
    add("--data-dir", metavar="DIR", type=file_path, action=Once, required=True,
        help="the directory of the copy: a new one, or that of an earlier call")  # fmt: skip
    add("--command-config", metavar="FILE", type=file_path, action=Once,
        help="settings of a Kafka client: security.protocol, ssl.…, sasl.… (default: none)")  # fmt: skip
    add(
        "--cluster-id",
        metavar="ID",
        type=argument_of(checked_cluster_id),
        action=Once,
        help="the id of the cluster. Needed for controllers before 3.7 (default: the id that the cluster returns)",
    )
    add("--once", action="store_true", help="end when the copy has all committed records")
    add("--timeout", metavar="SECONDS", type=lambda text: whole_number(text, 1, MAX_TIMEOUT_SECONDS), action=Once,
        help=f"time limit without progress (default: {ONCE_TIMEOUT_SECONDS} with --once, otherwise none)")  # fmt: skip
    return parser


def decode_follow_options(arguments: Sequence[str]) -> FollowOptions:
    """The options after `klamm follow`. Raises UsageError."""
    given: argparse.Namespace = follow_parser().parse_args(arguments)
    return FollowOptions(
        given.bootstrap_controller,
        given.data_dir,
        given.command_config,
        given.cluster_id,
        given.once,
        given.timeout or (ONCE_TIMEOUT_SECONDS if given.once else math.inf),
    )


def _addresses(text: str) -> Sequence[Address]:
    found = [decode_listen(one) for one in text.split(",")]
    for one in found:
        if one.is_wildcard or not one.port:
            raise ValueError(f"{one} is not an address to connect to")
    return found


def follow_command(options: FollowOptions) -> int:
    """Run `klamm follow` with these options; returns the exit code."""
    try:
        properties = command_properties(options.command_config)
        log = FollowedLog(options.data_dir)
    except InvalidClientProperties as error:
        _say(str(error))
        return EXIT_WRONG_CALL
    except LogError as error:
        return _say_failed(error)
    if properties.warning is not None:
        _say(f"warning: {options.command_config}: {properties.warning}")
    try:
        if log.broken_bytes:
            _say(
                f"{log.damage}. The copy is whole up to offset {log.end_offset}, and the records from there on "
                "are fetched again"
            )
        trio.run(_follow, log, options, properties.security)
    except (LogError, NotFollowable) as error:
        return _say_failed(error)
    finally:
        log.close()
    held = f"ends at offset {log.end_offset} in epoch {log.last_epoch}" if log.end_offset else "has nothing yet"
    _say(f"the copy {held}")
    return EXIT_DONE


async def _follow(log: FollowedLog, options: FollowOptions, security: ClientSecurity) -> None:
    """Until a signal ends it. Raises LogError and NotFollowable, which the nursery would put into a group."""
    connect = partial(_connect, security)
    follower = Follower(log, options.controllers, connect, _say, options.cluster_id, options.timeout_seconds)
    failure: LogError | NotFollowable | None = None
    try:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_end_at_a_signal, signals, nursery.cancel_scope)
                try:
                    await follower.follow(until_caught_up=options.once)
                except (LogError, NotFollowable) as error:
                    failure = error
                nursery.cancel_scope.cancel()
    finally:
        log.keep_state()
    if failure is not None:
        raise failure


async def _end_at_a_signal(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    async for _ in signals:
        scope.cancel()
        return


async def _connect(security: ClientSecurity, address: Address) -> Connection:
    try:
        with trio.fail_after(CONNECT_SECONDS):
            return await open_connection(address, CLIENT_ID, MAX_ANSWER_BYTES, security)
    except trio.TooSlowError:
        raise ConnectionLost(f"cannot connect to {address} within {CONNECT_SECONDS:g} s") from None


def _say(line: str) -> None:
    sys.stderr.write(f"klamm follow: {printable(line)}\n")
    sys.stderr.flush()


def _say_failed(reason: object) -> int:
    _say(str(reason))
    return EXIT_FAILED
