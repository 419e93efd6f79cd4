"""Which kinds of groups, besides classic ones, a broker serves (`group.coordinator.rebalance.protocols`)."""

from typing import Final

from klamm.controller.context import RequestContext

CONSUMER, STREAMS = "consumer", "streams"
PROTOCOLS: Final = "group.coordinator.rebalance.protocols"


def serves(protocol: str, context: RequestContext) -> bool:
    """Whether the broker that was asked serves groups of a protocol."""
    text = context.settings.static_text(PROTOCOLS, context.requester.asked_broker_id)
    return protocol in {each.strip().lower() for each in text.strip("[]").split(",")}
