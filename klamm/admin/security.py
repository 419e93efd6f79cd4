"""What a client needs to connect: TLS, a login, both or neither. `klamm.admin.client_properties` makes these values."""

import ssl
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Final

LoginSteps = Generator[bytes, bytes, None]
"""One exchange: yields the client's tokens, gets the server's answers, and ends after the last answer. Raises
LoginFailed."""


class LoginFailed(Exception):
    """The exchange cannot go on. The text is one clause without secrets."""


@dataclass(frozen=True, slots=True)
class Login:
    """How a client authenticates itself by SASL."""

    mechanism: str
    begin: Callable[[], LoginSteps] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """How a client connects."""

    tls: ssl.SSLContext | None = None
    """Whom the client trusts, its own certificate, and whether the name of the host has to be that of the
    certificate. None: connections are not encrypted."""
    login: Login | None = None
    settings_in: str = "as the argument security_protocol"
    """Where the user writes security.protocol, for messages."""


NO_SECURITY: Final = ClientSecurity()
