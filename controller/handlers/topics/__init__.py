"""APIs about topics: what they are, their partitions, and where those live."""
