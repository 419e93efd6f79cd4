"""Keys and trusted certificates from Kafka's `ssl.keystore.…` and `ssl.truststore.…` configs, of servers and clients.

The rules are those of Kafka's DefaultSslEngineFactory. Errors are those that `StoreConfigs.refuse` makes: one line that
names the setting and, if there is one, the file, and no secret.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TypeVar

from klamm.protocol.bounded_file import UnreadableFile, read_bounded
from klamm.protocol.printable import printable
from klamm.server.tls.stores import MAX_STORE_BYTES, KeyMaterial, StoreError, decode_pem, decode_store

KEY_FILE: Final = "ssl.keystore.location"
KEY_PASSWORD: Final = "ssl.key.password"
TRUST_FILE: Final = "ssl.truststore.location"
_KEY: Final = "ssl.keystore.key"
_CHAIN: Final = "ssl.keystore.certificate.chain"
_KEY_FILE_TYPE: Final = "ssl.keystore.type"
_KEY_FILE_PASSWORD: Final = "ssl.keystore.password"
TRUSTED: Final = "ssl.truststore.certificates"
_TRUST_FILE_TYPE: Final = "ssl.truststore.type"
_TRUST_FILE_PASSWORD: Final = "ssl.truststore.password"
_PEM: Final = "PEM"
_TYPES: Final = (_PEM, "PKCS12", "JKS")
_DEFAULT_TYPE: Final = "JKS"

T = TypeVar("T")


class StoreConfigs(Protocol):
    """The configs of a listener or of a client."""

    def named(self, name: str) -> str:
        """The name of the config that applies, for error texts."""

    def text(self, name: str) -> str | None:
        """The text of a config; None: it is not set."""

    def refuse(self, name: str, reason: str) -> Exception:
        """The error about a config."""


def own_keys(own: StoreConfigs) -> tuple[KeyMaterial, str] | None:
    """The key with its certificates, and the config that they are from; None: no config has them."""
    location, key, chain = own.text(KEY_FILE), own.text(_KEY), own.text(_CHAIN)
    is_pem = _store_type(own, _KEY_FILE_TYPE) == _PEM
    for name, text in ((_KEY, key), (_CHAIN, chain)):
        if text is not None and not is_pem:
            raise own.refuse(name, f"can be set only if {own.named(_KEY_FILE_TYPE)} is {_PEM}")
        if text is not None and location is not None:
            raise own.refuse(name, f"{own.named(KEY_FILE)} is set, too; only one of the two can be")
    if (key is None) != (chain is None):
        missing, present = (_KEY, _CHAIN) if key is None else (_CHAIN, _KEY)
        raise own.refuse(missing, f"is not set, and {own.named(present)} is")
    if key is not None and chain is not None:
        found, named = tried(own, _KEY, lambda: decode_pem(f"{key}\n{chain}")), _KEY
    elif location is not None:
        found, named = _read(own, KEY_FILE, _KEY_FILE_TYPE, _KEY_FILE_PASSWORD), KEY_FILE
    else:
        return None
    for what, there in (("private key", found.key), ("certificate of a private key", found.chain)):
        if not there:
            raise own.refuse(named, f"{_shown(location)}there is no {what}")
    return found, named


def trusted_certificates(own: StoreConfigs) -> tuple[str, ...]:
    """The certificates that are trusted, as PEM; empty: no config has any."""
    location, text = own.text(TRUST_FILE), own.text(TRUSTED)
    is_pem = _store_type(own, _TRUST_FILE_TYPE) == _PEM
    if text is not None and not is_pem:
        raise own.refuse(TRUSTED, f"can be set only if {own.named(_TRUST_FILE_TYPE)} is {_PEM}")
    if text is not None and location is not None:
        raise own.refuse(TRUSTED, f"{own.named(TRUST_FILE)} is set, too; only one of the two can be")
    if text is None and location is None:
        return ()
    named = TRUSTED if text is not None else TRUST_FILE
    found = decode_pem(text) if text is not None else _read(own, TRUST_FILE, _TRUST_FILE_TYPE, _TRUST_FILE_PASSWORD)
    if not found.trusted:
        raise own.refuse(named, f"{_shown(location)}there is no trusted certificate")
    return found.trusted


def _store_type(own: StoreConfigs, name: str) -> str:
    kind = (own.text(name) or _DEFAULT_TYPE).strip().upper()
    if kind not in _TYPES:
        raise own.refuse(name, f"{printable(kind)} is not supported; the types are {', '.join(_TYPES)}")
    return kind


def _read(own: StoreConfigs, location: str, kind: str, password: str) -> KeyMaterial:
    """The contents of a store in a file."""
    path, secret = own.text(location) or "", own.text(password)
    try:
        data = read_bounded(Path(path), MAX_STORE_BYTES)
    except UnreadableFile as error:
        raise own.refuse(location, f"{_shown(path)}{error}") from None
    if _store_type(own, kind) == _PEM:
        if secret is not None:
            raise own.refuse(password, f"cannot be set for {_PEM}; {KEY_PASSWORD} is the password of a key")
        return tried(own, location, lambda: decode_pem(data.decode("latin-1")))
    if secret is None and location == KEY_FILE:
        raise own.refuse(password, f"is not set, and {own.named(KEY_FILE)} is")
    return tried(own, location, lambda: decode_store(data, secret, own.text(KEY_PASSWORD)))


def tried(own: StoreConfigs, name: str, action: Callable[[], T]) -> T:
    """The result of the action; its StoreError becomes the error about this config."""
    try:
        return action()
    except StoreError as error:
        file = own.text(name) if name in (KEY_FILE, TRUST_FILE) else None
        raise own.refuse(name, f"{_shown(file)}{error}") from None


def _shown(path: str | None) -> str:
    return "" if path is None else f"{printable(path)}: "
