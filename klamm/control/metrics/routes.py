"""The route of the metrics, and its part of the OpenAPI description."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

import trio
from starlette.requests import Request
from starlette.responses import Response

from klamm.control.metrics.states import count_states
from klamm.control.openapi import RouteGroup, operation
from klamm.control.page.panels import Panels
from klamm.control.refusals import Refused
from klamm.server.server import Server

if TYPE_CHECKING:
    from prometheus_client.core import Metric

NOT_INSTALLED: Final = "metrics need prometheus-client: pip install '/path/to/klamm[metrics]'"


def metrics_routes(server: Server) -> RouteGroup:
    """`/metrics`."""
    turn = trio.CapacityLimiter(1)

    async def show(_: Request) -> Response:
        async with turn:  # a second scraper waits, so that two do not take twice the time from others
            try:
                # In a thread: the first time takes 100 ms, in which other requests are served.
                await trio.to_thread.run_sync(_import)
            except ImportError:
                raise Refused(501, NOT_INSTALLED) from None
            from klamm.control.metrics.families import all_families

            states = await count_states(server)
            families = all_families(server, Panels(server), states)
            content, media_type = await trio.to_thread.run_sync(_encode, families)
        return Response(content, 200, {"Content-Type": media_type, "Cache-Control": "no-store"})

    described = operation("metrics", "Metrics for Prometheus (docs/metrics.md)", {}, refusals=(501,))
    described["responses"]["200"] = {"description": "done", "content": {"text/plain": {}}}
    return RouteGroup({"/metrics": {"GET": show}}, {"/metrics": {"get": described}}, {})


def _import() -> None:
    import_module("klamm.control.metrics.families")


def _encode(families: "list[Metric]") -> tuple[bytes, str]:
    """The text of the metrics, and its media type."""
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
    from prometheus_client.registry import Collector

    class Collected(Collector):
        def collect(self) -> "list[Metric]":
            return families

        def describe(self) -> "list[Metric]":
            return []

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collected())
    ProcessCollector(registry=registry)
    return generate_latest(registry), CONTENT_TYPE_LATEST
