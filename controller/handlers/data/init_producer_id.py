"""InitProducerId (22): an idempotent producer gets an id that nobody had before (KIP-98).

Ids are logged in blocks, one block per broker at a time, as real brokers are given them by their controller. There is
no transaction coordinator yet: a transactional id is checked as Kafka checks it, and then no broker coordinates it.
Who asks again because an epoch is used up (KIP-360) gets another id, as from Kafka.
"""

from dataclasses import dataclass

from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.effects import SoftState
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from klamm.protocol.records.brokers import ProducerIdsRecord

BLOCK_IDS = 1_000
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


def handle_init_producer_id(image: MetadataImage, request: InitProducerIdRequest, context: RequestContext) -> Outcome:
    """A new producer id with epoch 0, or why there is none."""
    refusal = _refuse(request, context)
    if refusal:
        return Outcome(
            InitProducerIdResponse(error_code=refusal, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
        )
    broker_id = -1 if context.requester.asked_broker_id is None else context.requester.asked_broker_id
    left, records = context.data.producer_ids.get(broker_id), []
    if not left:
        left = range(image.next_producer_id, image.next_producer_id + BLOCK_IDS)
        broker = image.brokers.get(broker_id)
        records = [
            ProducerIdsRecord(
                broker_id=broker_id,
                broker_epoch=broker.broker_epoch if broker else -1,
                next_producer_id=left.stop,
            )
        ]
    return Outcome(InitProducerIdResponse(producer_id=left[0]), records, [ProducerIdsLeft(broker_id, left[1:])])


@dataclass(frozen=True, slots=True)
class ProducerIdsLeft:
    """Sets the unused rest of the block of producer ids that a broker has."""

    broker_id: int
    left: range

    def apply(self, soft: SoftState, _now_ms: int) -> None:
        soft.data.producer_ids[self.broker_id] = self.left


def _refuse(request: InitProducerIdRequest, context: RequestContext) -> ErrorCode | None:
    name = request.transactional_id
    if name is not None:
        if not context.authorize(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, name) or (
            request.enable2_pc
            and not context.authorize(AclOperation.TWO_PHASE_COMMIT, AclResourceType.TRANSACTIONAL_ID, name)
        ):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    # Who may write to any topic at all may do so idempotently (KIP-679).
    elif not context.authorize_cluster(AclOperation.IDEMPOTENT_WRITE) and not context.authorize_some(
        AclOperation.WRITE, AclResourceType.TOPIC
    ):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return ErrorCode.INVALID_REQUEST
    return None if name is None else _refuse_transactional(request, context)


def _refuse_transactional(request: InitProducerIdRequest, context: RequestContext) -> ErrorCode:
    """What Kafka's coordinator refuses first, and that there is none."""
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    settings, broker_id = context.settings, context.requester.asked_broker_id
    if request.enable2_pc and not settings.static_bool("transaction.two.phase.commit.enable", broker_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if request.keep_prepared_txn:
        return ErrorCode.UNSUPPORTED_VERSION
    if not 0 < request.transaction_timeout_ms <= settings.static_int("transaction.max.timeout.ms", broker_id):
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NOT_COORDINATOR
