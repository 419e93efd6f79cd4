"""The log directories of replicas in records (KIP-858).

A replica without a known directory is in MIGRATING, which is also what a record without directories says. So records
leave the directories out where no replica has one. Below metadata.version 3.7-IV2 no replica has one, because brokers
register without directories.
"""

from collections.abc import Iterable

from klamm.controller.metadata.broker import MIGRATING_DIRECTORY
from klamm.protocol.uuid import Uuid


def has_directories(directories: Iterable[Uuid]) -> bool:
    """Whether a record has to contain these directories of a partition's replicas."""
    return any(directory != MIGRATING_DIRECTORY for directory in directories)
