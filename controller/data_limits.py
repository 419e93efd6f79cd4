"""How much record data a cluster keeps, and how fast its replicas fetch it; how long its metadata log grows.

Standard library alone: the command line is read before anything heavy is imported.
"""

from dataclasses import dataclass
from typing import Final

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class DataLimits:
    """The bounds of one cluster."""

    replication_rate: int = 1_000_000
    """Messages that each follower fetches in a second, of each partition."""
    bytes_per_partition: int = 16 * MIB
    """Of record batches; the oldest go when there would be more. The newest one stays, whatever its size."""
    bytes_in_all: int = 1024 * MIB
    """Of record batches in all partitions: a partition makes room out of its own oldest ones, or nothing is written."""


DEFAULT_DATA_LIMITS: Final = DataLimits()
DEFAULT_SNAPSHOT_RECORDS: Final = 200_000
"""About 25 MB of log: as much as a start replays in less than a second."""
MAX_SNAPSHOT_RECORDS: Final = 2**31 - 1
MAX_REPLICATION_RATE: Final = 10**9
MAX_DATA_BYTES: Final = 2**40
