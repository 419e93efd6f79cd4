"""How much one shard keeps about groups. Kafka has no such limits; they bound the memory of the process, together with
the limit of all live records (`klamm.broker.coordinator.budget`)."""

from typing import Final

MAX_GROUPS: Final = 100_000
"""Groups of one shard. Requests that would make another one get COORDINATOR_NOT_AVAILABLE."""
MAX_PENDING_MEMBERS: Final = 10_000
"""Member ids of one group that were given out and not used yet. More JoinGroups get GROUP_MAX_SIZE_REACHED."""
MAX_OFFSETS: Final = 1_000_000
"""Committed offsets of one shard. Commits for further partitions get COORDINATOR_NOT_AVAILABLE."""
MAX_GROUP_BYTES: Final = 1_000_000
"""Metadata and assignments of the members of one classic group, or the subscription of one member of a consumer group:
what fits into its record. Larger ones get UNKNOWN_SERVER_ERROR, as Kafka answers if the record exceeds
max.message.bytes."""
MAX_MEMBERS_BYTES: Final = 16 * 1024 * 1024
"""Metadata of all members of one classic group, for all their protocols. Joins beyond it get GROUP_MAX_SIZE_REACHED."""
MAX_SUBSCRIPTION_BYTES: Final = 64 * 1024 * 1024
"""Subscriptions of all members of consumer groups of one shard. Joins beyond it get GROUP_MAX_SIZE_REACHED."""
MAX_JOINED_BYTES: Final = 32 * 1024 * 1024
"""Ids and metadata of the members of all classic groups of one shard, and of member ids that were given out. Joins of
new members beyond it get GROUP_MAX_SIZE_REACHED."""
MEMBER_BYTES: Final = 500
"""What a member or a member id takes beside its bytes, roughly."""
MAX_PENDING_OFFSETS: Final = 10_000
"""Offsets of one shard that belong to open transactions. More get COORDINATOR_NOT_AVAILABLE."""
MAX_TASKS_OF_GROUP: Final = 5_000
"""Tasks of the topology of one streams group, standby tasks not counted. Heartbeats with larger ones get
STREAMS_INVALID_TOPOLOGY."""
MAX_STREAMS_MEMBERS: Final = 2_000
"""Members of one streams group, besides `group.streams.max.size`. An assignment of the most tasks to the most members
takes some 0.2 s. Further joins get GROUP_MAX_SIZE_REACHED."""
MAX_STREAMS_BYTES: Final = 32 * 1024 * 1024
"""Topologies and members of the streams groups of one shard. Joins beyond it get GROUP_MAX_SIZE_REACHED."""
MAX_ASSIGNED_TASKS: Final = 500_000
"""Tasks in the target assignments of the streams groups of one shard. Joins beyond it get GROUP_MAX_SIZE_REACHED."""
