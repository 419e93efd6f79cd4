"""What a listener demands of its clients, as a value: TLS, SASL, both or neither. Made at the start from Kafka's
configs (`klamm.cluster.listener_security`).
"""

from dataclasses import dataclass

from klamm.server.sasl.settings import SaslSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSecurity:
    """The security of one listener that is not PLAINTEXT."""

    sasl: SaslSettings | None = None
