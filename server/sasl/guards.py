"""Makes the guards of a server's SASL listeners: one for each connection."""

from collections.abc import Callable

from klamm.controller.client import Client
from klamm.controller.core import Controller
from klamm.controller.transitions.delegation_tokens import secret_key
from klamm.server.bug_answers import refused_whole
from klamm.server.event_log import EventLog
from klamm.server.request_path import RequestPath
from klamm.server.sasl.authenticator import SaslAuthenticator
from klamm.server.sasl.exchanges import exchanges_of
from klamm.server.sasl.guard import SaslGuard
from klamm.server.sasl.settings import SaslSettings


class SaslGuards:
    """The guards of all listeners."""

    def __init__(
        self, controller: Controller, requests: RequestPath, events: EventLog, clock_ms: Callable[[], int]
    ) -> None:
        self._controller = controller
        self._requests = requests
        self._events = events
        self._clock_ms = clock_ms

    def guard(self, settings: SaslSettings, client: Client) -> SaslGuard:
        """The guard of a new connection."""
        exchanges = exchanges_of(settings, self._controller.image, secret_key(self._controller.settings))
        authenticator = SaslAuthenticator(settings, exchanges, self._controller.served.to(client), refused_whole)
        return SaslGuard(
            authenticator,
            client,
            self._requests,
            self._events,
            self._clock_ms,
            settings.failed_delay_ms,
            settings.max_receive_bytes,
        )
