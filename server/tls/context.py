"""The context of TLS handshakes, made of a listener's keys, certificates and versions."""

import os
import ssl
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Final, Literal

from klamm.server.tls.stores import KeyMaterial, StoreError

ClientAuth = Literal["none", "requested", "required"]
VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
"""The values of `ssl.enabled.protocols`. OpenSSL and Java both refuse older ones by default."""
_VERIFY: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def new_context(
    own: KeyMaterial,
    key_password: str | None,
    trusted: Collection[str],
    client_auth: ClientAuth,
    versions: Collection[str],
) -> ssl.SSLContext:
    """The context. Raises StoreError if a key or a certificate cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = min(VERSIONS[version] for version in versions)
    context.maximum_version = max(VERSIONS[version] for version in versions)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0  # sessions are not resumed, so that each client shows its certificate
    load_key(context, own, key_password)
    if trusted:
        try:
            context.load_verify_locations(cadata="\n".join(trusted))
        except ssl.SSLError:
            raise StoreError("a trusted certificate cannot be read") from None
    # As in Java, any certificate in the trust store is an anchor, also one that is not a root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_mode = _VERIFY[client_auth]
    return context


def load_key(context: ssl.SSLContext, own: KeyMaterial, password: str | None) -> None:
    """Give the context its key and certificates. Raises StoreError."""
    assert own.key is not None, "the caller has refused a store without a key"
    # OpenSSL reads keys from files only. This one has a name for a moment, and only its owner can read it.
    descriptor, path = tempfile.mkstemp(prefix="klamm-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write("\n".join((own.key, *own.chain)))
        # Without a function OpenSSL would ask for a password at the terminal.
        context.load_cert_chain(path, password=lambda: password or "")
    except ssl.SSLError as error:
        raise StoreError(_reason(error, is_encrypted="ENCRYPTED" in own.key)) from None
    finally:
        Path(path).unlink()


def _reason(error: ssl.SSLError, *, is_encrypted: bool) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the private key does not belong to the certificate"
    if is_encrypted:
        return "the password of the private key is missing or wrong"
    return f"the key or its certificate cannot be read ({error.reason or 'malformed'})"
