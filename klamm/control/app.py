"""The web application: all groups of routes, and the rules for every request.

Whatever goes wrong is answered as `{"error": "..."}`, never with a page or a traceback. Web pages are kept out: a
browser says by `Origin` that a page asks, and on a loopback address a foreign `Host` means that a name was rebound.
"""

import ipaddress
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import trio
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, ASGISendEvent, WWWScope
from quart import Response, request
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException

from klamm.console.shown import shown
from klamm.control.answers import JSON, answer, encode_error, error_answer
from klamm.control.brokers import broker_routes
from klamm.control.changes import BUG, STOPPING, Changes
from klamm.control.limits import BODY_SECONDS, MAX_BODY_BYTES, MAX_REQUESTS
from klamm.control.openapi import describe_interface
from klamm.control.refusals import Refused
from klamm.control.snapshots import snapshot_routes
from klamm.server.addresses import Address
from klamm.server.event_log import EventLog
from klamm.server.server import Server

Application = Callable[[WWWScope, ASGIReceiveCallable, ASGISendCallable], Awaitable[None]]


def make_app(server: Server, changes: Changes, events: EventLog, listen: Address) -> QuartTrio:
    """The application for a server; `listen` is the address in the option."""
    app = QuartTrio("klamm.control", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    app.config["BODY_TIMEOUT"] = BODY_SECONDS
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.url_map.merge_slashes = False
    # Faults will be a group beside this one.
    groups = (broker_routes(server, changes), snapshot_routes(server, changes))
    description = describe_interface(groups)

    on_loopback = _is_loopback(listen.host)

    @app.before_request
    async def check_request() -> None:
        if changes.stopping:
            raise Refused(503, STOPPING)
        _refuse_web_pages(listen, on_loopback=on_loopback)
        if request.query_string:
            raise Refused(400, "nothing can be given behind a question mark: changes have a JSON body")

    @app.errorhandler(Refused)
    async def tell_refusal(refused: Refused) -> Response:
        return error_answer(refused.reason, refused.status)

    @app.errorhandler(HTTPException)
    async def tell_http_error(error: HTTPException) -> Response:
        return _tell_http_error(error)

    @app.errorhandler(Exception)
    async def tell_bug(error: Exception) -> Response:
        events.exception_rarely("bug: a control request failed", error, path=request.path)
        return error_answer(BUG, 500)

    @app.get("/openapi.json")
    async def describe() -> Response:
        return answer(description)

    for group in groups:
        app.register_blueprint(group.routes)
    return app


HTTP_VERSIONS = ("1.0", "1.1")
"""hypercorn would speak HTTP/2, too, to which the limits of this interface were not fitted."""


class Doorkeeper:
    """Lets requests through to the application: a limited number at a time, and nothing but HTTP/1."""

    def __init__(self, app: Application, events: EventLog) -> None:
        self._app = app
        self._events = events
        self._requests = 0

    async def __call__(self, scope: WWWScope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000, "reason": None})
        elif scope["http_version"] not in HTTP_VERSIONS:
            await _send_error(send, 505, "this interface speaks HTTP/1.1")
        elif not scope["path"]:
            await _send_error(send, 400, "the path must begin with a slash")
        elif self._requests >= MAX_REQUESTS:
            await _send_error(send, 503, f"{MAX_REQUESTS} requests are under way, and no more are taken")
        else:
            self._requests += 1
            try:
                await self._app(scope, receive, _to_its_end(send))
            except Exception as error:  # noqa: BLE001 - hypercorn would close the connection without an answer
                self._events.exception_rarely("bug: a control request failed", error, path=scope["path"])
                await _send_error(send, 500, BUG)
            finally:
                self._requests -= 1


def _to_its_end(send: ASGISendCallable) -> ASGISendCallable:
    """`send`, not to be cancelled.

    quart cancels what it does for a request as soon as its answer has left, and would cut hypercorn off before it has
    closed the connection or set its clock for the next request.
    """

    async def send_to_its_end(event: ASGISendEvent) -> None:
        with trio.CancelScope(shield=True):
            await send(event)

    return send_to_its_end


def _refuse_web_pages(listen: Address, *, on_loopback: bool) -> None:
    if "Origin" in request.headers:
        raise Refused(403, "requests of web pages are not taken")
    host = request.headers.get("Host", "")
    if on_loopback and not _names_this_machine(host, listen.host):
        raise Refused(403, f"the Host header {shown(host)} is none of this machine: use the address that was printed")


def _is_loopback(host: str) -> bool:
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


def _tell_http_error(error: HTTPException) -> Response:
    status = error.code or 500
    headers = {}
    if status == 404:
        reason = f"there is nothing at {shown(request.path)}"
    elif status == 405:
        allowed = sorted(getattr(error, "valid_methods", None) or ())
        headers["Allow"] = ", ".join(allowed)
        reason = f"{shown(request.method)} is not possible here, only {' and '.join(allowed)}"
    elif status == 408:
        reason = f"the body did not arrive within {BODY_SECONDS:.0f} s"
    elif status == 413:
        reason = f"the body is longer than {MAX_BODY_BYTES} bytes"
    else:
        reason = error.name
    return error_answer(reason, status, headers)


async def _send_error(send: Any, status: int, reason: str) -> None:
    body = encode_error(reason)
    headers = [(b"content-type", JSON.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
