"""A simulated broker: partition logs, their replication, and the APIs that brokers answer themselves."""
