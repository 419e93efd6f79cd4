"""APIs about topics: their properties, their partitions and the placement of their replicas."""
