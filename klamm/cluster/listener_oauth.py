"""Which tokens of OAUTHBEARER a listener takes, from Kafka's configs: unsecured ones, or those that keys have signed.

The callback handler decides: without one, tokens are unsecured, as in Kafka. Errors are SettingsError.
"""

from pathlib import Path
from typing import Final, cast
from urllib.parse import unquote, urlsplit

from klamm.cluster.listener_configs import ListenerConfigs
from klamm.protocol.printable import printable
from klamm.server.sasl.jaas import LoginModule
from klamm.server.sasl.oauthbearer import TokenValidator, UnsecuredTokens
from klamm.server.sasl.signed_tokens import JwksError, SignedTokens, decode_jwks

_MECHANISM: Final = "OAUTHBEARER"
_CALLBACKS: Final = "sasl.server.callback.handler.class"
_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
_UNSECURED: Final = f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
_SIGNED: Final = (
    f"{_PACKAGE}OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}secured.OAuthBearerValidatorCallbackHandler",
)
_MAX_FILE_BYTES: Final = 1024 * 1024


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
    try:
        keys = decode_jwks(_read(own))
    except JwksError as error:
        raise own.refuse(_URL, str(error), _MECHANISM) from None
    return SignedTokens(
        keys=keys,
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


def _read(own: ListenerConfigs) -> bytes:
    url = own.text(_URL, _MECHANISM)
    if not url:
        raise own.refuse(_URL, "is not set, and the tokens have to be signed", _MECHANISM)
    parts = urlsplit(url)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise own.refuse(_URL, f"{printable(url)}: only a file can be read, such as file:///keys.json", _MECHANISM)
    path = Path(unquote(parts.path))
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise own.refuse(_URL, f"{printable(str(path))}: {reason or error}", _MECHANISM) from None
    if len(data) > _MAX_FILE_BYTES:
        raise own.refuse(_URL, f"{printable(str(path))}: is larger than {_MAX_FILE_BYTES} bytes", _MECHANISM)
    return data
