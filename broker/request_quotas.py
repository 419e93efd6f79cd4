"""Quotas of the node that answers a request: bytes of Produce, bytes of Fetch, and request time.

Each broker measures its own clients, and so does the controller for the requests that brokers forward to it. A request
is measured when it arrives; only a Fetch is measured when its answer is complete, because its answer counts. Klamm does
not measure the time of threads, which would differ from run to run: a request takes `REQUEST_NANOS`, and `BYTE_NANOS`
for each byte.
"""

from typing import Final

from klamm.broker.brokers import SimulatedBrokers
from klamm.controller.calls import Call
from klamm.controller.quotas.limits import PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE, find_limit, user_of
from klamm.controller.quotas.usage import ClientRates
from klamm.protocol.messages.data import produce
from klamm.protocol.messages.data.produce import ProduceRequest

REQUEST_NANOS: Final = 100_000
"""The time that a request takes of a broker's threads, as far as quotas count it."""
BYTE_NANOS: Final = 1
"""The same for each byte of the request."""
_NANOS_PER_PERCENT: Final = 10_000_000
"""A thread that is busy all the time has 100 percent."""

_FORWARDED: Final = frozenset({19, 20, 29, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 80, 81})
"""APIs that brokers forward, so that the controller measures their requests."""
_EXEMPT: Final = frozenset({4, 5, 6, 7, 27, 52, 53, 54, 55, 56, 58, 59, 62, 63, 67, 70, 73, 80, 81, 82})
"""APIs between nodes, which no request quota throttles."""


def charge_request(brokers: SimulatedBrokers, call: Call, request_bytes: int, now_ms: int) -> int:
    """Measure a request that has arrived, header and body. Returns the time in ms for which its client is throttled.
    Call it once for each request, if the cluster has quotas at all."""
    user = user_of(call.principal)
    rates = _rates_of(brokers, call)
    if user is None or rates is None:
        return 0
    quotas, client_id, key = brokers.controller.image.client_quotas, call.client_id or "", call.api.key
    throttle_ms = 0
    is_unanswered = False
    if key == produce.API.key and isinstance(call.request, ProduceRequest):
        limit = find_limit(quotas, PRODUCER_BYTE_RATE, user, client_id)
        if limit is not None:
            throttle_ms = rates.charge(PRODUCER_BYTE_RATE, limit, request_bytes, now_ms)
        is_unanswered = not call.request.acks
    if key in _EXEMPT or is_unanswered:
        return throttle_ms
    limit = find_limit(quotas, REQUEST_PERCENTAGE, user, client_id)
    if limit is None:
        return throttle_ms
    percent = (REQUEST_NANOS + BYTE_NANOS * request_bytes) / _NANOS_PER_PERCENT
    # Bounded, as in Kafka, so that a client with a low percentage is not silent for long.
    request_ms = min(rates.charge(REQUEST_PERCENTAGE, limit, percent, now_ms), rates.windows.length_ms)
    return max(throttle_ms, request_ms)


def _rates_of(brokers: SimulatedBrokers, call: Call) -> ClientRates | None:
    if call.broker_id is None or call.api.key in _FORWARDED:
        return brokers.controller.rates
    broker = brokers.by_id.get(call.broker_id)
    return None if broker is None else broker.rates
