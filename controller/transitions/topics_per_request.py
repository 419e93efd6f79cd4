"""How many topics one request may create or delete.

The records of a request are applied in one piece, because no other request may see a part of them. That takes some 4 µs
for each new topic, and as much for each deleted one (docs/decisions/0009), and others wait meanwhile. Apache Kafka
creates at most 10,000 partitions in a request.
"""

from typing import Final

from klamm.protocol.errors import ApiError, ErrorCode

MAX_TOPICS_PER_REQUEST: Final = 10_000


def too_many_topics(count: int) -> ApiError:
    """The error of each topic of a request that names too many."""
    text = f"The request names {count} topics; one request may change at most {MAX_TOPICS_PER_REQUEST}."
    return ApiError(ErrorCode.POLICY_VIOLATION, text)
