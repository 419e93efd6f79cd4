"""The quota of bytes that consumers fetch from a broker (Kafka: handleFetchRequest and processShareFetchResponse).

The bytes count when the answer is complete. If they exceed the quota, the client gets an answer without topics and a
throttle time, and the bytes count no longer, because it fetches them again.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from klamm.broker.brokers import SimulatedBrokers
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.quotas.limits import CONSUMER_BYTE_RATE, Limit, find_limit, user_of
from klamm.controller.quotas.usage import ClientRates
from klamm.protocol.api import Api
from klamm.protocol.fields import Message

_SIZE_BYTES: Final = 4
"""Kafka counts the size prefix of an answer."""


class FetchQuota:
    """The quota of bytes that a consumer fetches from one broker."""

    def __init__(
        self, rates: ClientRates, limit: Limit | None, request_throttle_ms: int, body_bytes: Callable[[Message], int]
    ) -> None:
        """`request_throttle_ms`: for how long another quota throttles the request. `body_bytes` measures a response."""
        self._rates = rates
        self._limit = limit
        self._request_throttle_ms = request_throttle_ms
        self._body_bytes = body_bytes

    @property
    def max_bytes(self) -> int | None:
        """The most bytes of records in one answer: those of all windows but one. More would always be throttled."""
        if self._limit is None:
            return None
        windows = self._rates.windows
        return int(self._limit.bound * (windows.count - 1) * windows.length_ms / 1000)

    def throttle_ms(self, response: Message, now_ms: int) -> int:
        """For how long the client is throttled instead of getting this response; 0: the client gets it."""
        throttle_ms, limit = self._request_throttle_ms, self._limit
        if limit is not None:
            counted = _SIZE_BYTES + self._body_bytes(response)
            throttle_ms = max(throttle_ms, self._rates.charge(CONSUMER_BYTE_RATE, limit, counted, now_ms))
            if throttle_ms:  # the client does not get these bytes
                self._rates.take_back(CONSUMER_BYTE_RATE, limit, counted, now_ms)
        return throttle_ms


def fetch_quota_of(
    brokers: SimulatedBrokers, image: MetadataImage, api: Api[Any, Any], context: RequestContext
) -> FetchQuota | None:
    """The quotas that throttle a Fetch or ShareFetch of the requester; None: there are none."""
    requester = context.requester
    user, broker = user_of(requester.principal), brokers.by_id.get(requester.asked_broker_id or 0)
    if not image.client_quotas or user is None or broker is None:
        return None
    limit = find_limit(image.client_quotas, CONSUMER_BYTE_RATE, user, requester.client_id or "")
    if limit is None and not context.throttle_time_ms:
        return None
    body_bytes = partial(brokers.body_bytes, api, context.api_version)
    return FetchQuota(broker.rates, limit, context.throttle_time_ms, body_bytes)
