"""The routes that show the metrics of clients, and their part of the OpenAPI description."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from klamm.broker.telemetry.collected import CollectedMetrics, PushingClient
from klamm.broker.telemetry.otlp import Point
from klamm.console.shown import shown
from klamm.control.answers import answer
from klamm.control.openapi import RouteGroup, View, answered, operation
from klamm.control.refusals import Refused
from klamm.protocol.uuid import Uuid
from klamm.server.server import Server


def telemetry_routes(server: Server) -> RouteGroup:
    """`/telemetry` and what is below it."""

    async def list_clients(_: Request) -> Response:
        return answer({"clients": [_client(one) for one in _collected(server)]})

    async def show_client(request: Request) -> Response:
        text = request.path_params["client_instance_id"]
        try:
            found = _collected(server).find(Uuid.from_text(text))
        except ValueError:
            found = None
        if found is None:
            raise Refused(404, f"no client instance {shown(text)} has pushed metrics")
        return answer({**_client(found), "metrics": [_metric(one) for one in found.points.values()]})

    views: dict[str, dict[str, View]] = {
        "/telemetry": {"GET": list_clients},
        "/telemetry/{client_instance_id}": {"GET": show_client},
    }
    return RouteGroup(views, PATHS, SCHEMAS)


def _collected(server: Server) -> CollectedMetrics:
    collected = server.brokers.collected_metrics
    if collected is None:
        raise Refused(404, "metrics of clients are not read: start the server with --client-telemetry")
    return collected


def _client(one: PushingClient) -> dict[str, Any]:
    return {
        "client_instance_id": str(one.client_instance_id),
        "client_id": one.client_id,
        "client_software_name": one.software_name,
        "client_software_version": one.software_version,
        "host": one.host,
        "broker_id": one.broker_id,
        "pushes": one.pushes,
        "pushed_ms": one.pushed_ms,
        "terminated": one.is_terminated,
        "metric_count": len(one.points),
        "left_out": one.left_out,
    }


def _metric(point: Point) -> dict[str, Any]:
    return {
        "name": point.name,
        "kind": point.kind,
        "unit": point.unit,
        "attributes": dict(point.attributes),
        "value": point.value if not isinstance(point.value, float) or _is_finite(point.value) else str(point.value),
        "time_ms": point.time_ms,
        "delta": point.is_delta,
        "monotonic": point.is_monotonic,
    }


def _is_finite(number: float) -> bool:
    return number - number == 0  # JSON has neither infinity nor NaN


_CLIENT: dict[str, Any] = {
    "client_instance_id": {"type": "string"},
    "client_id": {"type": "string"},
    "client_software_name": {"type": "string"},
    "client_software_version": {"type": "string"},
    "host": {"type": "string"},
    "broker_id": {"type": "integer", "description": "the broker that got the latest push"},
    "pushes": {"type": "integer"},
    "pushed_ms": {"type": "integer", "description": "when the latest push arrived, in ms since 1970"},
    "terminated": {"type": "boolean", "description": "the client has announced its end"},
    "metric_count": {"type": "integer"},
    "left_out": {"type": "integer", "description": "metrics of the latest push beyond the most that are kept"},
}
SCHEMAS = {
    "PushingClients": answered({"clients": {"type": "array", "items": answered(_CLIENT)}}),
    "PushedMetrics": answered({
        **_CLIENT,
        "metrics": {
            "type": "array",
            "items": answered({
                "name": {"type": "string"},
                "kind": {"type": "string"},
                "unit": {"type": "string"},
                "attributes": {"type": "object"},
                "value": {"type": ["number", "string", "null"], "description": "NaN and infinities as text"},
                "time_ms": {"type": "integer", "description": "by the client's clock"},
                "delta": {"type": "boolean", "description": "a sum since the push before"},
                "monotonic": {"type": "boolean"},
            }),
        },
    }),
}  # fmt: skip
PATHS = {
    "/telemetry": {
        "get": operation("listTelemetry", "The clients that pushed metrics", "PushingClients", refusals=(404,))
    },
    "/telemetry/{client_instance_id}": {
        "parameters": [{"name": "client_instance_id", "in": "path", "required": True, "schema": {"type": "string"}}],
        "get": operation("showTelemetry", "The latest metrics of a client", "PushedMetrics", refusals=(404,)),
    },
}
