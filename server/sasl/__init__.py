"""SASL on a listener: a table of states for each connection, and the mechanisms. No I/O, no tasks, no clock."""
