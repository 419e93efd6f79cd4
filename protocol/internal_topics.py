"""The names of Kafka's own topics. The partitions of the internal topics hold what the coordinators know."""

from typing import Final

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
INTERNAL_TOPICS: Final = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)
METADATA_TOPIC: Final = "__cluster_metadata"
"""The topic of the metadata log, which clients cannot create, read or write."""
