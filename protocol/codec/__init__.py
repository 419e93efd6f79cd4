"""Encodes and decodes messages by compiled construct schemas, one per message class and version.

`schema` turns a declaration into a construct. `messages` runs the code that `compile()` emits for it, and turns all
other exceptions into `ProtocolError`. `requests` handles headers, and `frames` sizes. There is no I/O here.
"""
