"""The web application: all groups of routes, and the rules for every request.

Every error is answered as `{"error": "..."}`, never with a page or a traceback. Requests of web pages are refused: a
browser names the page in the `Origin` header, and a foreign `Host` header on a loopback address means that a name was
rebound to it.
"""

import ipaddress
import socket
from collections.abc import Mapping
from hmac import compare_digest

import trio
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from klamm.console.shown import shown
from klamm.control.answers import answer, error_answer
from klamm.control.bodies import read_request
from klamm.control.brokers import broker_routes
from klamm.control.changes import BUG, STOPPING, Changes
from klamm.control.clock import clock_routes
from klamm.control.faults import fault_routes
from klamm.control.limits import MAX_REQUESTS
from klamm.control.metrics.routes import metrics_routes
from klamm.control.openapi import RouteGroup, View, describe_interface
from klamm.control.page.feed import Feed
from klamm.control.page.routes import page_files, page_routes
from klamm.control.refusals import Refused
from klamm.control.requests import request_routes
from klamm.control.snapshots import snapshot_routes
from klamm.control.steering import steering_routes
from klamm.control.telemetry import telemetry_routes
from klamm.control.topics import topic_routes
from klamm.control.twin import RestartableTwin, twin_routes
from klamm.control.waits import wait_routes
from klamm.server.addresses import Address
from klamm.server.event_log import EventLog
from klamm.server.server import Server

HTTP_VERSIONS = ("1.0", "1.1")
"""hypercorn would speak HTTP/2, too, to which the limits of this interface were not fitted."""
UNAUTHORIZED = 401
NO_TOKEN = "the control token is missing or wrong: send it as Authorization: Bearer TOKEN, or set KLAMM_CONTROL_TOKEN"
WITH_QUERY = frozenset({("GET", "/requests"), ("HEAD", "/requests")})
"""The requests that may have something behind a question mark."""


def route_groups(server: Server, changes: Changes, twin: RestartableTwin | None = None) -> tuple[RouteGroup, ...]:
    """All routes but that of their description."""
    return (
        broker_routes(server, changes),
        snapshot_routes(server, changes),
        topic_routes(server, changes),
        request_routes(server),
        fault_routes(server),
        clock_routes(server, changes),
        steering_routes(server, changes),
        wait_routes(server),
        telemetry_routes(server),
        twin_routes(server, twin),
        metrics_routes(server),
        page_routes(server, Feed(server, changes)),
    )


def make_app(
    server: Server,
    changes: Changes,
    events: EventLog,
    listen: Address,
    token: str | None = None,
    twin: RestartableTwin | None = None,
) -> ASGIApp:
    """The application for a server; `listen` is the address in the option. With a `token` each request needs it."""
    groups = route_groups(server, changes, twin)
    description = describe_interface(groups)

    async def describe(_: Request) -> Response:
        return answer(description)

    views: dict[str, Mapping[str, View]] = {"/openapi.json": {"GET": describe}}
    for group in groups:
        views |= group.views
    routes = [Route(path, _ByMethod(by_method)) for path, by_method in views.items()]
    router = Router(routes, redirect_slashes=False, default=_nothing_there)
    return Doorkeeper(router, changes, events, listen, token)


class _ByMethod:
    """Answers the requests of one path by the view of their method; HEAD as GET."""

    def __init__(self, views: Mapping[str, View]) -> None:
        self._views = views

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        view = self._views.get("GET" if scope["method"] == "HEAD" else scope["method"])
        if view is None:
            names = sorted({*self._views, *(["HEAD"] if "GET" in self._views else [])})
            reason = f"{shown(scope['method'])} is not possible here, only {' and '.join(names)}"
            response = error_answer(reason, 405, {"Allow": ", ".join(names)})
        else:
            request = await read_request(scope, receive)
            response = await _unless_disconnected(view, request, receive)
        await response(scope, receive, send)


