"""OAUTHBEARER (RFC 7628): a token in one message. A refused token is answered with JSON, and the exchange fails with
the client's next message, as in Kafka's OAuthBearerSaslServer.

Which tokens are good is decided by a `TokenValidator`: the unsecured one is here, for tests as in Kafka; that of signed
tokens is `klamm.server.sasl.signed_tokens`.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from klamm.server.sasl.mechanism import AuthenticationFailed, CredentialsRefused, Identity, Malformed

MAX_MESSAGE_BYTES: Final = 65_536
"""The longest message of a client. Apache Kafka has no such limit."""
MAX_NAME_BYTES: Final = 16_384
"""The longest name in a token. Old versions of responses have no room for a longer principal."""
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_MESSAGE: Final = re.compile(
    rf"n,(?:a=(?P<authorization>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_BEARER: Final = re.compile(r"(?P<scheme>\w+)[ ]+(?P<token>[-_~+/.a-zA-Z0-9]+=*)")
_ACKNOWLEDGED: Final = b"\x01"


class TokenRefused(Exception):
    """A token is not good. `scope` is the one that it lacks, if that is the reason."""

    def __init__(self, scope: str = "") -> None:
        super().__init__(scope)
        self.scope = scope


TokenValidator = Callable[[str, int], Identity]
"""The identity in a token at a time (ms since 1970). Raises TokenRefused."""


class OAuthBearer:
    """One exchange."""

    def __init__(self, validate: TokenValidator) -> None:
        self._validate = validate
        self._error = ""
        """The JSON of a refusal that the client has to acknowledge."""
        self.identity: Identity | None = None

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        """The empty answer to a good token, or JSON that says why it is none."""
        if self._error and token == _ACKNOWLEDGED:
            raise AuthenticationFailed(self._error)
        self._error = ""  # as in Kafka, another token may follow a refused one
        if len(token) > MAX_MESSAGE_BYTES:
            raise CredentialsRefused
        authorization_id, bearer = _decoded(token)
        try:
            identity = self._validate(bearer, now_ms)
        except TokenRefused as refused:
            self._error = '{"status":"invalid_token"}'
            if refused.scope:
                self._error = f'{{"status":"insufficient_scope", "scope":{json.dumps(refused.scope)}}}'
            return self._error.encode()
        if authorization_id not in ("", identity.name):
            raise AuthenticationFailed(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
                f"from the token's principal name ({identity.name})"
            )
        self.identity = identity
        return b""


def _decoded(message: bytes) -> tuple[str, str]:
    """The authorization id and the token. Raises CredentialsRefused."""
    found = _MESSAGE.fullmatch(message.decode(errors="replace"))
    if found is None:
        raise CredentialsRefused
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split("\x01") if pair)
    bearer = _BEARER.fullmatch(pairs.get("auth", ""))
    if bearer is None:
        raise CredentialsRefused
    if bearer["scheme"].lower() != "bearer":
        raise Malformed("a token of another scheme than Bearer")
    return found["authorization"] or "", bearer["token"]


@dataclass(frozen=True, slots=True)
class UnsecuredTokens:
    """Takes tokens without a signature (`alg` is `none`), whose claims anybody may write: for tests only."""

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    clock_skew_ms: int = 0

    def __call__(self, token: str, now_ms: int) -> Identity:
        parts = token.split(".")
        if len(parts) != 3 or parts[2]:
            raise TokenRefused
        header, claims = _object(parts[0]), _object(parts[1])
        if header.get("alg") != "none":
            raise TokenRefused
        scope = _scope(claims.get(self.scope_claim, ()))
        # Kafka's validator of unsecured tokens does not know nbf.
        claims.pop("nbf", None)
        identity = identity_of(claims, now_ms, self.principal_claim, self.clock_skew_ms)
        if any(one not in scope for one in self.required_scope):
            raise TokenRefused(f"[{', '.join(self.required_scope)}]")
        return identity


def _scope(value: Any) -> list[Any]:
    """The scopes in a claim. Kafka takes a text for one scope, whatever blanks it has. Raises TokenRefused."""
    if isinstance(value, str):
        return [value.strip()] if value.strip() else []
    if not isinstance(value, list | tuple):
        raise TokenRefused
    return list(value)


def identity_of(claims: Mapping[str, Any], now_ms: int, principal_claim: str, clock_skew_ms: int) -> Identity:
    """Whom the claims of a token name, if it is valid now. Raises TokenRefused."""
    name, expires_at_ms = claims.get(principal_claim), _milliseconds(claims, "exp")
    if not isinstance(name, str) or not _is_name(name) or expires_at_ms is None:
        raise TokenRefused
    if now_ms - clock_skew_ms >= expires_at_ms:
        raise TokenRefused
    for claim in ("iat", "nbf"):
        begins_at_ms = _milliseconds(claims, claim)
        if begins_at_ms is not None and begins_at_ms > now_ms + clock_skew_ms:
            raise TokenRefused
    return Identity(name, expires_at_ms=expires_at_ms)


def _is_name(name: str) -> bool:
    """Whether it can be a principal's: JSON may have halves of characters, which no response and no record can have."""
    try:
        return bool(name.strip()) and len(name.encode()) <= MAX_NAME_BYTES
    except UnicodeEncodeError:
        return False


def _milliseconds(claims: Mapping[str, Any], claim: str) -> int | None:
    """A time of a token, which has seconds; None if it lacks it."""
    value = claims.get(claim)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < 1e12:
        raise TokenRefused
    return int(value * 1000)


def _object(part: str) -> dict[str, Any]:
    try:
        value = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        raise TokenRefused from None
    if not isinstance(value, dict):
        raise Malformed("a part of a token is JSON, and no object")
    return value
