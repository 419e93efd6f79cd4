"""The interface of a SASL mechanism: one object for each exchange, tokens in, tokens out (Java: SaslServer).

A mechanism does no I/O and reads no clock. It ends an exchange with one of three exceptions, because Kafka's
connections treat them differently: a client that speaks in raw tokens (SaslHandshake v0) is refused at once after the
second one, and every client after the third one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class AuthenticationFailed(Exception):
    """The exchange failed. The text is for the client (Kafka: SaslAuthenticationException)."""


class CredentialsRefused(Exception):
    """The exchange failed for a reason that the client must not learn (Java: SaslException)."""


class Malformed(Exception):
    """The client's message is impossible: Kafka closes the connection at once, without an answer."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The result of a complete exchange."""

    name: str
    """The name of the user; the principal is `User:` with this name."""
    principal_type: str = "User"
    expires_at_ms: int | None = None
    """When the credential itself expires, on the controller's clock; None: it does not."""
    by_token: bool = False
    """Whether the credential was a delegation token."""

    @property
    def principal(self) -> str:
        return f"{self.principal_type}:{self.name}"


class Mechanism(Protocol):
    """One exchange."""

    @property
    def identity(self) -> Identity | None:
        """The authenticated user; None until the exchange is complete."""

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        """The answer to the client's token. Raises AuthenticationFailed, CredentialsRefused and Malformed; the exchange
        is over then."""


NewExchange = Callable[[], Mechanism]
"""Begins an exchange of one mechanism."""
