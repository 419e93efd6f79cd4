"""The small data plane: record batches, and how far replicas have them. Soft state, in memory."""
