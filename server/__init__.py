"""The network side of the controller: listeners, connections, simulated brokers, the ticker and the request log."""
