"""UnregisterBroker (64): a broker that is gone for good is forgotten; its replicas stay where they are."""

from controller.metadata.image import MetadataImage
from controller.outcome import Outcome, RequestContext
from controller.transitions.leadership import plan_broker_loss
from protocol.errors import ErrorCode
from protocol.messages.brokers.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from protocol.records.brokers import UnregisterBrokerRecord


def handle_unregister_broker(
    image: MetadataImage, request: UnregisterBrokerRequest, context: RequestContext
) -> Outcome:
    """NONE, or BROKER_ID_NOT_REGISTERED."""
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        return Outcome(
            UnregisterBrokerResponse(
                error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
                error_message=f"Broker ID {request.broker_id} is not currently registered",
            )
        )
    forgotten = UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
    return Outcome(
        UnregisterBrokerResponse(error_message=None),
        [*plan_broker_loss(image, context.settings, broker.broker_id), forgotten],
    )
