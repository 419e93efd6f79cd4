"""Stores the end offsets of partition logs, at which the logs begin after a restart. Records are not stored.

Two files are beside the metadata log. `log-end-offset-checkpoint` has the form of Kafka's checkpoints: the version, how
many entries follow, an entry on each line. Its entries have the ids of topics, because names come back. It is replaced
at a start and at a stop. `log-end-reservations` has what was reserved since (`klamm.broker.data.reservations`):
entries of 32 bytes that are only appended. The last one of a partition counts, instead of the checkpoint's.

A disk may lose any part of the entries that were not synced; no offset that needs them was acknowledged. An entry never
lies in two sectors, so it is stored whole or not. Zeros are an entry that was not stored; anything else with a wrong
checksum is damage.
"""

import os
import struct
import zlib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from klamm.controller.log.data_dir import replace_file, sync_dir
from klamm.controller.log.errors import LogError, os_errors_as_log_errors
from klamm.controller.metadata.partition import LogKey
from klamm.protocol.uuid import Uuid

CHECKPOINT: Final = "log-end-offset-checkpoint"
RESERVATIONS: Final = "log-end-reservations"
REPLACED_AFTER_ENTRIES: Final = 1_000_000
"""More appended entries than that, and than four times those of the checkpoint, are replaced by a new one."""
_VERSION: Final = "0"
_MAX_OFFSET: Final = 2**63 - 1
_ENTRY: Final = struct.Struct(">16siqI")
_CHECKED_BYTES: Final = _ENTRY.size - 4
_NOT_STORED: Final = bytes(_ENTRY.size)
_WITHOUT_IT: Final = "without the file partitions begin at 0"


class LogEndOffsets:
    """The two files of a data directory, whose lock is held. One thread at a time calls these methods."""

    def __init__(self, data_dir: Path) -> None:
        """Load what is stored into `loaded`, and begin with a new checkpoint and no entries. Raises LogError."""
        self._data_dir = data_dir
        self._path = data_dir / RESERVATIONS
        self._entries = 0
        self._long_at = REPLACED_AFTER_ENTRIES
        self.loaded = load_log_end_offsets(data_dir)
        with os_errors_as_log_errors("open", self._path):
            self._fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                if os.fstat(self._fd).st_size:
                    self.replace(self.loaded.items())
                sync_dir(data_dir)
            except BaseException:
                os.close(self._fd)
                raise

    def append(self, log_end_offsets: Collection[tuple[LogKey, int]]) -> None:
        """Store these offsets durably, in place of earlier ones of the same partitions. Raises LogError."""
        data = memoryview(b"".join(_encoded(key, offset) for key, offset in log_end_offsets))
        with os_errors_as_log_errors("write", self._path):
            while data:
                data = data[os.write(self._fd, data) :]
            os.fsync(self._fd)
        self._entries += len(log_end_offsets)

    @property
    def is_long(self) -> bool:
        """Whether `replace` should be called with the offsets of all partitions."""
        return self._entries > self._long_at

    def replace(self, log_end_offsets: Iterable[tuple[LogKey, int]]) -> None:
        """Store these offsets durably, and forget all others. Raises LogError."""
        entries = list(log_end_offsets)
        write_log_end_offsets(self._data_dir, entries)
        with os_errors_as_log_errors("write", self._path):
            os.ftruncate(self._fd, 0)
            os.fsync(self._fd)
        self._entries, self._long_at = 0, max(REPLACED_AFTER_ENTRIES, 4 * len(entries))

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def load_log_end_offsets(data_dir: Path) -> dict[LogKey, int]:
    """The stored offsets; empty if none were stored. Raises LogError if a file is damaged."""
    return {**_load_checkpoint(data_dir / CHECKPOINT), **_load_reservations(data_dir / RESERVATIONS)}


def _load_checkpoint(path: Path) -> dict[LogKey, int]:
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
                f"{path} line {number} is no topic id, partition and offset: {entry[:80]!r}; {_WITHOUT_IT}"
            ) from None
    return found


def _load_reservations(path: Path) -> dict[LogKey, int]:
    with os_errors_as_log_errors("read", path):
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return {}
    found: dict[LogKey, int] = {}
    # The last entry may be incomplete, if the process died while it wrote.
    for position in range(0, len(data) - _ENTRY.size + 1, _ENTRY.size):
        topic_id, partition_index, offset, checksum = _ENTRY.unpack_from(data, position)
        if checksum == zlib.crc32(data[position : position + _CHECKED_BYTES]):
            found[Uuid(topic_id), partition_index] = offset
        elif data[position : position + _ENTRY.size] != _NOT_STORED:
            raise LogError(f"{path} is damaged at byte {position}; {_WITHOUT_IT}")
    return found


def write_log_end_offsets(data_dir: Path, log_end_offsets: Collection[tuple[LogKey, int]]) -> None:
    """Replace the checkpoint. Raises LogError."""
    entries = [f"{topic_id} {partition} {offset}\n" for (topic_id, partition), offset in log_end_offsets]
    replace_file(data_dir / CHECKPOINT, f"{_VERSION}\n{len(entries)}\n{''.join(entries)}")


def _encoded(key: LogKey, offset: int) -> bytes:
    checked = _ENTRY.pack(*key, offset, 0)[:_CHECKED_BYTES]
    return checked + zlib.crc32(checked).to_bytes(4, "big")


def _number(text: str, most: int) -> int:
    if not text.isdigit() or int(text) > most:
        raise ValueError(text)
    return int(text)
