"""The SCRAM credentials that the metadata has: those of users, and those that follow from delegation tokens."""

import base64
import hashlib
from functools import lru_cache, partial

from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.scram_credentials import ScramCredential
from klamm.controller.transitions.delegation_tokens import token_hmac
from klamm.controller.transitions.scram import MIN_ITERATIONS, credential_of, salted
from klamm.server.sasl.mechanism import Identity
from klamm.server.sasl.scram import FindCredential, Found

CACHED_TOKENS = 1_000
"""Keys of tokens that have logged in are kept, because computing them takes milliseconds."""


def credentials_of(mechanism: int, image: MetadataImage, token_key: str | None) -> FindCredential:
    """The lookup for one mechanism. `token_key` is `delegation.token.secret.key`; None: there are no tokens."""
    return partial(_find, mechanism, image, token_key)


def _find(mechanism: int, image: MetadataImage, token_key: str | None, name: str, is_token: bool) -> Found | None:
    if not is_token:
        credential = image.scram_credentials.get((name, mechanism))
        return None if credential is None else Found(credential, Identity(name))
    token = image.delegation_tokens.get(name)
    if token is None or token_key is None:
        return None
    principal_type, _, owner = token.owner.partition(":")
    identity = Identity(owner, principal_type, expires_at_ms=token.expires_at_ms, by_token=True)
    return Found(_of_token(mechanism, token_key, name), identity)


@lru_cache(maxsize=CACHED_TOKENS)
def _of_token(mechanism: int, key: str, token_id: str) -> ScramCredential:
    secret = token_hmac(key, token_id)
    # Kafka's salts are random and kept in memory; this one is as unknown to those who do not have the secret.
    salt = hashlib.sha256(b"salt" + secret).digest()[:20]
    password = base64.b64encode(secret)
    return credential_of(mechanism, salted(mechanism, password, salt, MIN_ITERATIONS), salt, MIN_ITERATIONS)
