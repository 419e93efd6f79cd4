"""The cluster's metadata: brokers, topics, configs, and the partitions as columns. Changed by replay alone."""
