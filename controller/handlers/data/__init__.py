"""APIs about records: written, read, found and deleted, by producers and by consumers that assign partitions."""
