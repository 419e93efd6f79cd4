"""Makes the connection of each accepted client, with what its listener demands: nothing, SASL, TLS, or both.

What SASL and TLS need is imported with the first connection that needs it.
"""

from itertools import count
from typing import TYPE_CHECKING

import trio

from klamm.controller.client import Client
from klamm.server.admission import Admission
from klamm.server.connection import Connection
from klamm.server.flusher import Flusher
from klamm.server.parts import ServerParts
from klamm.server.request_path import RequestPath
from klamm.server.unauthenticated import UnauthenticatedConnections

if TYPE_CHECKING:
    from klamm.server.sasl.guard import SaslGuard
    from klamm.server.sasl.guards import SaslGuards
    from klamm.server.sasl.settings import SaslSettings
    from klamm.server.security import ListenerSecurity
    from klamm.server.tls.handshake import TlsHandshake
    from klamm.server.tls.settings import TlsSettings


class Doors:
    """The doors of all listeners of a server."""

    def __init__(self, parts: ServerParts, requests: RequestPath, flusher: Flusher, admission: Admission) -> None:
        self._parts = parts
        self._requests = requests
        self._flusher = flusher
        self._admission = admission
        self._guards: SaslGuards | None = None
        self._connections = count(1)
        self.unauthenticated = UnauthenticatedConnections(parts.limits, parts.events)

    def connection(
        self, client: Client, stream: trio.abc.Stream, security: "ListenerSecurity | None" = None
    ) -> Connection:
        """The connection of a client that was accepted, with an id of its own. `security` is its listener's; None:
        PLAINTEXT."""
        parts = self._parts
        client.connection_id = next(self._connections)
        if security is None:
            return Connection(
                stream, client, self._requests, self._flusher, self._admission, parts.limits, parts.events
            )
        return Connection(
            stream,
            client,
            self._requests,
            self._flusher,
            self._admission,
            parts.limits,
            parts.events,
            None if security.sasl is None else self._guard(security.sasl, client),
            self.unauthenticated,
            None if security.tls is None else self._handshake(security.tls, names_client=security.sasl is None),
        )

    def _handshake(self, settings: "TlsSettings", *, names_client: bool) -> "TlsHandshake":
        from klamm.server.tls.handshake import TlsHandshake

        return TlsHandshake(settings, self._parts.events, names_client=names_client)

    def _guard(self, settings: "SaslSettings", client: Client) -> "SaslGuard":
        if self._guards is None:
            from klamm.server.sasl.guards import SaslGuards

            parts = self._parts
            self._guards = SaslGuards(parts.controller, self._requests, parts.events, parts.clock_ms)
        return self._guards.guard(settings, client)