async def _unless_disconnected(view: View, request: Request, receive: Receive) -> Response:
    """The response of the view, which is cancelled if the client disconnects. Changes under way go on without it."""
    response, failure = error_answer("the client has disconnected", 400), None
    async with trio.open_nursery() as nursery:

        async def cancel_when_disconnected() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            nursery.cancel_scope.cancel()

        nursery.start_soon(cancel_when_disconnected)
        try:
            response = await view(request)
        except Exception as error:  # noqa: BLE001 - raised below, since a nursery would wrap it in a group
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return response


async def _nothing_there(scope: Scope, receive: Receive, send: Send) -> None:
    await error_answer(f"there is nothing at {shown(scope['path'])}", 404)(scope, receive, send)


class Doorkeeper:
    """What is true of every request: a limited number at a time, HTTP/1 alone, none of web pages, and no error without
    an answer."""

    def __init__(self, app: ASGIApp, changes: Changes, events: EventLog, listen: Address, token: str | None) -> None:
        self._token = None if token is None else f"Bearer {token}".encode()
        self._app = app
        self._changes = changes
        self._events = events
        self._listen = listen
        self._on_loopback = is_loopback(listen.host)
        self._requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000, "reason": None})
            return
        self._requests += 1
        try:
            self._check(scope)
            await self._app(scope, receive, send)
        except Refused as refused:
            headers = {"WWW-Authenticate": "Bearer"} if refused.status == UNAUTHORIZED else None
            await error_answer(refused.reason, refused.status, headers)(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - hypercorn would close the connection without an answer
            self._events.exception_rarely("bug: a control request failed", error, path=scope["path"])
            await error_answer(BUG, 500)(scope, receive, send)
        finally:
            self._requests -= 1

    def _check(self, scope: Scope) -> None:
        if scope["http_version"] not in HTTP_VERSIONS:
            raise Refused(505, "this interface speaks HTTP/1.1")
        if not scope["path"]:
            raise Refused(400, "the path must begin with a slash")
        if self._requests > MAX_REQUESTS:
            raise Refused(503, f"{MAX_REQUESTS} requests are under way, and no more are taken")
        if self._changes.stopping:
            raise Refused(503, STOPPING)
        headers = Headers(scope=scope)
        may_be_own = self._on_loopback or self._token is not None
        own = f"{scope.get('scheme', 'http')}://{headers.get('Host', '')}" if may_be_own else None
        _refuse_web_pages(headers, self._listen, own, on_loopback=self._on_loopback)
        is_file = scope["method"] in ("GET", "HEAD") and scope["path"] in page_files()
        if self._token is not None and not is_file:
            self._check_token(self._token, headers)
        if scope["query_string"] and (scope["method"], scope["path"]) not in WITH_QUERY:
            raise Refused(400, "nothing can be given behind a question mark: changes have a JSON body")

    @staticmethod
    def _check_token(token: bytes, headers: Headers) -> None:
        if not compare_digest(headers.get("Authorization", "").encode(), token):
            raise Refused(UNAUTHORIZED, NO_TOKEN)


def _refuse_web_pages(headers: Headers, listen: Address, own: str | None, *, on_loopback: bool) -> None:
    """Refuse requests of foreign pages. A page of this interface itself has its address, `own`, as its `Origin`."""
    host = headers.get("Host", "")
    if "Origin" in headers and not (host and headers["Origin"] == own):
        raise Refused(403, "requests of web pages are not taken")
    if on_loopback and not _names_this_machine(host, listen.host):
        raise Refused(403, f"the Host header {shown(host)} is none of this machine: use the address that was printed")


def is_loopback(host: str) -> bool:
    """Whether the system takes the host for a loopback address. It knows more forms of one than there are in URLs, such
    as 127.1, and names."""
    if host == "localhost":
        return True
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    addresses = [ipaddress.ip_address(str(address[0]).partition("%")[0]) for *_, address in found]
    return any((getattr(address, "ipv4_mapped", None) or address).is_loopback for address in addresses)


def _names_this_machine(host_header: str, listen_host: str) -> bool:
    host = host_header.rpartition(":")[0] if host_header.rpartition(":")[2].isdecimal() else host_header
    host = host.strip("[]").lower()
    # A numeric address cannot be rebound, and HTTP/1.0 has no Host header.
    return host in ("", "localhost", listen_host.lower()) or _is_ip_address(host)


def _is_ip_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
