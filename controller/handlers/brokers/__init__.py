"""APIs by and about brokers: how they come, stay and go, and what they keep."""
