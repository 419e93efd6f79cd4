"""The TLS settings of a listener from Kafka's `ssl.…` configs: keys, trusted certificates, versions.

The rules are those of Kafka's DefaultSslEngineFactory. Files are read here, before any port is open. Errors are
SettingsError: one line that names the listener, the setting and, if there is one, the file, and no secret.
"""

from datetime import UTC, datetime
from typing import Final, cast

from klamm.cluster.listener_configs import ListenerConfigs
from klamm.protocol.printable import printable
from klamm.server.tls.context import VERSIONS, ClientAuth, new_context
from klamm.server.tls.principals import PrincipalRules
from klamm.server.tls.settings import TlsSettings
from klamm.server.tls.store_configs import (
    KEY_FILE,
    KEY_PASSWORD,
    TRUST_FILE,
    TRUSTED,
    own_keys,
    tried,
    trusted_certificates,
)
from klamm.server.tls.validity import refuse_invalid_chain, refuse_invalid_trust

_CLIENT_AUTH: Final = "ssl.client.auth"
_VERSIONS: Final = "ssl.enabled.protocols"
_RULES: Final = "ssl.principal.mapping.rules"
_ENGINE: Final = "ssl.engine.factory.class"


def listener_tls(own: ListenerConfigs) -> TlsSettings:
    """What the listener's handshakes need. Raises SettingsError."""
    if own.text(_ENGINE):
        raise own.refuse(_ENGINE, "classes in Java cannot be loaded here")
    versions = cast("tuple[str, ...]", own.value(_VERSIONS))
    if own.text(_VERSIONS) is None:
        # The default of old releases has versions that OpenSSL refuses.
        versions = tuple(version for version in versions if version in VERSIONS)
    if unknown := [version for version in versions if version not in VERSIONS] or not versions:
        named = ", ".join(unknown) if isinstance(unknown, list) else "an empty list"
        raise own.refuse(_VERSIONS, f"{named} is not supported; the versions are {', '.join(VERSIONS)}")
    client_auth = cast("ClientAuth", own.value(_CLIENT_AUTH))
    found = own_keys(own)
    if found is None:
        pem = "ssl.keystore.key and ssl.keystore.certificate.chain"
        raise own.refuse(KEY_FILE, f"is not set, nor are {pem}: TLS needs a key and its certificate")
    keys, named = found
    trusted = trusted_certificates(own)
    if client_auth != "none" and not trusted:
        raise own.refuse(TRUST_FILE, f"is not set, and {own.named(_CLIENT_AUTH)} is {client_auth}")
    try:
        rules = PrincipalRules(own.text(_RULES) or "DEFAULT")
    except ValueError as error:
        raise own.refuse(_RULES, printable(str(error))) from None
    context = tried(own, named, lambda: new_context(keys, own.text(KEY_PASSWORD), trusted, client_auth, versions))
    now = datetime.now(UTC)  # not the cluster's clock: clients compare with their own
    tried(own, named, lambda: refuse_invalid_chain(keys.chain, now))
    if client_auth != "none":
        tried(own, TRUST_FILE if own.text(TRUST_FILE) else TRUSTED, lambda: refuse_invalid_trust(trusted, now))
    return TlsSettings(context=context, rules=rules)
