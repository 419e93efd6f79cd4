"""`--execute`, `--verify`, `--list` and `--cancel`, with the behaviour and the output lines of Apache Kafka's tool.

Scripts search for these lines; Klamm prints further ones between them. Moves between the log directories of a broker
are in `klamm.reassign.directories`.
"""

from collections.abc import Sequence
from typing import Any, Final

from klamm.admin.client import AdminClient
from klamm.admin.errors import AdminError, RequestFailed
from klamm.admin.partition_types import PartitionReassignment, PartitionResult, TopicPartition
from klamm.admin.types import ClusterMetadata
from klamm.reassign.directories import (
    describe_moves,
    moves_in_progress,
    named_directories,
    refuse_unknown_directories,
    start_moves,
)
from klamm.reassign.files import Target, as_file, as_text
from klamm.reassign.report import ReassignFailed, Report, as_object, joined
from klamm.reassign.throttles import clear_throttles, set_throttle

MOST_REFUSALS_SHOWN: Final = 5

Assignment = dict[TopicPartition, tuple[int, ...]]


async def execute(
    admin: AdminClient,
    targets: Sequence[Target],
    *,
    additional: bool,
    throttle: int | None,
    allow_replication_factor_change: bool,
    timeout_ms: int,
) -> Report:
    """Start the reassignments of the file.

    The report has the assignment before them, even if the cluster refuses the reassignments. Raises ReassignFailed.
    """
    in_progress = await admin.list_partition_reassignments()
    if in_progress and not additional:
        raise ReassignFailed(
            f"reassignments are in progress ({_partitions(len(in_progress))}); with --additional the file is executed "
            "as well, and a partition that is in both gets the target of the file"
        )
    seen = await admin.metadata(_topic_names(targets))
    _refuse_unknown_brokers(targets, seen)
    current = _known_replicas(targets, seen)
    named = named_directories(targets)
    await refuse_unknown_directories(admin, named)
    lines = [
        *("Current partition replica assignment", "", as_text(as_file(current)), ""),
        "Save this output. To undo the reassignment, pass it as --reassignment-json-file.",
    ]
    content: dict[str, Any] = {"current": as_file(current), "throttle": throttle, "started": [], "refused": []}
    try:
        if throttle is not None:
            await set_throttle(admin, throttle, targets, current, in_progress)
            lines.append(f"Replication is limited to {throttle} B/s; --verify removes the limit after the last move.")
        results = await admin.alter_partition_reassignments(
            {target.partition: target.replicas for target in targets},
            allow_replication_factor_change=allow_replication_factor_change,
            timeout_ms=timeout_ms,
        )
    except AdminError as error:
        return Report(tuple(lines), content, str(error))
    started = sorted(result.partition for result in results if result.error is None)
    if started:
        lines.append(f"Successfully started partition {_reassignments(started)} for {joined(started)}")
    content["started"] = [as_object(partition) for partition in started]
    content["refused"] = _refused(results)
    failure = _refusal(results)
    if named and failure is None:
        moved, failure = await start_moves(admin, named, timeout_ms)
        lines += moved
    return Report(tuple(lines), content, failure)


async def verify(admin: AdminClient, targets: Sequence[Target], *, preserve_throttles: bool) -> Report:
    """Report for each partition whether its reassignment is complete. Removes throttles if no reassignment is in
    progress in the whole cluster."""
    in_progress = await admin.list_partition_reassignments()
    moving = {move.partition for move in in_progress}
    replicas = _replicas(await admin.metadata(_topic_names(targets)))
    lines, described = ["Status of partition reassignment:"], []
    for target in sorted(targets):
        is_moving, found = target.partition in moving, replicas.get(target.partition, ())
        is_done = not is_moving and found == target.replicas
        lines.append(_verified(target, found, is_moving))
        described.append({
            **as_object(target.partition),
            "target": list(target.replicas),
            "replicas": list(found),
            "in_progress": is_moving,
            "completed": is_done,
        })  # fmt: skip
    content: dict[str, Any] = {"partitions": described, "in_progress": bool(in_progress), "cleared": None}
    moved, objects = await describe_moves(admin, named_directories(targets))
    lines += moved or [""]
    if objects:
        content["log_dirs"] = objects
    if in_progress or preserve_throttles or not all(one["completed"] for one in objects):
        return Report(tuple(lines), content)
    cleared, content["cleared"], failure = await clear_throttles(admin, _topic_names(targets))
    return Report((*lines, *cleared), content, failure)


def _verified(target: Target, found: tuple[int, ...], is_moving: bool) -> str:
    if is_moving:
        return f"Reassignment of partition {target.partition} is still in progress."
    if found == target.replicas:
        return f"Reassignment of partition {target.partition} is completed."
    return (
        f"There is no active reassignment of partition {target.partition}, but replica set is {joined(found)} "
        f"rather than {joined(target.replicas)}."
    )


