"""The largest size of a placement. Every algorithm checks it before it allocates memory."""

from typing import Final

from klamm.assignment.errors import CannotPlace, CannotPlaceReason
from klamm.assignment.wording import counted

MAX_PLACED_REPLICAS: Final = 100_000_000
"""Replicas (partitions × replication factor) in one placement: the result takes 400 MB."""
_INT32_MAX: Final = 2**31 - 1


def validate_size(partitions: int, replication_factor: int, first_partition: int = 0) -> None:
    """Raises CannotPlace, INVALID_PARTITIONS, for more replicas or higher partition ids than a placement can hold."""
    replicas = max(partitions, 1) * replication_factor
    if replicas > MAX_PLACED_REPLICAS:
        raise CannotPlace(
            CannotPlaceReason.INVALID_PARTITIONS,
            f"{counted(partitions, 'partition')} with replication factor {replication_factor} would be {replicas} "
            f"replicas, more than {MAX_PLACED_REPLICAS} at once.",
        )
    if max(first_partition, 0) + partitions > _INT32_MAX:
        raise CannotPlace(
            CannotPlaceReason.INVALID_PARTITIONS,
            f"{counted(partitions, 'partition')} from {first_partition} on would go beyond the last partition id, "
            f"{_INT32_MAX - 1}.",
        )
