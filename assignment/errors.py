"""The exception for a placement that does not exist, with its reason. Kafka's error codes are not used here.

Invalid arguments (a negative shift, a view with duplicates) raise ValueError, because they are bugs of the caller.
"""

from enum import Enum


class CannotPlaceReason(Enum):
    """Why no placement exists. `klamm assign` prints these names."""

    INVALID_PARTITIONS = "INVALID_PARTITIONS"
    INVALID_REPLICATION_FACTOR = "INVALID_REPLICATION_FACTOR"
    POLICY_VIOLATION = "POLICY_VIOLATION"
    """A limit of KIP-578. The other reasons are also in Kafka."""
    MIXED_RACKS = "MIXED_RACKS"


class CannotPlace(Exception):
    """No placement exists for the request. `message` says why, with the numbers."""

    def __init__(self, reason: CannotPlaceReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
