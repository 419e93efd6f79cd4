"""How much one shard keeps about transactions. Kafka has no such limits; they bound the memory of the process."""

from typing import Final

MAX_TRANSACTIONAL_IDS: Final = 100_000
"""Transactional ids of one shard. InitProducerId of further ones gets COORDINATOR_NOT_AVAILABLE."""
MAX_ID_CHARACTERS: Final = 16 * 1024 * 1024
"""Characters of all transactional ids of one shard. InitProducerId beyond it gets COORDINATOR_NOT_AVAILABLE."""
MAX_PARTITIONS: Final = 20_000
"""Partitions of one transaction: about what fits into its record. Further ones get COORDINATOR_NOT_AVAILABLE."""
