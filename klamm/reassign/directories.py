"""Moves between the log directories of a broker, for the `log_dirs` of a file: with the lines of Apache Kafka's tool.

A replica that a reassignment has just placed on a broker can be moved only when it is there, so a refused start is
repeated until the time is over.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import trio

from klamm.admin.client import AdminClient
from klamm.admin.errors import RequestFailed
from klamm.admin.partition_types import LogDir, TopicPartition, TopicPartitionReplica
from klamm.protocol.errors import ErrorCode
from klamm.reassign.files import ANY_LOG_DIR, Target
from klamm.reassign.report import ReassignFailed, as_object

ASK_AGAIN_SECONDS: Final = 0.1
MOST_NAMED: Final = 5

Directories = Mapping[TopicPartitionReplica, str]
"""The path of the directory that each replica shall be in."""


def named_directories(targets: Sequence[Target]) -> dict[TopicPartitionReplica, str]:
    """The directories that the file names; "any" names none."""
    return {
        TopicPartitionReplica(*target.partition, broker_id): log_dir
        for target in targets
        for broker_id, log_dir in zip(target.replicas, target.log_dirs, strict=True)
        if log_dir != ANY_LOG_DIR
    }


async def refuse_unknown_directories(admin: AdminClient, named: Directories) -> None:
    """Raises ReassignFailed for a directory that its broker does not have."""
    if not named:
        return
    paths: dict[int, list[str]] = {}
    for log_dir in await admin.describe_log_dirs(sorted({one.broker_id for one in named}), partitions=()):
        paths.setdefault(log_dir.broker_id, []).append(log_dir.path)
    for replica, path in named.items():
        known = paths.get(replica.broker_id, [])
        if path not in known:
            there = ", ".join(known[:MOST_NAMED]) or "none"
            raise ReassignFailed(
                f"{replica.partition}: broker {replica.broker_id} has no log directory {path!r}; it has {there}"
            )


async def start_moves(admin: AdminClient, named: Directories, timeout_ms: int) -> tuple[list[str], str | None]:
    """Start the moves. Returns lines, and why some were not started; None: all were."""
    lines: list[str] = []
    left = dict(named)
    deadline = trio.current_time() + timeout_ms / 1000
    while left:
        failure = await _start(admin, left, lines)
        if failure is not None:
            return lines, failure
        if left and trio.current_time() >= deadline:
            break
        await trio.sleep(ASK_AGAIN_SECONDS if left else 0)
    if not left:
        return lines, None
    moves = "move" if len(left) == 1 else "moves"
    return lines, f"Timed out before log directory {moves} could be started for: {','.join(map(_shown, sorted(left)))}"


async def _start(admin: AdminClient, left: dict[TopicPartitionReplica, str], lines: list[str]) -> str | None:
    """One attempt: moves that have begun are removed from `left`. Returns why one cannot begin."""
    for result in sorted(await admin.alter_replica_log_dirs(left), key=lambda one: one.replica):
        replica, error = result.replica, result.error
        if error is not None and error.code is not ErrorCode.REPLICA_NOT_AVAILABLE:
            return f"Failed to alter dir for {_shown(replica)}: {RequestFailed(str(replica.partition), error)}"
        if error is None:
            where = f"{replica.topic_name}-{replica.partition_index} with broker {replica.broker_id}"
            lines.append(f"Successfully started moving log directory to {left.pop(replica)} for replica {where} ")
    return None


async def describe_moves(admin: AdminClient, named: Directories) -> tuple[list[str], list[dict[str, Any]]]:
    """A line and an object for each replica for which the file names a directory."""
    if not named:
        return [], []
    partitions = sorted({replica.partition for replica in named})
    found = await admin.describe_log_dirs(sorted({one.broker_id for one in named}), partitions=partitions)
    present, future = _places(found, is_future=False), _places(found, is_future=True)
    lines, objects = [], []
    for replica in sorted(named):
        path, now, then = named[replica], present.get(replica), future.get(replica)
        lines.append(_state(replica, path, now, then))
        objects.append({
            **as_object(replica.partition), "broker": replica.broker_id, "target": path, "log_dir": now,
            "future_log_dir": then, "completed": now == path and then is None,
        })  # fmt: skip
    return lines, objects


async def moves_in_progress(admin: AdminClient, named: Directories) -> dict[TopicPartitionReplica, str]:
    """The replicas for which the file names a directory and that are being moved, with their present directory."""
    if not named:
        return {}
    partitions = sorted({replica.partition for replica in named})
    found = await admin.describe_log_dirs(sorted({one.broker_id for one in named}), partitions=partitions)
    present, future = _places(found, is_future=False), _places(found, is_future=True)
    return {replica: present[replica] for replica in named if replica in future and replica in present}


def _places(found: Sequence[LogDir], *, is_future: bool) -> dict[TopicPartitionReplica, str]:
    return {
        TopicPartitionReplica(*replica.partition, log_dir.broker_id): log_dir.path
        for log_dir in found
        for replica in log_dir.replicas
        if replica.is_future is is_future
    }


def _state(replica: TopicPartitionReplica, path: str, now: str | None, then: str | None) -> str:
    place = f"Partition {TopicPartition(*replica[:2])}"
    if now is None and then is None:
        return (
            f"{place} is not found in any live log dir on broker {replica.broker_id}. There is likely an offline log "
            "directory on the broker."
        )
    if now is None:
        return f"{place} cannot be found in any live log directory on broker {replica.broker_id}."
    if then is not None and then != path:
        return f"{place} on broker {replica.broker_id} is being moved to log dir {then} instead of {path}."
    if then is not None:
        return f"Reassignment of replica {_shown(replica)} is still in progress."
    if now != path:
        return f"{place} on broker {replica.broker_id} is not being moved from log dir {now} to {path}."
    return f"Reassignment of replica {_shown(replica)} completed successfully."


def _shown(replica: TopicPartitionReplica) -> str:
    return f"{replica.topic_name}-{replica.partition_index}-{replica.broker_id}"
