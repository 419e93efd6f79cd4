"""Which tokens of OAUTHBEARER a listener takes, from Kafka's configs: unsecured ones, or those that keys have signed.

The callback handler decides: without one, tokens are unsecured, as in Kafka. Errors are SettingsError.
"""

import ssl
from pathlib import Path
from typing import Final, cast
from urllib.parse import unquote, urlsplit

from klamm.cluster.listener_configs import ListenerConfigs
from klamm.controller.settings import SettingsError
from klamm.protocol.printable import printable
from klamm.server.jwks import AddressKeys, FileKeys, JwksAddress
from klamm.server.sasl.jaas import LoginModule
from klamm.server.sasl.oauthbearer import TokenValidator, UnsecuredTokens
from klamm.server.sasl.signed_tokens import JwksError, KeySource, SignedTokens
from klamm.server.tls.store_configs import TRUST_FILE, trusted_certificates

_MECHANISM: Final = "OAUTHBEARER"
_CALLBACKS: Final = "sasl.server.callback.handler.class"
_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
_UNSECURED: Final = f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
_SIGNED: Final = (
    f"{_PACKAGE}OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}secured.OAuthBearerValidatorCallbackHandler",
)
_MAX_MS: Final = 2**31 - 1


def token_validator(own: ListenerConfigs, module: LoginModule) -> TokenValidator:
    """The validator of the listener. Raises SettingsError."""
    handler = own.text(_CALLBACKS, _MECHANISM) or _UNSECURED
    if handler == _UNSECURED:
        if own.text(_URL, _MECHANISM):
            wanted = f"{own.named(_CALLBACKS, _MECHANISM)} is not {_SIGNED[0]}, so unsecured tokens would be taken"
            raise own.refuse(_URL, f"is set, and {wanted}", _MECHANISM)
        return _unsecured(own, module)
    if handler not in _SIGNED:
        raise own.refuse(_CALLBACKS, f"classes in Java cannot be loaded here; there are {_UNSECURED} and {_SIGNED[0]}",
                         _MECHANISM)  # fmt: skip
    return SignedTokens(
        keys=_keys(own, module),
        audience=tuple(cast("tuple[str, ...]", own.value("sasl.oauthbearer.expected.audience", _MECHANISM))),
        issuer=own.text("sasl.oauthbearer.expected.issuer", _MECHANISM),
        principal_claim=str(own.value("sasl.oauthbearer.sub.claim.name", _MECHANISM)),
        scope_claim=str(own.value("sasl.oauthbearer.scope.claim.name", _MECHANISM)),
        clock_skew_ms=1000 * cast("int", own.value("sasl.oauthbearer.clock.skew.seconds", _MECHANISM)),
    )


def _unsecured(own: ListenerConfigs, module: LoginModule) -> UnsecuredTokens:
    options = module.options
    skew = options.get("unsecuredValidatorAllowableClockSkewMs", "0")
    if not (skew.isascii() and skew.isdecimal() and len(skew) < 16):
        raise own.refuse("sasl.jaas.config", "unsecuredValidatorAllowableClockSkewMs must be a number", _MECHANISM)
    return UnsecuredTokens(
        principal_claim=options.get("unsecuredValidatorPrincipalClaimName") or "sub",
        scope_claim=options.get("unsecuredValidatorScopeClaimName") or "scope",
        required_scope=tuple(options.get("unsecuredValidatorRequiredScope", "").split()),
        clock_skew_ms=int(skew),
    )


def _keys(own: ListenerConfigs, module: LoginModule) -> KeySource:
    """The source of the keys. A file is read here, an address is asked when the cluster starts."""
    url = own.text(_URL, _MECHANISM)
    if not url:
        raise own.refuse(_URL, "is not set, and the tokens have to be signed", _MECHANISM)
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and parts.port != 0 and url.isprintable() and " " not in url
    except ValueError:
        raise own.refuse(_URL, f"{printable(url)}: is no address", _MECHANISM) from None
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        try:
            return FileKeys(Path(unquote(parts.path)))
        except JwksError as error:
            raise own.refuse(_URL, str(error), _MECHANISM) from None
    if "@" in parts.netloc:
        raise own.refuse(_URL, "a user or password in the address is not supported", _MECHANISM)
    if parts.scheme not in ("http", "https") or not is_whole:
        raise own.refuse(
            _URL, f"{printable(url)}: https://…, http://… or a file, such as file:///keys.json, is expected", _MECHANISM
        )
    return AddressKeys(
        JwksAddress(
            url=parts,
            tls=_trusting(own, module) if parts.scheme == "https" else None,
            setting=f"listener {own.name}: {own.named(_URL, _MECHANISM)}",
            refresh_ms=_positive(own, "sasl.oauthbearer.jwks.endpoint.refresh.ms"),
            backoff_ms=_positive(own, "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
            backoff_max_ms=_positive(own, "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
        )
    )


def _positive(own: ListenerConfigs, name: str) -> int:
    value = cast("int", own.value(name, _MECHANISM))
    if not 0 < value <= _MAX_MS:
        raise own.refuse(name, f"{value}: 1 to {_MAX_MS} is expected", _MECHANISM)
    return value


class _JaasOptions:
    """Options of a login module as configs, such as `ssl.truststore.location`."""

    def __init__(self, own: ListenerConfigs, module: LoginModule) -> None:
        self._own = own
        self._options = module.options

    def named(self, name: str) -> str:
        return name

    def text(self, name: str) -> str | None:
        return self._options.get(name)

    def refuse(self, name: str, reason: str) -> SettingsError:
        return self._own.refuse("sasl.jaas.config", f"option {name}: {reason}", _MECHANISM)


def _trusting(own: ListenerConfigs, module: LoginModule) -> ssl.SSLContext:
    """Whom the server trusts at the address: the trust store in the options of the login module, as in Kafka, or else
    the certificates of the operating system."""
    options = _JaasOptions(own, module)
    trusted = trusted_certificates(options)
    if not trusted:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata="\n".join(trusted))
    except ssl.SSLError:
        raise options.refuse(TRUST_FILE, "a trusted certificate cannot be read") from None
    return context
