"""AllocateProducerIds (67): a broker gets a block of producer ids that was never given before (KIP-730)."""

from typing import Final

from klamm.controller.authorizer import AclOperation
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.controller.transitions.broker_lifecycle import refuse_broker_epoch
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from klamm.protocol.records.brokers import ProducerIdsRecord

BLOCK_IDS: Final = 1_000
MAX_PRODUCER_ID: Final = 2**63 - 1


def handle_allocate_producer_ids(
    image: MetadataImage, request: AllocateProducerIdsRequest, context: RequestContext
) -> Outcome:
    """The first id of the block and the number of ids."""
    denied = context.refuse_cluster(AclOperation.CLUSTER_ACTION)
    refusal = denied.code if denied else refuse_broker_epoch(image, request.broker_id, request.broker_epoch)
    first = image.next_producer_id
    if not refusal and first > MAX_PRODUCER_ID - BLOCK_IDS:
        refusal = ErrorCode.UNKNOWN_SERVER_ERROR  # as in Kafka, where all ids have been given
    if refusal:
        return Outcome(AllocateProducerIdsResponse(error_code=refusal))
    record = ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=first + BLOCK_IDS
    )
    return Outcome(AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_IDS), [record])
