"""How much record data a cluster keeps, how fast replicas fetch it, and after how many records a snapshot is taken.

This module imports the standard library only, because the command line is read before slow imports.
"""

from typing import Final

from klamm.quick_dataclasses import dataclass

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class DataLimits:
    """The bounds of one cluster."""

    replication_rate: int = 1_000_000
    """Messages per second that each follower fetches of each partition."""
    memory_bytes: int = 256 * MIB
    """Most memory for record batches. Beyond it, the oldest batches are in files."""
    file_bytes: int = 16 * 1024 * MIB
    """Most bytes of record batches in files. Without room in them, nothing is written."""


DEFAULT_DATA_LIMITS: Final = DataLimits()
DEFAULT_SNAPSHOT_RECORDS: Final = 200_000
"""About 25 MB of log: as much as a start replays in less than a second."""
MAX_SNAPSHOT_RECORDS: Final = 2**31 - 1
MAX_LOG_DIRS: Final = 100
"""The most log directories of one broker."""
MAX_REPLICATION_RATE: Final = 10**9
MIN_DATA_MEMORY_BYTES: Final = MIB
"""As much as one batch of the default max.message.bytes."""
MAX_DATA_BYTES: Final = 2**40
