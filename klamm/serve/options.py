"""The options of `klamm serve`, decoded with the standard library alone; no file or port is opened here.

`klamm serve` must be ready within half a second, so typer and rich are not imported.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from klamm.cluster.options import (
    CLOCKS,
    MAX_BROKER_ID,
    MAX_BROKERS,
    MAX_SEED,
    MAX_START_MS,
    PROFILES,
    ClusterOptions,
    checked_broker_ids,
    checked_cluster_id,
    checked_log_file,
    checked_racks,
    checked_request_topic,
    checked_topic_pattern,
)
from klamm.cluster.security_options import checked_add_scram
from klamm.cluster.version_options import checked_kafka_version, checked_max_version, checked_metadata_version
from klamm.console.options import CommandParser, Once, UsageError, argument_of, file_path, whole_number
from klamm.controller.data_limits import (
    DEFAULT_DATA_LIMITS,
    DEFAULT_SNAPSHOT_RECORDS,
    MAX_DATA_BYTES,
    MAX_LOG_DIRS,
    MAX_REPLICATION_RATE,
    MAX_SNAPSHOT_RECORDS,
    MIN_DATA_MEMORY_BYTES,
)
from klamm.quick_dataclasses import dataclass
from klamm.serve.security_options import add_security, control_tls
from klamm.server.addresses import Address, decode_advertised, decode_listen, decode_listener

DEFAULT_LISTEN = Address("127.0.0.1", 9092)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions(ClusterOptions):
    """The options of `klamm serve`: those of the cluster, and those of its process."""

    control: Address | None = None
    control_token: Path | Literal[True] | None = None
    """The file with the token of the control interface; True: a new one. None: it needs none on a loopback
    address, and a new one elsewhere."""
    control_tls: Path | Literal["auto"] | None = None
    """The file with key and certificate of the control interface as PEM; auto: throw-away ones. None: plain HTTP."""
    follow: bool = False
    """Whether SIGHUP and the control interface make the twin begin again, with what its source has then."""
    stop_with_stdin: bool = False
    env: bool = False
    """Whether `KAFKA_…` environment variables are broker configs."""
    log_format: Literal["console", "json"] = "console"


def decode_serve_options(arguments: Sequence[str]) -> ServeOptions:
    """Decode the arguments after `klamm serve`. Raises `UsageError`; `--help` prints the help and exits."""
    given = vars(serve_parser().parse_args(arguments))
    for name, option in (("sets", "--set"), ("broker_sets", "--broker-set")):
        given[name] = tuple(given[name])
        _refuse_repeated_keys(option, given[name])
    given["listeners"] = tuple(given["listeners"])
    given["add_scram"] = checked_add_scram(given["add_scram"])
    given["users"] = tuple(dict(given["users"]).items())
    tls = given.pop("tls")
    if tls is not None:
        if given["security"] is not None:
            raise UsageError("argument --tls: it is a short form of --security; give one of the two")
        given["security"] = "sasl_ssl" if given["users"] else "ssl"
    if given["follow"] and given["twin"] is None:
        raise UsageError("argument --follow: it is for a twin: give its source with --twin")
    easy = "--tls" if tls is not None else "--security" if given["security"] is not None else "--user"
    if given["listeners"] and (given["security"] is not None or given["users"]):
        raise UsageError(f"argument --listener: {easy} is for one listener: give its address with --listen")
    if given["control_tls"] is not None and given["control"] is None:
        raise UsageError("argument --control-tls: it is for the interface that --control opens")
    if given["listeners"] and given["listen"] is not None:
        raise UsageError("argument --listener: --listen is its short form; give one of the two")
    return ServeOptions(**{name: value for name, value in given.items() if value is not None})


def serve_parser() -> CommandParser:
    """The options of `klamm serve`, in groups."""
    parser = CommandParser(
        prog="klamm serve",
        usage="klamm serve [OPTIONS]",
        description="Start a simulated Kafka cluster. When all listeners accept connections, it prints "
        "bootstrap.servers=HOST:PORT,…, with --controller-listener also "
        "controller.quorum.bootstrap.servers=HOST:PORT. With --control, the last line is control=http://HOST:PORT. "
        "SIGTERM or SIGINT stops the cluster.",
        example="klamm serve --brokers 3 --racks a,b,c --set num.partitions=6",
        add_help=False,
    )
    _add_cluster(parser.add_argument_group("cluster"))
    _add_addresses(parser.add_argument_group("addresses"))
    add_security(parser.add_argument_group("security"))
    _add_configs(parser.add_argument_group("broker configs"))
    _add_records(parser.add_argument_group("records and logs"))
    _add_tests(parser.add_argument_group("faults, time and journal"))
    add = parser.add_argument_group("process").add_argument
    add("--stop-with-stdin", action="store_true", help="also stop at the end of stdin")
    add(
        "--log-format",
        metavar="FORMAT",
        choices=("console", "json"),
        action=Once,
        help="console or json (default: console)",
    )
    add("-h", "--help", action="help", help="show this help and exit")
    return parser


def _add_cluster(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--brokers", metavar="N", type=_broker_count, action=Once,
        help=f"number of simulated brokers, 0 to {MAX_BROKERS} (default: 3)")  # fmt: skip
    add("--broker-ids", metavar="0,1,2", type=_broker_ids, action=Once, help="ids of the brokers (default: from 1 on)")
    add("--racks", metavar="A,B,C", type=_racks, action=Once,
        help="racks, assigned to the brokers in turn (default: none)")  # fmt: skip
    add("--seed", metavar="N", type=_seed, action=Once, help="for the same responses in each run (default: random)")
    add("--profile", metavar="kip|kafka", choices=PROFILES, action=Once,
        help="follow the KIPs or Apache Kafka 4.3 (default: kip)")  # fmt: skip
    add("--kafka-version", metavar="2.8", type=argument_of(checked_kafka_version), action=Once,
        help="behave like this release of Kafka (default: 4.3)")  # fmt: skip
    add("--max-version", metavar="API=N", type=argument_of(checked_max_version), action=Once,
        help="newest served version of an API (default: all)")  # fmt: skip
    add("--metadata-version", metavar="V", type=argument_of(checked_metadata_version), action=Once,
        help="metadata.version of a new log (default: the release's)")  # fmt: skip
    add("--kip-578-versions", action="store_true", help="also serve the API versions that KIP-578 adds")
    add("--real-topics", metavar="GLOB", type=argument_of(checked_topic_pattern), action=Once,
        help="topics that are on real brokers (default: *)")  # fmt: skip
    add("--dynamic-quorum", action="store_true", help="begin with kraft.version 1 (KIP-853)")
    add("--client-telemetry", action="store_true", help="ask clients for their metrics (KIP-714)")
    add("--cluster-id", metavar="ID", type=argument_of(checked_cluster_id), action=Once,
        help="id of a new cluster (default: generated)")  # fmt: skip
    add("--start-ms", metavar="MS", type=_start_ms, action=Once,
        help="time at the start, in ms since 1970 (default: now)")  # fmt: skip


def _add_addresses(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--listen",
        metavar="HOST:PORT",
        type=argument_of(decode_listen),
        action=Once,
        help="address of the first broker. The others use the next ports, with port 0 free ones "
        "(default: 127.0.0.1:9092)",
    )
    add(
        "--listener",
        metavar="NAME://HOST:PORT",
        dest="listeners",
        type=argument_of(decode_listener),
        action="append",
        default=[],
        help="a listener, can be repeated (default: --listen)",
    )
    add(
        "--advertise",
        metavar="HOST[:PORT]",
        type=argument_of(decode_advertised),
        action=Once,
        help="address for clients (default: that of --listen)",
    )
    add(
        "--controller-listener",
        metavar="HOST:PORT",
        type=argument_of(decode_listen),
        action=Once,
        help="the controller's own listener (default: none)",
    )
    add(
        "--control",
        metavar="HOST:PORT",
        type=argument_of(decode_listen),
        action=Once,
        help="address of the control interface (default: none)",
    )
    add(
        "--control-token",
        metavar="FILE",
        type=file_path,
        nargs="?",
        const=True,
        action=Once,
        help="file with its token (default: new, off loopback)",
    )
    add(
        "--control-tls",
        metavar="auto|FILE",
        type=control_tls,
        action=Once,
        help="auto, or a PEM file with key and chain (default: none)",
    )


def _add_configs(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--set",
        metavar="KEY=VALUE",
        dest="sets",
        action="append",
        default=[],
        help="a config of all brokers, can be repeated. It overrides --env, which overrides --config",
    )
    add(
        "--broker-set",
        metavar="ID:KEY=VALUE",
        dest="broker_sets",
        action="append",
        default=[],
        help="a config of one broker, can be repeated",
    )
    add(
        "--env",
        action="store_true",
        help="read variables such as KAFKA_NUM_PARTITIONS=3",
    )
    add("--config", metavar="FILE", type=file_path, action=Once, help="a server.properties file (default: none)")


def _add_records(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    limits = DEFAULT_DATA_LIMITS
    add(
        "--replication-rate",
        metavar="N",
        type=_replication_rate,
        action=Once,
        help=f"messages per second of a follower (default: {limits.replication_rate})",
    )
    add(
        "--log-dirs",
        metavar="N",
        type=_log_dirs,
        action=Once,
        help="log directories per broker (default: log.dirs)",
    )
    add(
        "--data-memory-bytes",
        metavar="N",
        type=_memory_bytes,
        action=Once,
        help=f"memory for records, in bytes (default: {limits.memory_bytes})",
    )
    add(
        "--data-file-bytes",
        metavar="N",
        type=_file_bytes,
        action=Once,
        help=f"further records, in a file (default: {limits.file_bytes})",
    )
    add(
        "--data-dir", metavar="DIR", type=file_path, action=Once, help="directory of the metadata log (default: memory)"
    )
    add(
        "--twin",
        metavar="PATH",
        type=file_path,
        action=Once,
        help="metadata to begin with (default: none)",
    )
    add("--follow", action="store_true", help="SIGHUP and `klamm control twin restart`: begin again with the present "
        "metadata of --twin")  # fmt: skip
    add(
        "--snapshot-records",
        metavar="N",
        type=_snapshot_records,
        action=Once,
        help=f"records between snapshots, 0: no snapshots (default: {DEFAULT_SNAPSHOT_RECORDS})",
    )
    _add_logs(add)


def _add_logs(add: Callable[..., object]) -> None:
    add("--keep-history", action="store_true", help="snapshots delete nothing from the metadata log")
    add(
        "--request-log",
        metavar="FILE",
        type=_log_file,
        action=Once,
        help="write a JSON line for each request (default: none)",
    )
    add(
        "--request-topic",
        metavar="NAME",
        type=argument_of(checked_request_topic),
        action=Once,
        help="the same lines as records of a topic (default: none)",
    )


def _add_tests(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--faults",
        metavar="FILE",
        type=file_path,
        action=Once,
        help="fault rules that apply from the start (default: none)",
    )
    add(
        "--clock",
        metavar="real|manual",
        choices=CLOCKS,
        action=Once,
        help="manual: klamm control clock advance (default: real)",
    )
    add("--journal-bodies", action="store_true", help="keep the bodies of the newest requests and answers")


def _refuse_repeated_keys(option: str, assignments: Sequence[str]) -> None:
    keys = [assignment.partition("=")[0].strip() for assignment in assignments]
    for key in keys:
        if key and keys.count(key) > 1:  # load_settings refuses an empty key
            raise UsageError(f"argument {option}: {key} is given twice")


def _broker_count(text: str) -> int:
    return whole_number(text, 0, MAX_BROKERS)


def _replication_rate(text: str) -> int:
    return whole_number(text, 1, MAX_REPLICATION_RATE)


def _log_dirs(text: str) -> int:
    return whole_number(text, 1, MAX_LOG_DIRS)


def _memory_bytes(text: str) -> int:
    return whole_number(text, MIN_DATA_MEMORY_BYTES, MAX_DATA_BYTES)


def _file_bytes(text: str) -> int:
    return whole_number(text, 0, MAX_DATA_BYTES)


def _snapshot_records(text: str) -> int:
    return whole_number(text, 0, MAX_SNAPSHOT_RECORDS)


def _seed(text: str) -> int:
    return whole_number(text, 0, MAX_SEED)


def _log_file(text: str) -> Path:
    try:
        return checked_log_file(file_path(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _start_ms(text: str) -> int:
    return whole_number(text, 0, MAX_START_MS)


def _broker_ids(text: str) -> tuple[int, ...]:
    try:
        return checked_broker_ids([whole_number(one, 0, MAX_BROKER_ID) for one in text.split(",")])
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text[:40]!r}: {error}") from None


def _racks(text: str) -> tuple[str, ...]:
    try:
        return checked_racks(text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text[:40]!r}: {error}") from None
