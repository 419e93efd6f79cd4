"""InitProducerId (22): gives an idempotent producer an id that was never used before (KIP-98).

Ids are logged in blocks, one block per broker at a time, as a Kafka controller gives them to real brokers. There is no
transaction coordinator yet: a transactional id is checked as Kafka checks it, and then no broker coordinates it. A
producer that asks again because its epoch is exhausted (KIP-360) gets another id, as in Kafka.
"""

from dataclasses import dataclass

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.simulated_broker import NO_IDS, SimulatedBroker
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


def handle_init_producer_id(
    brokers: SimulatedBrokers, image: MetadataImage, request: InitProducerIdRequest, context: RequestContext
) -> Outcome:
    """A new producer id with epoch 0, or why there is none."""
    refusal = _refuse(request, context)
    if refusal:
        return Outcome(
            InitProducerIdResponse(error_code=refusal, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
        )
    broker_id = -1 if context.requester.asked_broker_id is None else context.requester.asked_broker_id
    broker = brokers.by_id.get(broker_id)
    left, records = broker.producer_ids if broker else NO_IDS, []
    if not left:
        left = range(image.next_producer_id, image.next_producer_id + BLOCK_IDS)
        known = image.brokers.get(broker_id)
        records = [
            ProducerIdsRecord(
                broker_id=broker_id,
                broker_epoch=known.broker_epoch if known else -1,
                next_producer_id=left.stop,
            )
        ]
    # A broker that has just been removed keeps no rest of the block.
    effects = [ProducerIdsLeft(broker, left[1:])] if broker else []
    return Outcome(InitProducerIdResponse(producer_id=left[0]), records, effects)


@dataclass(frozen=True, slots=True)
class ProducerIdsLeft:
    """An effect: sets the unused rest of the producer id block of a broker."""

    broker: SimulatedBroker
    left: range

    def apply(self, _soft: SoftState, _now_ms: int) -> None:
        self.broker.producer_ids = self.left


def _refuse(request: InitProducerIdRequest, context: RequestContext) -> ErrorCode | None:
    name = request.transactional_id
    if name is not None:
        if not context.authorize(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, name) or (
            request.enable2_pc
            and not context.authorize(AclOperation.TWO_PHASE_COMMIT, AclResourceType.TRANSACTIONAL_ID, name)
        ):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    # A requester that may write to any topic at all may also write idempotently (KIP-679).
    elif not context.authorize_cluster(AclOperation.IDEMPOTENT_WRITE) and not context.authorize_some(
        AclOperation.WRITE, AclResourceType.TOPIC
    ):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return ErrorCode.INVALID_REQUEST
    return None if name is None else _refuse_transactional(request, context)


def _refuse_transactional(request: InitProducerIdRequest, context: RequestContext) -> ErrorCode:
    """The error of Kafka's first checks in the coordinator; if they pass, the error that there is no coordinator."""
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
