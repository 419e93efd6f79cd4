"""The SASL settings of one listener, read and validated at the start (`klamm.cluster.listener_security`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from klamm.server.sasl.oauthbearer import TokenValidator

DEFAULT_MAX_RECEIVE_BYTES: Final = 524_288


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """The mechanisms of a listener, and what they need."""

    mechanisms: tuple[str, ...]
    """The names of the enabled mechanisms, in the order of SaslHandshake responses."""
    plain_users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The passwords of PLAIN by user."""
    max_reauth_ms: Mapping[str, int] = field(default_factory=dict)
    """`connections.max.reauth.ms` by mechanism; 0: sessions do not end."""
    validate_token: TokenValidator | None = None
    """Decides which tokens of OAUTHBEARER are good; None without that mechanism."""
    failed_delay_ms: int = 100
    """`connection.failed.authentication.delay.ms`."""
    max_receive_bytes: int = DEFAULT_MAX_RECEIVE_BYTES
    """`sasl.server.max.receive.size`: the largest frame before a client is authenticated."""
