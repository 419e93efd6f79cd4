"""Stores the end offsets of partition logs, at which the logs begin after a restart. Records are not stored.

A file beside the metadata log in the form of Kafka's checkpoints: the version, how many entries follow, an entry on
each line. Topics stand there by id, because names come back. What is written, and when, is decided by
`klamm.server.log_end_keeper`.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Final

from klamm.controller.log.data_dir import replace_file
from klamm.controller.log.errors import LogError, os_errors_as_log_errors
from klamm.controller.metadata.partition import LogKey
from klamm.protocol.uuid import Uuid

CHECKPOINT: Final = "log-end-offset-checkpoint"
_VERSION: Final = "0"
_MAX_OFFSET: Final = 2**63 - 1


def load_log_end_offsets(data_dir: Path) -> dict[LogKey, int]:
    """The stored offsets; empty if none were stored. Raises LogError if the file is damaged."""
    path = data_dir / CHECKPOINT
    with os_errors_as_log_errors("read", path):
        try:
            lines = path.read_bytes().decode("ascii", "replace").splitlines()
        except FileNotFoundError:
            return {}
    version, count, entries = "".join(lines[:1]), "".join(lines[1:2]), lines[2:]
    if version != _VERSION or count != str(len(entries)):
        raise LogError(f"{path} is no checkpoint of version {_VERSION} that is whole; without it partitions begin at 0")
    found: dict[LogKey, int] = {}
    for number, entry in enumerate(entries, start=3):
        try:
            topic_id, partition_index, offset = entry.split(" ")
            found[Uuid.from_text(topic_id), _number(partition_index, 2**31 - 1)] = _number(offset, _MAX_OFFSET)
        except ValueError:
            raise LogError(
                f"{path} line {number} is no topic id, partition and offset: {entry[:80]!r}; without the file "
                "partitions begin at 0"
            ) from None
    return found


def write_log_end_offsets(data_dir: Path, log_end_offsets: Collection[tuple[LogKey, int]]) -> None:
    """Replace the stored offsets. Raises LogError."""
    entries = [f"{topic_id} {partition} {offset}\n" for (topic_id, partition), offset in log_end_offsets]
    replace_file(data_dir / CHECKPOINT, f"{_VERSION}\n{len(entries)}\n{''.join(entries)}")


def _number(text: str, most: int) -> int:
    if not text.isdigit() or int(text) > most:
        raise ValueError(text)
    return int(text)
