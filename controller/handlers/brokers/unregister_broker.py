"""UnregisterBroker (64): removes the registration of a broker that will not return. Its replicas stay assigned to
it."""

from klamm.controller.authorizer import AclOperation
from klamm.controller.context import RequestContext
from klamm.controller.effects import Departing
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.controller.transitions.broker_lifecycle import MAX_CHANGES_AT_ONCE
from klamm.controller.transitions.leadership import count_in_sync, plan_broker_loss
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from klamm.protocol.records.brokers import UnregisterBrokerRecord


def handle_unregister_broker(
    image: MetadataImage, request: UnregisterBrokerRequest, context: RequestContext
) -> Outcome:
    """NONE, or BROKER_ID_NOT_REGISTERED; needs ALTER on the cluster."""
    refusal = context.refuse_cluster(AclOperation.ALTER)
    if refusal:
        return Outcome(UnregisterBrokerResponse(error_code=refusal.code, error_message=refusal.message))
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        return Outcome(
            UnregisterBrokerResponse(
                error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
                error_message=f"Broker ID {request.broker_id} is not currently registered",
            )
        )
    forgotten = UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
    response = UnregisterBrokerResponse()
    if count_in_sync(image, broker.broker_id) > MAX_CHANGES_AT_ONCE:
        return Outcome(response, [forgotten], [Departing(broker.broker_id)])
    return Outcome(response, [*plan_broker_loss(image, context.settings, broker.broker_id), forgotten])
