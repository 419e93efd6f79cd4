"""The OpenAPI description of the interface, composed of the parts of each group of routes.

What all routes share stands here: the form of errors and the refusals that any request can meet.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from klamm import __version__

REFUSALS = {
    400: "the request is malformed",
    401: "the control token is missing or wrong; it is needed if the interface is not on a loopback address",
    403: "the request comes from a web page",
    404: "there is no such broker, topic, partition, fault rule or client instance, or metrics are not read",
    409: "the broker is not in the state for it, is being changed, or its port is taken; there is no data directory; "
    "a topic cannot be created or read; or the cluster is no twin that can begin again",
    413: "the body is too large",
    500: "a bug",
    501: "a package is missing",
    503: "the server is stopping, or has too many requests under way",
    507: "the snapshot could not be written",
    504: "it could not be done in time, or what was waited for did not happen",
}
ANY_REQUEST = (401, 403, 500, 503)
View = Callable[[Request], Awaitable[Response]]
"""Answers one method of one path; may raise `Refused`."""


@dataclass(frozen=True, slots=True)
class RouteGroup:
    """Routes that belong together, with the `paths` and `schemas` that describe them."""

    views: Mapping[str, Mapping[str, View]]
    """By path, with its parameters in braces, and by method."""
    paths: Mapping[str, Any]
    schemas: Mapping[str, Any]


def operation(
    operation_id: str,
    summary: str,
    gives: str | Mapping[str, Any],
    *,
    status: int = 200,
    takes: str | None = None,
    refusals: Sequence[int] = (),
) -> dict[str, Any]:
    """One method of one path. `takes` is the name of a schema; `gives` is a name or a schema."""
    described: dict[str, Any] = {"operationId": operation_id, "summary": summary}
    if takes is not None:
        described["requestBody"] = {"required": False, "content": _json(takes)}
    described["responses"] = {str(status): {"description": "done", "content": _json(gives)}}
    for refusal in sorted({*refusals, *ANY_REQUEST}):
        described["responses"][str(refusal)] = {"description": REFUSALS[refusal], "content": _json("Error")}
    return described


def answered(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object in an answer. It always has these members; later versions may add others."""
    return {"type": "object", "required": list(properties), "properties": dict(properties)}


def asked(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a body: each member is optional, and other members are refused."""
    return {"type": "object", "additionalProperties": False, "properties": dict(properties)}


def describe_interface(groups: Sequence[RouteGroup]) -> dict[str, Any]:
    """The whole description, as `/openapi.json` gives it."""
    paths: dict[str, Any] = {"/openapi.json": {"get": operation("describe", "This description", {"type": "object"})}}
    schemas: dict[str, Any] = {"Error": answered({"error": {"type": "string", "description": "one line"}})}
    for group in groups:
        paths |= group.paths
        schemas |= group.schemas
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Klamm control",
            "version": __version__,
            "description": "Stops, starts, adds and removes the simulated brokers of a running klamm serve, takes "
            "snapshots of its metadata log, creates topics, adds fault rules, and returns records, requests and "
            "metrics of clients.",
        },
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }


def reference(name: str) -> dict[str, str]:
    """A schema by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def _json(schema: str | Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": reference(schema) if isinstance(schema, str) else schema}}
