"""Twins of real clusters: a copy of a cluster's metadata log, kept up to date, and what is tried on it."""
