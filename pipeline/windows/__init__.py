"""Windows of time that stay open while a log goes on: partitions that lack replicas, and reassignments."""
