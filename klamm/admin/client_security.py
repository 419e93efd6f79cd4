"""TLS and SASL of a client from the properties of Kafka's clients (`klamm.admin.client_properties` reads them).

Key stores, trust stores and JAAS configurations are read by the code that reads those of servers. Errors are
InvalidClientProperties.
"""

import base64
import json
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from klamm.admin.client_configs import ClientConfigs
from klamm.admin.logins import DIGESTS, bearer_login, plain_login, scram_login
from klamm.admin.security import ClientSecurity, Login, LoginFailed
from klamm.protocol.printable import printable
from klamm.server.sasl.jaas import JaasError, LoginModule, decode_jaas
from klamm.server.tls.context import VERSIONS, load_key
from klamm.server.tls.store_configs import KEY_PASSWORD, TRUST_FILE, own_keys, tried, trusted_certificates

_VERIFY: Final = "ssl.endpoint.identification.algorithm"
_VERSIONS: Final = "ssl.enabled.protocols"
_ENGINE: Final = "ssl.engine.factory.class"
_STORES: Final = tuple(
    f"ssl.{store}.{what}"
    for store, whats in (
        ("keystore", ("type", "location", "password", "key", "certificate.chain")),
        ("truststore", ("type", "location", "password", "certificates")),
    )
    for what in whats
)
USED_BY_TLS: Final = frozenset({*_STORES, KEY_PASSWORD, _VERIFY, _VERSIONS})
_MECHANISM: Final = "sasl.mechanism"
_JAAS: Final = "sasl.jaas.config"
_LOGIN_CALLBACKS: Final = "sasl.login.callback.handler.class"
_CLIENT_CALLBACKS: Final = "sasl.client.callback.handler.class"
_LOGIN_CLASS: Final = "sasl.login.class"
_TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
USED_BY_SASL: Final = frozenset({_MECHANISM, _JAAS, _LOGIN_CALLBACKS, _TOKEN_URL})
_PACKAGE: Final = "org.apache.kafka.common.security."
_PASSWORD_MODULES: Final = (f"{_PACKAGE}plain.PlainLoginModule", f"{_PACKAGE}scram.ScramLoginModule")
_OAUTH_MODULE: Final = f"{_PACKAGE}oauthbearer.OAuthBearerLoginModule"
_TOKEN_CALLBACKS: Final = (
    f"{_PACKAGE}oauthbearer.OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)
_MECHANISMS: Final = ("PLAIN", *DIGESTS, "OAUTHBEARER")
_CLAIM: Final = "unsecuredLoginStringClaim_"
_NUMBER_CLAIM: Final = "unsecuredLoginNumberClaim_"
_LIFETIME: Final = "unsecuredLoginLifetimeSeconds"
_DEFAULT_LIFETIME_SECONDS: Final = 3_600
_MAX_TOKEN_BYTES: Final = 65_536


def client_security(own: ClientConfigs, *, has_tls: bool, has_sasl: bool) -> ClientSecurity:
    """What the client needs for its protocol. Raises InvalidClientProperties."""
    return ClientSecurity(tls=_tls(own) if has_tls else None, login=_login(own) if has_sasl else None)


def _tls(own: ClientConfigs) -> ssl.SSLContext:
    _refuse_classes(own, _ENGINE)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    verify = own.text(_VERIFY)
    if verify is not None and verify.lower() not in ("", "https"):
        raise own.refuse(_VERIFY, f"{printable(verify)}: https or nothing is expected")
    context.check_hostname = verify != ""
    versions = [one.strip() for one in (own.text(_VERSIONS) or ",".join(VERSIONS)).split(",")]
    if unknown := [one for one in versions if one not in VERSIONS]:
        raise own.refuse(
            _VERSIONS, f"{printable(', '.join(unknown))} is not supported; the versions are {', '.join(VERSIONS)}"
        )
    context.minimum_version = min(VERSIONS[one] for one in versions)
    context.maximum_version = max(VERSIONS[one] for one in versions)
    if (keys := own_keys(own)) is not None:
        tried(own, keys[1], lambda: load_key(context, keys[0], own.text(KEY_PASSWORD)))
    trusted = trusted_certificates(own)
    if not trusted:
        context.load_default_certs()
        return context
    # As in Java, any certificate in the trust store is an anchor, also one that is not a root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata="\n".join(trusted))
    except ssl.SSLError:
        raise own.refuse(TRUST_FILE, "a trusted certificate cannot be read") from None
    return context


def _refuse_classes(own: ClientConfigs, *names: str) -> None:
    for name in names:
        if own.text(name):
            raise own.refuse(name, "classes in Java cannot be loaded here")


def _login(own: ClientConfigs) -> Login:
    _refuse_classes(own, _CLIENT_CALLBACKS, _LOGIN_CLASS)
    mechanism = own.text(_MECHANISM)
    if mechanism not in _MECHANISMS:
        named = "GSSAPI (the default)" if mechanism is None else printable(mechanism)
        raise own.refuse(_MECHANISM, f"{named} is not supported; the mechanisms are {', '.join(_MECHANISMS)}")
    text = own.text(_JAAS)
    if text is None:
        raise own.refuse(_JAAS, f"is not set; {mechanism} needs it: LOGIN_MODULE required …;")
    try:
        module = decode_jaas(text)
    except JaasError as error:
        raise own.refuse(_JAAS, str(error)) from None
    if mechanism == "OAUTHBEARER":
        return bearer_login(_new_token(own, module))
    _refuse_classes(own, _LOGIN_CALLBACKS)
    if module.class_name not in _PASSWORD_MODULES:
        raise own.refuse(_JAAS, f"the login module of {mechanism} must be {' or '.join(_PASSWORD_MODULES)}")
    user, password = module.options.get("username"), module.options.get("password")
    if user is None or password is None:
        raise own.refuse(_JAAS, f"{mechanism} needs username and password as options of its login module")
    if mechanism == "PLAIN":
        return plain_login(user, password)
    is_token = module.options.get("tokenauth", "").lower() == "true"
    return scram_login(mechanism, user, password, is_token=is_token)


def _new_token(own: ClientConfigs, module: LoginModule) -> Callable[[], str]:
    """The source of tokens: a file, or unsecured ones made of the login module's options, as in Kafka."""
    if module.class_name != _OAUTH_MODULE:
        raise own.refuse(_JAAS, f"the login module of OAUTHBEARER must be {_OAUTH_MODULE}")
    callbacks = own.text(_LOGIN_CALLBACKS)
    if callbacks is None:
        return _unsecured(own, module.options)
    if callbacks not in _TOKEN_CALLBACKS:
        raise own.refuse(_LOGIN_CALLBACKS, f"classes in Java cannot be loaded here; there is {_TOKEN_CALLBACKS[0]}")
    url = own.text(_TOKEN_URL)
    parts = urlsplit(url or "")
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise own.refuse(_TOKEN_URL, f"{printable(url or 'nothing')}: only a file can be read, such as file:///token")
    path = Path(unquote(parts.path))
    if not path.is_file():
        raise own.refuse(_TOKEN_URL, f"{printable(str(path))}: there is no such file")
    return lambda: _read_token(path)


def _read_token(path: Path) -> str:
    """The token in a file, read for each login, because tokens expire and are replaced."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_TOKEN_BYTES)
        return data.decode("ascii").strip()
    except (OSError, ValueError):
        raise LoginFailed(f"the token in {printable(str(path))} cannot be read") from None


def _unsecured(own: ClientConfigs, options: Mapping[str, str]) -> Callable[[], str]:
    """Tokens without a signature, as Kafka's OAuthBearerUnsecuredLoginCallbackHandler makes them."""
    claims: dict[str, Any] = {}
    lifetime = _DEFAULT_LIFETIME_SECONDS
    for name, value in options.items():
        if not name.startswith((_CLAIM, _NUMBER_CLAIM)) and name != _LIFETIME:
            raise own.refuse(_JAAS, f"option {printable(name)} of {_OAUTH_MODULE} is not supported")
        try:
            if name.startswith(_CLAIM):
                claims[name.removeprefix(_CLAIM)] = value
            elif name.startswith(_NUMBER_CLAIM):
                claims[name.removeprefix(_NUMBER_CLAIM)] = float(value)
            else:
                lifetime = int(value)
        except ValueError:
            raise own.refuse(_JAAS, f"option {printable(name)} must be a number") from None
    if "sub" not in claims:
        raise own.refuse(_JAAS, f"OAUTHBEARER needs {_CLAIM}sub as an option of its login module")

    def token() -> str:
        now = int(time.time())  # whole seconds, so that no broker whose clock is behind by a moment refuses it
        body = {"iat": now, "exp": now + lifetime, **claims}
        return f"{_encoded({'alg': 'none'})}.{_encoded(body)}."

    return token


def _encoded(part: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
