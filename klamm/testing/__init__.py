"""The pytest plugin: fixtures that start a cluster, and the marker that configures it."""
