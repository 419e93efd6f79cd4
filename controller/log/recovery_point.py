"""The recovery point: an offset up to which the metadata log is known to be durable, in a file beside the segments.

After a loss of power, a start needs it to tell two cases apart. A batch that is broken above the recovery point was not
durable when the power went, so no answer that depends on it has left, and the log ends there, whatever the disk has
stored of the batches behind it. A batch that is broken below the recovery point was durable once: the log is corrupt.

The log writes the file after each sync, in place, and does not sync it: it may be old after a loss of power, which is
safe, because an older recovery point claims less. Operating systems write such a file back by themselves (Linux within
half a minute). A start syncs it. The file has the leader epoch, too: if quorum-state has a higher one, another program,
such as Apache Kafka, has written the log since, and the recovery point says nothing about its batches.
"""

import contextlib
import os
import re
from pathlib import Path
from typing import Final

from klamm.controller.log.errors import os_errors_as_log_errors

RECOVERY_POINT: Final = "recovery-point-checkpoint"
_FORM: Final = re.compile(rb"0\n(\d{20}) (\d{10})\n")
"""Version, offset and leader epoch. All contents have one size, within the part of a disk that is written at once."""
_SIZE_BYTES: Final = 34


def load_recovery_point(log_folder: Path, least_epoch: int) -> int | None:
    """The offset below which every batch was durable. None: that is not known, because there is no file, it was not
    stored completely, or it is of an epoch below `least_epoch`. Raises LogError."""
    path = log_folder / RECOVERY_POINT
    with os_errors_as_log_errors("read", path):
        try:
            with path.open("rb") as file:
                content = file.read(_SIZE_BYTES + 1)
        except FileNotFoundError:
            return None
    found = _FORM.fullmatch(content)
    return int(found[1]) if found and int(found[2]) >= least_epoch else None


class RecoveryPoint:
    """The file while a log is open. One thread at a time writes it."""

    def __init__(self, log_folder: Path, leader_epoch: int) -> None:
        """Make the file, or open the one that is there. Raises LogError."""
        self.path = log_folder / RECOVERY_POINT
        self._epoch = leader_epoch
        with os_errors_as_log_errors("open", self.path):
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def write(self, offset: int) -> None:
        """Note that every batch below `offset` is durable. Raises LogError."""
        with os_errors_as_log_errors("write", self.path):
            os.pwrite(self._fd, b"0\n%020d %010d\n" % (offset, self._epoch), 0)

    def sync(self) -> None:
        """Make the file durable, but not its directory entry. Raises LogError."""
        with os_errors_as_log_errors("sync", self.path):
            os.fsync(self._fd)

    def close(self) -> None:
        """Close the file. The operating system writes it back."""
        with contextlib.suppress(OSError):
            os.close(self._fd)
