"""The quota of controller mutations (KIP-599): partitions that a client makes or deletes take tokens of its bucket.

A request may overdraw the bucket. After that, strict requests are refused with THROTTLING_QUOTA_EXCEEDED until the debt
is paid; requests of older versions are done and increase the debt. Either is throttled for debt / rate.
"""

from collections.abc import Mapping
from typing import Any, Final

from klamm.controller.metadata.client_quotas import Quotas
from klamm.controller.metadata.quota_entity import QuotaEntity
from klamm.controller.outcome import Effect
from klamm.controller.quotas.limits import CONTROLLER_MUTATION_RATE, Limit, Sharing, find_limit, user_of
from klamm.controller.quotas.rates import TokenBucket, Windows, capacity, debt_ms
from klamm.controller.quotas.usage import Usage
from klamm.controller.requester import Requester
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.quick_dataclasses import dataclass

EXCEEDED: Final = ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)


class MutationQuota:
    """The quota of one request, without a limit. What the request takes is applied by `effects`."""

    throttle_time_ms = 0
    """For how long the client has to wait after this request."""

    def take(self, _partitions: int, *, strict: bool) -> ApiError | None:
        """Take a token for each partition that is made or deleted; returns the error if a `strict` request may not."""
        return None

    @property
    def effects(self) -> list[Effect]:
        return []


UNLIMITED: Final = MutationQuota()


class MutationBuckets:
    """The buckets of all clients. They outlive their quotas, as in Kafka."""

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self._buckets: Usage[Sharing, TokenBucket] = Usage(lambda: TokenBucket(0, 0))

    def quota_of(self, quotas: Mapping[QuotaEntity, Quotas], requester: Requester, now_ms: int) -> MutationQuota:
        """The quota of a request."""
        user = user_of(requester.principal)
        if user is None:
            return UNLIMITED
        limit = find_limit(quotas, CONTROLLER_MUTATION_RATE, user, requester.client_id or "")
        return UNLIMITED if limit is None else _LimitedMutations(self, limit, now_ms)

    def tokens_of(self, limit: Limit, now_ms: int) -> float:
        """The tokens that the clients of a quota have now."""
        bucket = self._buckets.find(limit.shared_by)
        if bucket is None:
            return capacity(limit.bound, self.windows)
        return bucket.tokens_at(limit.bound, now_ms, self.windows)

    def set_tokens(self, limit: Limit, tokens: float, now_ms: int) -> None:
        """Set the tokens that are left after a request."""
        self._buckets.put(limit.shared_by, TokenBucket(tokens, now_ms), now_ms)


class _LimitedMutations(MutationQuota):
    def __init__(self, buckets: MutationBuckets, limit: Limit, now_ms: int) -> None:
        self._buckets = buckets
        self._limit = limit
        self._now_ms = now_ms
        self._tokens = buckets.tokens_of(limit, now_ms)
        self._has_taken = False

    def take(self, partitions: int, *, strict: bool) -> ApiError | None:
        if strict and self._tokens < 0:
            self.throttle_time_ms = debt_ms(self._tokens, self._limit.bound)
            return EXCEEDED
        self._tokens -= partitions
        self._has_taken = True
        if not strict:
            self.throttle_time_ms = debt_ms(self._tokens, self._limit.bound)
        return None

    @property
    def effects(self) -> list[Effect]:
        if not self._has_taken:
            return []
        return [_TokensTaken(self._buckets, self._limit, self._tokens, self._now_ms)]


@dataclass(frozen=True, slots=True)
class _TokensTaken:
    """What a request leaves in a bucket."""

    buckets: MutationBuckets
    limit: Limit
    tokens: float
    decided_ms: int

    def apply(self, _soft: Any, _now_ms: int) -> None:
        self.buckets.set_tokens(self.limit, self.tokens, self.decided_ms)