async def list_moves(admin: AdminClient) -> Report:
    """Report all reassignments in progress."""
    moves = sorted(await admin.list_partition_reassignments(), key=lambda move: move.partition)
    heading = "Current partition reassignments:" if moves else "No partition reassignments found."
    described = [
        {
            **as_object(move.partition),
            "replicas": list(move.replicas),
            "adding_replicas": list(move.adding_replicas),
            "removing_replicas": list(move.removing_replicas),
        }
        for move in moves
    ]
    return Report((heading, *map(_listed, moves)), {"reassignments": described})


def _listed(move: PartitionReassignment) -> str:
    adding = f" adding: {joined(move.adding_replicas)}." if move.adding_replicas else ""
    removing = f" removing: {joined(move.removing_replicas)}." if move.removing_replicas else ""
    return f"{move.partition}: replicas: {joined(move.replicas)}.{adding}{removing}"


async def cancel(admin: AdminClient, targets: Sequence[Target], *, preserve_throttles: bool, timeout_ms: int) -> Report:
    """Cancel the reassignments of the file that are in progress; its other partitions are ignored."""
    wanted = [target.partition for target in targets]
    moving = [move.partition for move in await admin.list_partition_reassignments(wanted)]
    results: tuple[PartitionResult, ...] = ()
    if moving:
        results = await admin.alter_partition_reassignments(dict.fromkeys(moving), timeout_ms=timeout_ms)
    cancelled = sorted(result.partition for result in results if result.error is None)
    lines = []
    if cancelled:
        lines.append(f"Successfully cancelled partition {_reassignments(cancelled)} for: {joined(cancelled)}")
    elif not moving:
        lines.append("None of the specified partition reassignments are active.")
    stays = await moves_in_progress(admin, named_directories(targets))
    stopped, failure = await start_moves(admin, stays, timeout_ms)
    lines += stopped
    content: dict[str, Any] = {
        "cancelled": [as_object(partition) for partition in cancelled],
        "refused": _refused(results),
        "cleared": None,
    }
    if preserve_throttles or content["refused"] or failure:
        return Report(tuple(lines), content, _refusal(results) or failure)
    cleared, content["cleared"], failure = await clear_throttles(admin, _topic_names(targets))
    return Report((*lines, *cleared), content, failure)


def _topic_names(targets: Sequence[Target]) -> list[str]:
    return sorted({target.partition.topic_name for target in targets})


def _replicas(seen: ClusterMetadata) -> Assignment:
    return {
        TopicPartition(topic.topic_name or "", partition.partition_index): partition.replicas
        for topic in seen.topics
        for partition in topic.partitions
    }


def _known_replicas(targets: Sequence[Target], seen: ClusterMetadata) -> Assignment:
    """The current replicas of the targets' partitions. Raises ReassignFailed for a partition that does not exist."""
    for topic in seen.topics:
        topic.raise_for_error()
    replicas = _replicas(seen)
    for target in targets:
        if target.partition not in replicas:
            raise ReassignFailed(f"there is no partition {target.partition}")
    return {target.partition: replicas[target.partition] for target in targets}


def _refuse_unknown_brokers(targets: Sequence[Target], seen: ClusterMetadata) -> None:
    live = {broker.broker_id for broker in seen.brokers}
    for target in targets:
        for broker_id in target.replicas:
            if broker_id not in live:
                raise ReassignFailed(f"broker {broker_id}, wanted for {target.partition}, is not live")


def _refused(results: Sequence[PartitionResult]) -> list[dict[str, Any]]:
    return [
        {**as_object(result.partition), "error": result.error.code.name, "message": result.error.message}
        for result in results
        if result.error is not None
    ]


def _refusal(results: Sequence[PartitionResult]) -> str | None:
    refused = [RequestFailed(str(result.partition), result.error) for result in results if result.error is not None]
    if not refused:
        return None
    more = f"; and {len(refused) - MOST_REFUSALS_SHOWN} more" if len(refused) > MOST_REFUSALS_SHOWN else ""
    shown = "; ".join(map(str, refused[:MOST_REFUSALS_SHOWN]))
    were = "was" if len(refused) == 1 else "were"
    return f"{len(refused)} of {_partitions(len(results))} {were} refused: {shown}{more}"


def _partitions(number: int) -> str:
    # Not `klamm.assignment.wording.counted`, because importing NumPy takes as long as all the rest.
    return "1 partition" if number == 1 else f"{number} partitions"


def _reassignments(partitions: Sequence[TopicPartition]) -> str:
    return "reassignment" if len(partitions) == 1 else "reassignments"
