"""The coordinator runtime: state machines whose state is records in a partition of an internal topic."""
