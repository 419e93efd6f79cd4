"""Requests that only brokers and controllers of a cluster with ZooKeeper send each other: LeaderAndIsr (4),
StopReplica (5), UpdateMetadata (6) and ControlledShutdown (7).

A broker with ZooKeeper lists them on the listener of its clients. Klamm's simulated brokers have no use for them, and
refuse all of their requests as Kafka refuses clients without the right: CLUSTER_AUTHORIZATION_FAILED.
"""

from typing import Any

from klamm.controller.context import RequestContext
from klamm.controller.handler import Handler, Handlers
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.controller.steps import Steps
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.zookeeper import controlled_shutdown, leader_and_isr, stop_replica, update_metadata


def refused_to_clients(response: type[Message], handle: Handler | None = None) -> Handler:
    """A handler that refuses the clients of brokers. `handle` decides requests on the controller's listener."""

    def decide(image: MetadataImage, request: Any, context: RequestContext) -> Outcome | Steps:
        if handle is not None and context.requester.listener == "controller":
            return handle(image, request, context)
        return Outcome(response(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))  # type: ignore[call-arg]

    return decide


BETWEEN_NODES: Handlers = {
    api: refused_to_clients(api.response)
    for api in (leader_and_isr.API, stop_replica.API, update_metadata.API, controlled_shutdown.API)
}
