"""What the levels of metadata.version bring to the metadata log, and their names.

Levels, names and effects are those of Apache Kafka 4.3.0 (MetadataVersion). The versions of records are in
`klamm.protocol.record_versions`. Kafka 3.3 is the first release whose logs Kafka 4.3 goes on with.
"""

from typing import Final

METADATA_VERSIONS: Final = {
    7: "3.3-IV3", 8: "3.4-IV0", 9: "3.5-IV0", 10: "3.5-IV1", 11: "3.5-IV2", 12: "3.6-IV0", 13: "3.6-IV1", 14: "3.6-IV2",
    15: "3.7-IV0", 16: "3.7-IV1", 17: "3.7-IV2", 18: "3.7-IV3", 19: "3.7-IV4", 20: "3.8-IV0", 21: "3.9-IV0",
    22: "4.0-IV0", 23: "4.0-IV1", 24: "4.0-IV2", 25: "4.0-IV3", 26: "4.1-IV0", 27: "4.1-IV1", 28: "4.2-IV0",
    29: "4.2-IV1", 30: "4.3-IV0",
}  # fmt: skip
"""The names of metadata.version by level."""
OLDEST_LEVEL: Final = min(METADATA_VERSIONS)
LATEST_LEVEL: Final = max(METADATA_VERSIONS)
FIRST_LEVEL_WITH_SCRAM: Final = 11
FIRST_LEVEL_WITH_CALM_SHRINKS: Final = 12
"""From this level on, the leader epoch stays when a follower leaves the ISR (KAFKA-15021)."""
FIRST_LEVEL_WITH_DELEGATION_TOKENS: Final = 14
FIRST_LEVEL_WITH_CONTROLLERS: Final = 15
"""Controllers register from this level on (KIP-919)."""
FIRST_LEVEL_WITH_LOG_DIRS: Final = 17
"""Registrations and partitions have log directories from this level on (KIP-858)."""
FIRST_LEVEL_WITH_ELR: Final = 23
"""Partitions can have eligible leader replicas from this level on (KIP-966)."""
FIRST_LEVEL_WITH_CORDONS: Final = 30
"""Log directories can be closed to new replicas from this level on (KIP-1066)."""
_CHANGES_METADATA: Final = frozenset({8, 11, 13, 14, 15, 17, 23, 30})
"""The levels that added records or fields. Kafka refuses to go below one of them."""


def changes_metadata(lower: int, higher: int) -> bool:
    """Whether a level above `lower`, up to `higher`, added records or fields."""
    return any(lower < level <= higher for level in _CHANGES_METADATA)
