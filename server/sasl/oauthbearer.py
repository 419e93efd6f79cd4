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

from klamm.server.sasl.mechanism import AuthenticationFailed, CredentialsRefused, Identity

MAX_MESSAGE_BYTES: Final = 65_536
"""The longest message of a client. Apache Kafka has no such limit."""
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
        if self._error:
            if token == _ACKNOWLEDGED:
                raise AuthenticationFailed(self._error)
            raise CredentialsRefused  # a second token on the same connection
        if len(token) > MAX_MESSAGE_BYTES:
            raise CredentialsRefused
        authorization_id, bearer = _decoded(token)
        try:
            identity = self._validate(bearer, now_ms)
        except TokenRefused as refused:
            said = {"status": "insufficient_scope", "scope": refused.scope} if refused.scope else {}
            self._error = json.dumps(said or {"status": "invalid_token"}, separators=(",", ":"))
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
    if bearer is None or bearer["scheme"].lower() != "bearer":
        raise CredentialsRefused
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
        return identity_of(
            claims, now_ms, self.principal_claim, self.scope_claim, self.required_scope, self.clock_skew_ms
        )


def identity_of(
    claims: Mapping[str, Any],
    now_ms: int,
    principal_claim: str,
    scope_claim: str,
    required_scope: tuple[str, ...],
    clock_skew_ms: int,
) -> Identity:
    """Whom the claims of a token name, if it is valid now. Raises TokenRefused."""
    name, expires_at_ms = claims.get(principal_claim), _milliseconds(claims, "exp")
    if not isinstance(name, str) or not name.strip() or expires_at_ms is None:
        raise TokenRefused
    if now_ms - clock_skew_ms >= expires_at_ms:
        raise TokenRefused
    for claim in ("iat", "nbf"):
        begins_at_ms = _milliseconds(claims, claim)
        if begins_at_ms is not None and begins_at_ms > now_ms + clock_skew_ms:
            raise TokenRefused
    scope = claims.get(scope_claim, ())
    granted = scope.split() if isinstance(scope, str) else scope if isinstance(scope, list | tuple) else ()
    if any(one not in granted for one in required_scope):
        raise TokenRefused(" ".join(required_scope))
    return Identity(name, expires_at_ms=expires_at_ms)


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
        raise TokenRefused
    return value
