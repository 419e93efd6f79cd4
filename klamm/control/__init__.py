"""Control from outside: HTTP and JSON for whoever is not this process, in any language (docs/control.md).

`serving` is imported only by `klamm serve --control`: starlette and hypercorn come with it. `client` and `command`, the
other side, need the standard library alone. Each group of routes is a module of its own, such as `brokers`.
"""
