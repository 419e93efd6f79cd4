"""From declarations to bytes: construct schemas of our own types, compiled, one per message and version.

`schema` turns a declaration into a construct, `messages` runs what its `compile()` emits and is the one border where
foreign exceptions become `ProtocolError`; `requests` and `frames` know headers and sizes. Nothing below knows a socket.
"""
