"""The guard of one connection to a SASL listener: asks the authenticator about each frame, and does what it says.

It delays refusals, writes authentications to the request log, and tells the connection's `Client` its principal. The
principal is set here, and nowhere else on a SASL listener.
"""

from collections.abc import Callable

import trio

from klamm.controller.client import Client
from klamm.server.entrance import ConnectionRefused
from klamm.server.event_log import EventLog
from klamm.server.reply import Reply
from klamm.server.request_path import RequestPath
from klamm.server.sasl.authenticator import Reaction, SaslAuthenticator, Verdict

_ERROR_CODE_OF_VERSIONS = slice(4, 6)
"""In every version of the ApiVersions response, after the correlation id."""


class SaslGuard:
    """Lets requests pass when their client is authenticated."""

    def __init__(
        self,
        authenticator: SaslAuthenticator,
        client: Client,
        requests: RequestPath,
        events: EventLog,
        clock_ms: Callable[[], int],
        failed_delay_ms: int,
        max_receive_bytes: int,
    ) -> None:
        self._authenticator = authenticator
        self._client = client
        self._requests = requests
        self._events = events
        self._clock_ms = clock_ms
        self._failed_delay_ms = failed_delay_ms
        self.max_receive_bytes = max_receive_bytes
        """The largest frame before the client is authenticated."""

    @property
    def is_authenticated(self) -> bool:
        return self._authenticator.is_authenticated

    async def examine(self, frame: bytes) -> Reply | None:
        """The reply to a frame of the authentication; None: the frame is for the request path, whose reply `note_reply`
        gets. Raises ConnectionRefused."""
        started = trio.current_time()
        verdict = self._authenticator.receive(frame, self._clock_ms())
        if verdict.reaction in (Reaction.PASS, Reaction.VERSIONS):
            return None
        identity = self._authenticator.identity
        if identity is not None:
            self._client.principal = identity.principal
            self._client.may_use_tokens = not identity.by_token
        if verdict.exchange is not None:
            exchange = verdict.exchange
            self._requests.note_authentication(
                exchange.api, exchange.header, exchange.response, verdict.payload, self._client, len(frame), started
            )
        if verdict.reaction is Reaction.ANSWER:
            return self._reply(verdict)
        await self._refuse(verdict)
        return None

    async def refuse_size(self, reason: str) -> None:
        """The next frame's size is negative or too large. Raises ConnectionRefused."""
        await self._refuse(self._authenticator.receive_bad_size(reason))

    def note_reply(self, reply: Reply | None) -> None:
        """The request path has answered the frame. Before the authentication it was an ApiVersions request."""
        if reply is not None and not self._authenticator.is_authenticated:
            self._authenticator.versions_answered(int.from_bytes(reply.payload[_ERROR_CODE_OF_VERSIONS], "big"))

    def _reply(self, verdict: Verdict) -> Reply | None:
        # The credentials that the client used, or did not find, may be changes that are not durable yet.
        return None if verdict.payload is None else Reply(verdict.payload, self._requests.log_end_offset)

    async def _refuse(self, verdict: Verdict) -> None:
        self._events.warning_rarely(
            "authentication failed", reason=verdict.reason, host=self._client.host, listener=self._client.listener_name
        )
        if verdict.reaction is Reaction.REFUSE:
            # Kafka delays the answer, too, so that a client that guesses passwords has to wait for each of them.
            await trio.sleep(self._failed_delay_ms / 1000)
        raise ConnectionRefused(verdict.reason, self._reply(verdict))
