"""`klamm clone`: writes what the admin APIs show of a cluster as a metadata log (docs/twins.md).

Exit codes: 0; 1 if the cluster or the directory cannot be used, with the reason in one line on stderr; 2 for a wrong
call.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from klamm.admin.client import AdminClient
from klamm.admin.client_configs import InvalidClientProperties
from klamm.admin.client_properties import ClientProperties, command_properties
from klamm.admin.errors import AdminError, RequestFailed
from klamm.cluster.twin_configs import STATIC_CONFIGS_FILE
from klamm.console.options import CommandParser, Once, file_path
from klamm.controller.log.data_dir import (
    CLONE_ID,
    LOG_FOLDER,
    META_PROPERTIES,
    create_data_dir,
    foreign_file,
    remove_empty_dirs,
    replace_file,
)
from klamm.controller.log.epoch import encode_leader_change
from klamm.controller.log.errors import LogError, os_errors_as_log_errors
from klamm.controller.log.segment_files import segment_path
from klamm.protocol.errors import ErrorCode
from klamm.protocol.printable import printable
from klamm.reassign.options import bootstrap_servers
from klamm.twin.clone import EPOCH, Cloned, clone, log_bytes
from klamm.twin.log_dir_sizes import SIZES_FILE

CLIENT_ID: Final = "klamm-clone"
ANSWER_SECONDS: Final = 60.0
EXIT_DONE, EXIT_FAILED, EXIT_WRONG_CALL = 0, 1, 2


@dataclass(frozen=True, slots=True)
class CloneOptions:
    """The parsed options of `klamm clone`."""

    bootstrap_servers: str
    out: Path
    command_config: Path | None


def clone_parser() -> CommandParser:
    """The options of `klamm clone`."""
    parser = CommandParser(
        prog="klamm clone",
        description="Write the metadata of a Kafka cluster as a log: brokers, racks, topics, placements, configs, "
        "ACLs, quotas and sizes, as far as the admin APIs show them, and the static configs of brokers in a file "
        "beside the log. Klamm changes nothing in the cluster.",
        example="klamm clone --bootstrap-server prod:9092 --out copy",
    )
    add = parser.add_argument
    add("--bootstrap-server", metavar="HOST:PORT,…", type=bootstrap_servers, action=Once, required=True,
        help="brokers of the cluster")  # fmt: skip
    add("--out", metavar="DIR", type=file_path, action=Once, required=True, help="a new or empty directory")
    add("--command-config", metavar="FILE", type=file_path, action=Once,
        help="settings of a Kafka client: security.protocol, ssl.…, sasl.… (default: none)")  # fmt: skip
    return parser


def decode_clone_options(arguments: Sequence[str]) -> CloneOptions:
    """The options after `klamm clone`. Raises UsageError."""
    given: argparse.Namespace = clone_parser().parse_args(arguments)
    return CloneOptions(given.bootstrap_server, given.out, given.command_config)


def clone_command(options: CloneOptions) -> int:
    """Run `klamm clone` with these options; returns the exit code."""
    try:
        properties = command_properties(options.command_config)
        made = _made(options.out)
        try:
            cloned = trio.run(_clone, options, properties)
            _write(options.out, cloned)
        except BaseException:
            remove_empty_dirs(made)
            raise
    except InvalidClientProperties as error:
        return _say(str(error), EXIT_WRONG_CALL)
    except RequestFailed as error:
        is_of_a_controller = error.code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
        return _say(_of_a_controller(options) if is_of_a_controller else str(error), EXIT_FAILED)
    except (AdminError, LogError) as error:
        return _say(str(error), EXIT_FAILED)
    for part in cloned.missing:
        _say(f"not shown by the cluster: {part}", EXIT_DONE)
    for line in cloned.static.lines():
        _say(line, EXIT_DONE)
    return _say(f"{len(cloned.records)} records of cluster {cloned.cluster_id} are in {options.out}", EXIT_DONE)


async def _clone(options: CloneOptions, properties: ClientProperties) -> Cloned:
    client = AdminClient(
        options.bootstrap_servers,
        client_id=properties.client_id or CLIENT_ID,
        request_timeout_seconds=ANSWER_SECONDS,
        properties=properties,
    )
    async with client as admin:
        return await clone(admin)


def _of_a_controller(options: CloneOptions) -> str:
    return (
        f"{options.bootstrap_servers} is the address of a controller, not of a broker: klamm follow copies from "
        "controllers"
    )


def _made(out: Path) -> Sequence[Path]:
    """Make the directory before the cluster is asked; returns the directories that were made. Raises LogError."""
    made = create_data_dir(out)
    name = foreign_file(out)
    if name is not None:
        raise LogError(f"{out} is not empty (it holds {name!r})")
    return made


def _write(out: Path, cloned: Cloned) -> None:
    """The log comes last, so that no twin begins with half a clone. Raises LogError, and leaves `out` as it was."""
    before = set(out.iterdir())
    sizes = [[str(partition), size] for partition, size in cloned.sizes.items()]
    try:
        replace_file(out / META_PROPERTIES, f"version=1\nnode.id={CLONE_ID}\ncluster.id={cloned.cluster_id}\n")
        replace_file(out / SIZES_FILE, json.dumps(sizes) + "\n")
        replace_file(out / STATIC_CONFIGS_FILE, cloned.static.stored().as_text() + "\n")
        _write_log(segment_path(out / LOG_FOLDER, 0), cloned)
    except LogError:
        with suppress(OSError):
            for path in set(out.iterdir()) - before:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        raise


def _write_log(path: Path, cloned: Cloned) -> None:
    now_ms = time.time_ns() // 1_000_000
    part = path.with_suffix(".part")
    with os_errors_as_log_errors("write", path):
        path.parent.mkdir()
        part.write_bytes(log_bytes(cloned.records, now_ms, encode_leader_change(0, EPOCH, now_ms)))
        part.replace(path)


def _say(line: str, exit_code: int) -> int:
    sys.stderr.write(f"klamm clone: {printable(line)}\n")
    return exit_code
