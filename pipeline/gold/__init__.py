"""The gold tables. Each function takes silver or bronze tables and returns one complete gold table."""
