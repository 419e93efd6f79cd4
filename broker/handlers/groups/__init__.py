"""Handlers of the APIs of groups and offsets: rights and formats. What is decided about groups is in
`klamm.broker.groups`."""
