"""Assignments that a client names itself: checked as Apache Kafka 4.3 checks them, with its texts (KIP-195, KIP-464).

A request cannot ask for placeholders: a negative id is a broker that is not registered.
"""

from collections.abc import Sequence

from klamm.controller.metadata.image import MetadataImage
from klamm.protocol.errors import ApiError, ErrorCode


def validate_manual_replicas(
    image: MetadataImage, broker_ids: Sequence[int], replication_factor: int | None
) -> ApiError | None:
    """INVALID_REPLICA_ASSIGNMENT for a list that is empty, names a broker twice, names a broker that is not registered,
    or is not `replication_factor` long (None, for the first list: any length)."""
    if not broker_ids:
        return _bad_assignment("The manual partition assignment includes an empty replica list.")
    previous = None
    for broker_id in sorted(broker_ids):
        if broker_id == previous:
            return _bad_assignment(f"The manual partition assignment includes the broker {broker_id} more than once.")
        if broker_id not in image.brokers:
            return _bad_assignment(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            )
        previous = broker_id
    if replication_factor is not None and len(broker_ids) != replication_factor:
        return _bad_assignment(
            f"The manual partition assignment includes a partition with {len(broker_ids)} replica(s), but this is "
            f"not consistent with previous partitions, which have {replication_factor} replica(s)."
        )
    return None


def validate_some_live(image: MetadataImage, partition_index: int, broker_ids: Sequence[int]) -> ApiError | None:
    """INVALID_REPLICA_ASSIGNMENT if no broker of a manual assignment could lead the partition."""
    if any(image.brokers[broker_id].live for broker_id in broker_ids):
        return None
    return _bad_assignment(
        f"All brokers specified in the manual partition assignment for partition {partition_index} are fenced or in "
        "controlled shutdown."
    )


def _bad_assignment(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
