"""DescribeCluster (60): the brokers, or on the controller listener the controllers (KIP-919).

A broker that is asked for controllers, and a controller that is asked for brokers, answer MISMATCHED_ENDPOINT_TYPE with
the recorded texts. A broker answers every client; the controller requires ALTER on the cluster.
"""

from klamm.controller.authorizer import AclOperation
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata_versions import FIRST_LEVEL_WITH_CONTROLLERS
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.cluster.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

ENDPOINT_TYPES = {1: "BROKER", 2: "CONTROLLER"}
BROKERS, CONTROLLERS = ENDPOINT_TYPES


def handle_describe_cluster(image: MetadataImage, request: DescribeClusterRequest, context: RequestContext) -> Outcome:
    """Brokers by id, fenced ones if asked for; or the controller."""
    own_type = CONTROLLERS if context.requester.listener == "controller" else BROKERS
    denied = context.refuse_cluster(AclOperation.ALTER) if own_type == CONTROLLERS else None
    if denied:
        return _refused(denied.code, denied.message)
    if request.endpoint_type not in ENDPOINT_TYPES:
        return _refused(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}")
    if request.endpoint_type != own_type:
        return _refused(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            f"The request was sent to an endpoint of type {ENDPOINT_TYPES[own_type]}, but we wanted an endpoint of "
            f"type {ENDPOINT_TYPES[request.endpoint_type]}",
        )
    if own_type == CONTROLLERS and image.features.metadata_version < FIRST_LEVEL_WITH_CONTROLLERS:
        text = "Direct-to-controller communication is not supported with the current MetadataVersion."
        return _refused(ErrorCode.UNSUPPORTED_VERSION, text)
    response = DescribeClusterResponse(endpoint_type=own_type, cluster_id=context.cluster.cluster_id)
    if own_type == CONTROLLERS:
        host, port = context.cluster.controller_end_point or ("", -1)
        response.controller_id = context.cluster.controller_id
        response.brokers = [
            DescribeClusterBroker(broker_id=context.cluster.controller_id, host=host, port=port),
            *_other_controllers(image, context),
        ]
    else:
        unfenced = image.unfenced_brokers()
        response.controller_id = int(unfenced.ids[0]) if len(unfenced) else -1
        response.brokers = _brokers(image, request.include_fenced_brokers, context.requester.listener_name)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = context.cluster_authorized_operations()
    return Outcome(response)


def _other_controllers(image: MetadataImage, context: RequestContext) -> list[DescribeClusterBroker]:
    """The controllers that have registered, with their end points of the name that was asked."""
    name = context.requester.listener_name or context.settings.controller_listener_name
    return [
        DescribeClusterBroker(broker_id=one.controller_id, host=at.host, port=at.port)
        for one in sorted(image.controllers.values(), key=lambda one: one.controller_id)
        for at in one.end_points
        if at.name == name and one.controller_id != context.cluster.controller_id
    ]


def _refused(code: ErrorCode, message: str | None) -> Outcome:
    return Outcome(DescribeClusterResponse(error_code=code, error_message=message))


def _brokers(image: MetadataImage, include_fenced: bool, listener_name: str | None) -> list[DescribeClusterBroker]:
    """The brokers that have the listener that was asked, with its end points."""
    brokers = sorted(image.brokers.values(), key=lambda broker: broker.broker_id)
    return [
        DescribeClusterBroker(
            broker_id=broker.broker_id,
            host=at.host,
            port=at.port,
            rack=broker.rack,
            is_fenced=broker.fenced,
        )
        for broker in brokers
        if (include_fenced or not broker.fenced) and (at := broker.end_point(listener_name)) is not None
    ]
