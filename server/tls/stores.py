"""Key stores and trust stores of Kafka's types, as PEM: PEM itself, PKCS12 and JKS.

PKCS12 needs the package `cryptography`, which comes with `klamm[security]`. As in Java, a store of type JKS may also be
a PKCS12 file and the reverse. Errors are StoreError, whose texts have no secrets.
"""

import base64
import re
from dataclasses import dataclass, field
from typing import Final

from klamm.server.tls.jks import MAGIC, JksError, decode_jks

MAX_STORE_BYTES: Final = 10 * 1024 * 1024
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_CERTIFICATE: Final = "CERTIFICATE"


class StoreError(ValueError):
    """A store that cannot be read or lacks something. The text is one clause for users."""


@dataclass(frozen=True, slots=True)
class KeyMaterial:
    """What a store has, as PEM."""

    key: str | None = field(default=None, repr=False)
    chain: tuple[str, ...] = ()
    """The certificate of the key, and those of its issuers."""
    trusted: tuple[str, ...] = ()


def decode_pem(text: str) -> KeyMaterial:
    """Keys and certificates in PEM, in any order. Its certificates are both the chain and the trusted ones."""
    blocks = [(found[1], found[0]) for found in _BLOCK.finditer(text.replace("\r\n", "\n"))]
    keys = [block for name, block in blocks if name.endswith("PRIVATE KEY")]
    if len(keys) > 1:
        raise StoreError("more than one private key")
    certificates = tuple(block for name, block in blocks if name == _CERTIFICATE)
    return KeyMaterial(keys[0] if keys else None, certificates, certificates)


def decode_store(data: bytes, password: str | None, key_password: str | None) -> KeyMaterial:
    """The contents of a JKS or PKCS12 file. Raises StoreError."""
    if data[: len(MAGIC)] == MAGIC:
        try:
            store = decode_jks(data, password, key_password)
        except JksError as error:
            raise StoreError(str(error)) from None
        key, chain = store.keys[0] if store.keys else (None, [])
        return KeyMaterial(
            None if key is None else _pem("PRIVATE KEY", key),
            tuple(_pem(_CERTIFICATE, one) for one in chain),
            tuple(_pem(_CERTIFICATE, one) for one in store.trusted),
        )
    return _decode_pkcs12(data, password)


def _decode_pkcs12(data: bytes, password: str | None) -> KeyMaterial:
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
    except ImportError:
        raise StoreError(
            "a PKCS12 store needs the package cryptography: pip install '/path/to/klamm[security]'"
        ) from None
    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError:
        raise StoreError("the password is wrong, or the file is no PKCS12 or JKS store") from None
    key = None
    if store.key is not None:
        key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    own = [] if store.cert is None else [store.cert]
    chain, others = [*own, *store.additional_certs], store.additional_certs
    if key is None:
        chain, others = [], [*own, *store.additional_certs]

    def shown(certificates: "list[pkcs12.PKCS12Certificate]") -> tuple[str, ...]:
        return tuple(one.certificate.public_bytes(Encoding.PEM).decode() for one in certificates)

    return KeyMaterial(key, shown(chain), shown(others))


def _pem(name: str, der: bytes) -> str:
    text = base64.b64encode(der).decode()
    lines = "\n".join(text[start : start + 64] for start in range(0, len(text), 64))
    return f"-----BEGIN {name}-----\n{lines}\n-----END {name}-----"
