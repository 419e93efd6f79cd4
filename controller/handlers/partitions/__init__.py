"""APIs about the state of single partitions: replicas, ISR, leader."""
