"""Answers: each function takes silver or bronze tables and returns one gold table, rebuilt whole each time."""
