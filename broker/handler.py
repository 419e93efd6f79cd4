"""The form of a handler that brokers have for an API of their own."""

from collections.abc import Callable
from typing import Any, TypeAlias

from klamm.broker.brokers import SimulatedBrokers
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.controller.steps import Steps

BrokerHandler: TypeAlias = Callable[[SimulatedBrokers, MetadataImage, Any, RequestContext], Outcome | Steps]
"""A `Handler` with one more argument, the first: the brokers of this process. The context says which one was asked."""
