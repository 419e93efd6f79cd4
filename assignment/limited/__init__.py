"""Placement where limits force it away from Kafka's: quotas per broker, rows that use them up, leaders, mixing."""
