"""APIs about the state of single partitions: who is in sync, who leads."""
