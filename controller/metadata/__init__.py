"""The cluster's metadata: brokers, topics, configs, and the partitions as columns. Only replay changes it."""
