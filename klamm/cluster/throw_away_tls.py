"""A certificate authority that lives as long as a cluster, with a certificate for its brokers and one for each user.

Needs the package `cryptography`, which comes with `klamm[security]`. The files for clients are in a directory of their
own, readable by their owner alone, until the cluster ends.
"""

import datetime as dt
import ipaddress
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from klamm.controller.settings import SettingsError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

CA_FILE = "ca.pem"
TRUSTSTORE_FILE = "truststore.p12"
TRUSTSTORE_PASSWORD = "klamm"
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
_DAYS = 30


@dataclass(frozen=True)
class ThrowAwayTls:
    """What was made, as PEM."""

    ca: str
    key: str = field(repr=False)
    """The private key of the brokers."""
    chain: str
    truststore: bytes = field(repr=False)
    """`ca` as PKCS12, with the password `klamm`."""
    users: Mapping[str, str] = field(repr=False)
    """By user: key and certificate."""

    @contextmanager
    def files(self) -> Iterator[Path]:
        """A directory with the files for clients, until the end of the block."""
        with tempfile.TemporaryDirectory(prefix="klamm-tls-") as name:
            directory = Path(name)
            (directory / CA_FILE).write_text(self.ca)
            (directory / TRUSTSTORE_FILE).write_bytes(self.truststore)
            for user, text in self.users.items():
                (directory / f"{user}.pem").write_text(text)
            yield directory


def new_throw_away_tls(hosts: Iterable[str], users: Iterable[str]) -> ThrowAwayTls:
    """An authority, a certificate for these hosts, and one for each user. Raises SettingsError."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
    except ImportError:
        raise SettingsError(
            "certificates need the package cryptography: pip install '/path/to/klamm[security]'"
        ) from None
    authority = _Authority()
    names = [*dict.fromkeys((*LOCAL_NAMES, *hosts))]
    key, certificate = authority.sign("Klamm broker", [_alternative(name) for name in names])
    entry = pkcs12.PKCS12Certificate(authority.certificate, b"ca")
    encryption = BestAvailableEncryption(TRUSTSTORE_PASSWORD.encode())
    assert isinstance(authority.certificate, x509.Certificate), "it signs itself"
    return ThrowAwayTls(
        ca=_pem(authority.certificate),
        key=_key_pem(key),
        chain=_pem(certificate),
        truststore=pkcs12.serialize_java_truststore([entry], encryption),
        users={user: _key_pem(key) + _pem(one) for user in users for key, one in [authority.sign(user, [])]},
    )


class _Authority:
    """Signs certificates."""

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec

        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("Klamm throw-away CA")
        self.certificate = self._signed(self._name, self._key, [], is_authority=True)

    def sign(self, name: str, alternatives: "list[x509.GeneralName]") -> "tuple[EllipticCurvePrivateKey, Any]":
        """A new key and its certificate."""
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        return key, self._signed(_name(name), key, alternatives, is_authority=False)

    def _signed(
        self,
        subject: "x509.Name",
        key: "EllipticCurvePrivateKey",
        alternatives: "list[x509.GeneralName]",
        *,
        is_authority: bool,
    ) -> "x509.Certificate":
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes

        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=_DAYS))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        if is_authority:
            usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
            builder = builder.add_extension(usage, critical=True)
        return builder.sign(self._key, hashes.SHA256())


def _name(text: str) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(name: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: "x509.Certificate") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()


def _key_pem(key: "EllipticCurvePrivateKey") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
