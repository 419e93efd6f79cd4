"""The TLS settings of one listener, read and validated at the start (`klamm.cluster.listener_tls`)."""

import ssl
from dataclasses import dataclass

from klamm.server.tls.principals import PrincipalRules


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TlsSettings:
    """What a handshake needs."""

    context: ssl.SSLContext
    """Has the key, the trusted certificates, the versions of TLS, and whether clients need a certificate."""
    rules: PrincipalRules
    """`ssl.principal.mapping.rules`."""
