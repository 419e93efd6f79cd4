"""EndTxn (26): a producer commits or aborts its transaction."""

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.handlers.transactions.submission import for_version, submit_one
from klamm.broker.transactions.transactions import Current, Producer
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.transactions.end_txn import EndTxnRequest, EndTxnResponse

FIRST_VERSION_WITH_EPOCH_BUMP = 5


def handle_end_txn(
    brokers: SimulatedBrokers, _image: MetadataImage, request: EndTxnRequest, context: RequestContext
) -> Outcome:
    """The outcome is decided when the response is sent; the markers may follow later. From version 5 on the response
    has the producer id and epoch of the next transaction (KIP-890)."""
    name, version = request.transactional_id, context.api_version
    if not context.authorize(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, name):
        return Outcome(EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    if not name:
        return Outcome(EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST))

    def finish(result: Current | ErrorCode) -> EndTxnResponse:
        if isinstance(result, ErrorCode):
            return EndTxnResponse(error_code=for_version(result, version))
        return EndTxnResponse(producer_id=result.producer_id, producer_epoch=result.producer_epoch)

    producer = Producer(name, request.producer_id, request.producer_epoch)
    return submit_one(
        brokers,
        context,
        name,
        lambda transactions, waiter, now_ms: transactions.end(
            producer,
            waiter,
            now_ms,
            is_commit=request.committed,
            has_epoch_bump=version >= FIRST_VERSION_WITH_EPOCH_BUMP,
        ),
        finish,
    )
