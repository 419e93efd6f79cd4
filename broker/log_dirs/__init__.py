"""The log directories of simulated brokers (KIP-113, KIP-858): what is in them, moves between them, failures."""
