"""Under-replication and reassignments as windows of time, computed incrementally while a log grows."""
