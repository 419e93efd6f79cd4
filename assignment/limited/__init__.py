"""Placements that differ from Kafka's because of limits: quotas per broker, rows that use them up, leaders."""
