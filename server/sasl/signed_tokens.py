"""Signed OAuth tokens (JWT), checked with the public keys of a JWKS by PyJWT, which comes with `klamm[security]`.

Only signatures by private keys count: `alg` has to be one of `ALGORITHMS`, so neither `none` nor a secret that is in
truth the public key gets in. Times are compared with the cluster's clock.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from klamm.server.sasl.mechanism import Identity
from klamm.server.sasl.oauthbearer import TokenRefused, identity_of

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
_CLAIMS_UNCHECKED: Final = {"verify_exp": False, "verify_iat": False, "verify_nbf": False, "verify_sub": False}
"""What `identity_of` checks on the cluster's clock."""


class JwksError(ValueError):
    """Keys that cannot be read. The text is one clause for users."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """One key of a JWKS."""

    key: Any
    key_id: str | None
    algorithm: str | None
    """The only algorithm for which the key may be used; None: any that fits it."""


def decode_jwks(data: bytes) -> list[PublicKey]:
    """The public keys of a JWKS. Raises JwksError."""
    try:
        from jwt import PyJWK, PyJWTError
    except ImportError:
        raise JwksError("signed tokens need the package pyjwt: pip install '/path/to/klamm[security]'") from None
    try:
        keys = [
            PublicKey(PyJWK(one).key, one.get("kid"), one.get("alg"))
            for one in json.loads(data)["keys"]
            if one.get("kty") in ("RSA", "EC", "OKP") and one.get("use", "sig") == "sig" and "d" not in one
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, PyJWTError):
        raise JwksError("there is no JWKS with public keys") from None
    if not keys:
        raise JwksError("the JWKS has no public key for signatures")
    return keys


class KeySource(Protocol):
    """Where public keys are from."""

    def keys_for(self, key_id: str | None) -> Sequence[PublicKey]:
        """The keys among which one with this id may be."""


@dataclass(frozen=True, slots=True)
class FixedKeys:
    """Keys that do not change."""

    keys: Sequence[PublicKey]

    def keys_for(self, key_id: str | None) -> Sequence[PublicKey]:
        """All keys."""
        return self.keys


@dataclass(frozen=True, slots=True)
class SignedTokens:
    """Takes tokens that one of the keys has signed."""

    keys: KeySource
    audience: tuple[str, ...] = ()
    """One of these has to be in the token; empty: none may be."""
    issuer: str | None = None
    principal_claim: str = "sub"
    scope_claim: str = "scope"
    clock_skew_ms: int = 30_000

    def __call__(self, token: str, now_ms: int) -> Identity:
        claims = self._claims(token)
        if "iat" not in claims:
            raise TokenRefused
        # As in Kafka, a token for some audience is for others, if none is expected here.
        if "aud" in claims and not self.audience:
            raise TokenRefused
        return identity_of(claims, now_ms, self.principal_claim, self.clock_skew_ms)

    def _claims(self, token: str) -> dict[str, Any]:
        import jwt

        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise TokenRefused from None
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise TokenRefused
        options: Any = {**_CLAIMS_UNCHECKED, "verify_aud": bool(self.audience)}
        if not isinstance(key_id, str | None):
            raise TokenRefused
        for key in self.keys.keys_for(key_id):
            if key_id not in (None, key.key_id) or key.algorithm not in (None, algorithm):
                continue
            try:
                found: dict[str, Any] = jwt.decode(
                    token,
                    key=key.key,
                    algorithms=[algorithm],
                    audience=list(self.audience) or None,
                    issuer=self.issuer,
                    options=options,
                )
            except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
                continue
            return found
        raise TokenRefused
