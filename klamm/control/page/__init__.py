"""The page at the control address: its files, a snapshot of the cluster, and the stream of what changes (docs/page.md).

`files/` has what the browser loads: HTML, CSS and modules, as they are. `cells` writes partitions as bytes, `panels`
describes everything else as JSON, `feed` makes events of what changes, and `views` are the routes.
"""
