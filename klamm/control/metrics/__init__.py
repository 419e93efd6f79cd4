"""Metrics for Prometheus at `GET /metrics` (docs/metrics.md).

`families` makes metrics of what the server counts and holds, with prometheus_client, which comes with `klamm[metrics]`
and is imported at the first request. `routes` is the route.
"""
