"""The TLS settings of a listener from Kafka's `ssl.…` configs: keys, trusted certificates, versions.

The rules are those of Kafka's DefaultSslEngineFactory. Files are read here, before any port is open. Errors are
SettingsError: one line that names the listener, the setting and, if there is one, the file, and no secret.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar, cast

from klamm.cluster.listener_configs import ListenerConfigs
from klamm.protocol.printable import printable
from klamm.server.tls.context import VERSIONS, ClientAuth, new_context
from klamm.server.tls.principals import PrincipalRules
from klamm.server.tls.settings import TlsSettings
from klamm.server.tls.stores import MAX_STORE_BYTES, KeyMaterial, StoreError, decode_pem, decode_store

_KEY: Final = "ssl.keystore.key"
_CHAIN: Final = "ssl.keystore.certificate.chain"
_KEY_FILE: Final = "ssl.keystore.location"
_KEY_FILE_TYPE: Final = "ssl.keystore.type"
_KEY_FILE_PASSWORD: Final = "ssl.keystore.password"
_KEY_PASSWORD: Final = "ssl.key.password"
_TRUSTED: Final = "ssl.truststore.certificates"
_TRUST_FILE: Final = "ssl.truststore.location"
_TRUST_FILE_TYPE: Final = "ssl.truststore.type"
_TRUST_FILE_PASSWORD: Final = "ssl.truststore.password"
_CLIENT_AUTH: Final = "ssl.client.auth"
_VERSIONS: Final = "ssl.enabled.protocols"
_RULES: Final = "ssl.principal.mapping.rules"
_ENGINE: Final = "ssl.engine.factory.class"
_PEM: Final = "PEM"
_TYPES: Final = (_PEM, "PKCS12", "JKS")

T = TypeVar("T")


def listener_tls(own: ListenerConfigs) -> TlsSettings:
    """What the listener's handshakes need. Raises SettingsError."""
    if own.text(_ENGINE):
        raise own.refuse(_ENGINE, "classes in Java cannot be loaded here")
    versions = cast("tuple[str, ...]", own.value(_VERSIONS))
    if unknown := [version for version in versions if version not in VERSIONS] or not versions:
        named = ", ".join(unknown) if isinstance(unknown, list) else "an empty list"
        raise own.refuse(_VERSIONS, f"{named} is not supported; the versions are {', '.join(VERSIONS)}")
    client_auth = cast("ClientAuth", own.value(_CLIENT_AUTH))
    keys, named = _keys(own)
    trusted = _trusted(own)
    if client_auth != "none" and not trusted:
        raise own.refuse(_TRUST_FILE, f"is not set, and {own.named(_CLIENT_AUTH)} is {client_auth}")
    try:
        rules = PrincipalRules(own.text(_RULES) or "DEFAULT")
    except ValueError as error:
        raise own.refuse(_RULES, printable(str(error))) from None
    context = _tried(own, named, lambda: new_context(keys, own.text(_KEY_PASSWORD), trusted, client_auth, versions))
    return TlsSettings(context=context, rules=rules)


def _keys(own: ListenerConfigs) -> tuple[KeyMaterial, str]:
    """The key with its certificates, and the setting that they are from."""
    location, key, chain = own.text(_KEY_FILE), own.text(_KEY), own.text(_CHAIN)
    is_pem = _store_type(own, _KEY_FILE_TYPE) == _PEM
    for name, text in ((_KEY, key), (_CHAIN, chain)):
        if text is not None and not is_pem:
            raise own.refuse(name, f"can be set only if {own.named(_KEY_FILE_TYPE)} is {_PEM}")
        if text is not None and location is not None:
            raise own.refuse(name, f"{own.named(_KEY_FILE)} is set, too; only one of the two can be")
    if (key is None) != (chain is None):
        missing, present = (_KEY, _CHAIN) if key is None else (_CHAIN, _KEY)
        raise own.refuse(missing, f"is not set, and {own.named(present)} is")
    if key is not None and chain is not None:
        found, named = _tried(own, _KEY, lambda: decode_pem(f"{key}\n{chain}")), _KEY
    elif location is not None:
        found, named = _read(own, _KEY_FILE, _KEY_FILE_TYPE, _KEY_FILE_PASSWORD), _KEY_FILE
    else:
        raise own.refuse(_KEY_FILE, f"is not set, nor are {_KEY} and {_CHAIN}: TLS needs a key and its certificate")
    for what, there in (("private key", found.key), ("certificate of a private key", found.chain)):
        if not there:
            raise own.refuse(named, f"{_shown(location)}there is no {what}")
    return found, named


def _trusted(own: ListenerConfigs) -> tuple[str, ...]:
    location, text = own.text(_TRUST_FILE), own.text(_TRUSTED)
    is_pem = _store_type(own, _TRUST_FILE_TYPE) == _PEM
    if text is not None and not is_pem:
        raise own.refuse(_TRUSTED, f"can be set only if {own.named(_TRUST_FILE_TYPE)} is {_PEM}")
    if text is not None and location is not None:
        raise own.refuse(_TRUSTED, f"{own.named(_TRUST_FILE)} is set, too; only one of the two can be")
    if text is None and location is None:
        return ()
    named = _TRUSTED if text is not None else _TRUST_FILE
    found = decode_pem(text) if text is not None else _read(own, _TRUST_FILE, _TRUST_FILE_TYPE, _TRUST_FILE_PASSWORD)
    if not found.trusted:
        raise own.refuse(named, f"{_shown(location)}there is no trusted certificate")
    return found.trusted


def _store_type(own: ListenerConfigs, name: str) -> str:
    kind = str(own.value(name)).upper()
    if kind not in _TYPES:
        raise own.refuse(name, f"{printable(kind)} is not supported; the types are {', '.join(_TYPES)}")
    return kind


def _read(own: ListenerConfigs, location: str, kind: str, password: str) -> KeyMaterial:
    """The contents of a store in a file."""
    path, secret = own.text(location) or "", own.text(password)
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_STORE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise own.refuse(location, f"{_shown(path)}{reason or error}") from None
    if len(data) > MAX_STORE_BYTES:
        raise own.refuse(location, f"{_shown(path)}is larger than {MAX_STORE_BYTES} bytes")
    if _store_type(own, kind) == _PEM:
        if secret is not None:
            raise own.refuse(password, f"cannot be set for {_PEM}; {_KEY_PASSWORD} is the password of a key")
        return _tried(own, location, lambda: decode_pem(data.decode("latin-1")))
    if secret is None and location == _KEY_FILE:
        raise own.refuse(password, f"is not set, and {own.named(_KEY_FILE)} is")
    return _tried(own, location, lambda: decode_store(data, secret, own.text(_KEY_PASSWORD)))


def _tried(own: ListenerConfigs, name: str, action: Callable[[], T]) -> T:
    try:
        return action()
    except StoreError as error:
        file = own.text(name) if name in (_KEY_FILE, _TRUST_FILE) else None
        raise own.refuse(name, f"{_shown(file)}{error}") from None


def _shown(path: str | None) -> str:
    return "" if path is None else f"{printable(path)}: "
