"""Reads the files that controllers write: metadata logs and request logs. Spark is not used here."""
