"""APIs that brokers call, and APIs about brokers: registration, heartbeats, unregistration, log directories."""
