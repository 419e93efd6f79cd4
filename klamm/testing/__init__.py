"""The pytest plugin: fixtures, and the marker that configures their cluster."""
