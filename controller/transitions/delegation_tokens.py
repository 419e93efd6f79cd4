"""The rules of delegation tokens: their secrets, their times, and which of them are swept."""

import hmac
from functools import lru_cache
from typing import Final

from klamm.controller.log_records import Record
from klamm.controller.metadata.delegation_tokens import DelegationToken
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.settings import Settings
from klamm.protocol.records.security import RemoveDelegationTokenRecord

SECRET_KEY: Final = "delegation.token.secret.key"
MAX_TOKENS: Final = 10_000
"""Most tokens of a cluster. Apache Kafka has no such limit."""
SWEPT_AT_ONCE: Final = 1_000
_DIGEST: Final = "sha512"


def secret_key(settings: Settings) -> str | None:
    """The key of all tokens; None: there are no tokens."""
    return settings.static_configs.get(SECRET_KEY) or None


@lru_cache(maxsize=2 * MAX_TOKENS)
def token_hmac(key: str, token_id: str) -> bytes:
    """The secret of a token."""
    return hmac.digest(key.encode(), token_id.encode(), _DIGEST)


def find_by_hmac(image: MetadataImage, key: str, secret: bytes) -> DelegationToken | None:
    """The token with this secret. All tokens are compared, so that the time does not tell which one is near."""
    found = None
    for token_id, token in image.delegation_tokens.items():
        if hmac.compare_digest(token_hmac(key, token_id), secret):
            found = token
    return found


class TokenSweep:
    """Removes expired tokens from time to time."""

    def __init__(self, settings: Settings, now_ms: int) -> None:
        """`now_ms` is the time of the start; the first sweep is due one period later."""
        self._period_ms = settings.static_int("delegation.token.expiry.check.interval.ms")
        self.next_due_ms = now_ms + self._period_ms
        """When `plan` looks for expired tokens next."""

    def plan(self, image: MetadataImage, now_ms: int) -> list[Record]:
        """The records that are due. If many tokens have expired, the next call returns more."""
        if now_ms < self.next_due_ms:
            return []
        expired = [token.token_id for token in image.delegation_tokens.values() if token.is_expired(now_ms)]
        if len(expired) <= SWEPT_AT_ONCE:
            self.next_due_ms = now_ms + self._period_ms
        return [RemoveDelegationTokenRecord(token_id=token_id) for token_id in expired[:SWEPT_AT_ONCE]]
