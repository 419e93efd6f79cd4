"""Why a placement cannot be. One exception with an enumerated reason; no Kafka error codes in this room.

Wrong arguments of ours (a shift below zero, a view with duplicates) are ValueError: they are bugs, not answers.
"""

from enum import Enum


class CannotPlaceReason(Enum):
    """What stands in the way; the names are those that `klamm assign` prints."""

    INVALID_PARTITIONS = "INVALID_PARTITIONS"
    INVALID_REPLICATION_FACTOR = "INVALID_REPLICATION_FACTOR"
    POLICY_VIOLATION = "POLICY_VIOLATION"
    """A limit of KIP-578; the others come from Kafka itself."""
    MIXED_RACKS = "MIXED_RACKS"


class CannotPlace(Exception):
    """No placement exists for what was asked; `message` says why, with the numbers."""

    def __init__(self, reason: CannotPlaceReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
