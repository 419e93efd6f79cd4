"""What a listener demands of its clients, as a value: TLS, SASL, both or neither. Made at the start from Kafka's
configs (`klamm.cluster.listener_security`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from klamm.server.sasl.settings import SaslSettings

if TYPE_CHECKING:  # it imports Python's ssl, which SASL alone does not need
    from klamm.server.tls.settings import TlsSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSecurity:
    """The security of one listener that is not PLAINTEXT."""

    sasl: SaslSettings | None = None
    """None: clients need not authenticate themselves by SASL."""
    tls: "TlsSettings | None" = None
    """None: connections are not encrypted."""
