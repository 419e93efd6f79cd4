"""APIs about records: write, read, find and delete them; for producers, and for consumers that assign partitions."""
