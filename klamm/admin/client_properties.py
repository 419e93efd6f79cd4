"""How a client connects, from the properties of Kafka's clients: a mapping, or a file such as `--command-config` names.

`security.protocol`, `ssl.…`, `sasl.…`, `client.id` and `default.api.timeout.ms` have their effect. The others are
listed in `ClientProperties.ineffective`. Errors are InvalidClientProperties: one line that names the file, the setting
and, if there is one, the file that the setting names, and no secret.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias, TypedDict, Unpack

from klamm.admin.checks import expect
from klamm.admin.client_configs import ClientConfigs, InvalidClientProperties
from klamm.admin.security import NO_SECURITY, ClientSecurity
from klamm.controller.config_definitions.properties_file import PropertiesError, decode_properties
from klamm.protocol.bounded_file import UnreadableFile, read_bounded
from klamm.protocol.printable import printable

MAX_FILE_BYTES: Final = 1024 * 1024
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PROTOCOL: Final = "security.protocol"
_CLIENT_ID: Final = "client.id"
_TIMEOUT: Final = "default.api.timeout.ms"
_MAX_TIMEOUT_MS: Final = 2**31 - 1
_SERVERS: Final = "bootstrap.servers"
"""Known from elsewhere; as in Kafka's tools, the file need not have it."""
_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


class SecurityKeywords(TypedDict, total=False):
    """The settings of TLS and SASL that most clients need, as keywords."""

    security_protocol: str | None
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. Without it, it follows from the others."""
    mechanism: str | None
    """PLAIN (the default), SCRAM-SHA-256 or SCRAM-SHA-512."""
    user: str | None
    password: str | None
    ca_file: str | Path | None
    """The certificates that the client trusts, as PEM. Without it: those of the operating system."""
    certificate_file: str | Path | None
    """The client's own key and certificate, as PEM."""


@dataclass(frozen=True, slots=True)
class ClientProperties:
    """The settings of a client."""

    security: ClientSecurity = NO_SECURITY
    client_id: str | None = None
    request_timeout_seconds: float | None = None
    ineffective: tuple[str, ...] = ()
    """The names of settings that have no effect here, in alphabetical order."""

    @property
    def warning(self) -> str | None:
        """One clause about the settings without effect."""
        if not self.ineffective:
            return None
        return f"these client settings have no effect in Klamm: {printable(', '.join(self.ineffective))}"


Properties: TypeAlias = Mapping[str, str] | Path | str | ClientProperties | None
"""Kafka's settings by name, a properties file, or what has been decoded before."""


def properties_of_caller(given: Properties, **keywords: Unpack[SecurityKeywords]) -> ClientProperties:
    """As `decode_client_properties`; a warning names settings without effect, unless they have been decoded before."""
    if isinstance(given, ClientProperties):
        if any(value is not None for value in keywords.values()):
            raise TypeError("decoded properties cannot be combined with keywords")
        return given
    decoded = decode_client_properties(given, **keywords)
    if decoded.warning is not None:
        warnings.warn(decoded.warning, stacklevel=3)
    return decoded


def command_properties(path: Path | None) -> ClientProperties:
    """The settings in the file of `--command-config`. Raises InvalidClientProperties."""
    decoded = decode_client_properties(path)
    return replace(decoded, security=replace(decoded.security, settings_in="in the file of --command-config"))


def decode_client_properties(
    given: Mapping[str, str] | Path | str | None = None, **keywords: Unpack[SecurityKeywords]
) -> ClientProperties:
    """The settings in a mapping or a file, overridden by the keywords. Raises InvalidClientProperties."""
    pairs, origin = ({}, "") if given is None else _pairs(given)
    own = ClientConfigs({**pairs, **_from_keywords(pairs, keywords)}, origin)
    protocol = (own.text(_PROTOCOL) or PROTOCOLS[0]).upper()
    if protocol not in PROTOCOLS:
        raise own.refuse(_PROTOCOL, f"{printable(protocol)}: one of {', '.join(PROTOCOLS)} is expected")
    known = {_PROTOCOL, _CLIENT_ID, _TIMEOUT, _SERVERS}
    security = NO_SECURITY
    if protocol != PROTOCOLS[0]:
        # Imported only now: most clusters of tests need none of it.
        from klamm.admin.client_security import USED_BY_SASL, USED_BY_TLS, client_security

        security = client_security(own, has_tls=protocol.endswith("SSL"), has_sasl=protocol.startswith("SASL"))
        known |= USED_BY_TLS if protocol.endswith("SSL") else frozenset()
        known |= USED_BY_SASL if protocol.startswith("SASL") else frozenset()
    return ClientProperties(
        security=security,
        client_id=own.text(_CLIENT_ID) or None,
        request_timeout_seconds=_timeout_seconds(own),
        ineffective=tuple(sorted(own.properties.keys() - known)),
    )


def _pairs(given: Mapping[str, str] | Path | str) -> tuple[Mapping[str, str], str]:
    """The pairs, and the file that they are from."""
    if isinstance(given, Mapping):
        for name, value in given.items():
            expect("name of a setting", name, str)
            expect(f"value of {name}:", value, str)
        return given, ""
    expect("properties", given, str, Path)
    path = printable(str(given))
    try:
        return decode_properties(read_bounded(Path(given), MAX_FILE_BYTES)), str(given)
    except (UnreadableFile, PropertiesError) as error:
        raise InvalidClientProperties(f"{path}: {error}") from None


def _from_keywords(pairs: Mapping[str, str], keywords: SecurityKeywords) -> dict[str, str]:
    """The keywords in Kafka's words."""
    if unknown := keywords.keys() - SecurityKeywords.__annotations__.keys():
        raise TypeError(f"unexpected keyword argument {min(unknown)!r}")
    user, password = keywords.get("user"), keywords.get("password")
    mechanism = keywords.get("mechanism")
    ca, certificate = keywords.get("ca_file"), keywords.get("certificate_file")
    protocol = keywords.get("security_protocol")
    if (user is None) != (password is None):
        missing = "user" if user is None else "password"
        raise InvalidClientProperties(f"{missing}: is not given; user and password belong together")
    found: dict[str, str] = {}
    if user is not None and password is not None:
        mechanism = mechanism or "PLAIN"
        if mechanism not in _LOGIN_MODULES:
            raise InvalidClientProperties(f"mechanism {mechanism!r}: one of {', '.join(_LOGIN_MODULES)} is expected")
        module = _LOGIN_MODULES[mechanism]
        found["sasl.jaas.config"] = f"{module} required username={_quoted(user)} password={_quoted(password)};"
    if mechanism is not None:
        found["sasl.mechanism"] = mechanism
    if ca is not None:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(ca)}
    if certificate is not None:
        found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificate)}
    if protocol is None and found and _PROTOCOL not in pairs:
        has_tls = ca is not None or certificate is not None
        protocol = ("SASL_" if user is not None else "") + ("SSL" if has_tls else "PLAINTEXT")
    return found if protocol is None else {**found, _PROTOCOL: protocol}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _timeout_seconds(own: ClientConfigs) -> float | None:
    text = own.text(_TIMEOUT)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or not 0 < int(text[:11]) <= _MAX_TIMEOUT_MS:
        raise own.refuse(_TIMEOUT, f"{printable(text[:40])}: a whole number from 1 to {_MAX_TIMEOUT_MS} is expected")
    return int(text) / 1000
