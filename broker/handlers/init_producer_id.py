"""InitProducerId (22): gives a producer an id and an epoch (KIP-98).

An idempotent producer gets an id that was never used before. A transactional one gets the id of its transactional id in
the next epoch, which fences the producer before it (KIP-360). Ids are logged in blocks, one block per broker at a time,
as a Kafka controller gives them to real brokers. An idempotent producer that asks again because its epoch is exhausted
gets another id, as in Kafka.
"""

from dataclasses import replace

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.handlers.transactions.submission import submit_one
from klamm.broker.simulated_broker import NO_IDS, SimulatedBroker
from klamm.broker.transactions.beginning import Initialization
from klamm.broker.transactions.transactions import Current
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.effects import SoftState
from klamm.controller.handlers.brokers.allocate_producer_ids import BLOCK_IDS
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.internal_topics import TRANSACTION_STATE
from klamm.protocol.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from klamm.protocol.records.brokers import ProducerIdsRecord
from klamm.quick_dataclasses import dataclass

FIRST_VERSION_WITH_PRODUCER_FENCED = 4
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


def handle_init_producer_id(
    brokers: SimulatedBrokers, image: MetadataImage, request: InitProducerIdRequest, context: RequestContext
) -> Outcome:
    """A producer id and its epoch, or why there is none."""
    refusal = _refuse(request, context)
    if refusal:
        return Outcome(
            InitProducerIdResponse(error_code=refusal, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
        )
    if request.transactional_id is not None:
        return _initialize(brokers, image, request, request.transactional_id, context)
    left, records, broker = _ids(brokers, image, context)
    # A broker that has just been removed keeps no rest of the block.
    effects = [ProducerIdsLeft(broker, left[1:])] if broker else []
    return Outcome(InitProducerIdResponse(producer_id=left[0]), records, effects)


def _ids(
    brokers: SimulatedBrokers, image: MetadataImage, context: RequestContext
) -> tuple[range, list[ProducerIdsRecord], SimulatedBroker | None]:
    """The unused ids of the broker that was asked, the record of a new block if it needs one, and the broker."""
    broker_id = -1 if context.requester.asked_broker_id is None else context.requester.asked_broker_id
    broker = brokers.by_id.get(broker_id)
    left = broker.producer_ids if broker else NO_IDS
    if left:
        return left, [], broker
    left = range(image.next_producer_id, image.next_producer_id + BLOCK_IDS)
    known = image.brokers.get(broker_id)
    record = ProducerIdsRecord(
        broker_id=broker_id, broker_epoch=known.broker_epoch if known else -1, next_producer_id=left.stop
    )
    return left, [record], broker


def _initialize(
    brokers: SimulatedBrokers,
    image: MetadataImage,
    request: InitProducerIdRequest,
    transactional_id: str,
    context: RequestContext,
) -> Outcome:
    """Asks the coordinator of the transactional id, which may need an id of this broker's block."""
    version = context.api_version

    def finish(result: Current | ErrorCode) -> InitProducerIdResponse:
        if isinstance(result, ErrorCode):
            if result is ErrorCode.PRODUCER_FENCED and version < FIRST_VERSION_WITH_PRODUCER_FENCED:
                result = ErrorCode.INVALID_PRODUCER_EPOCH
            return InitProducerIdResponse(
                error_code=result, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
            )
        return InitProducerIdResponse(producer_id=result.producer_id, producer_epoch=result.producer_epoch)

    asked = Initialization(
        transactional_id, request.transaction_timeout_ms, request.producer_id, request.producer_epoch
    )
    outcome = submit_one(
        brokers,
        context,
        transactional_id,
        lambda transactions, waiter, now_ms: transactions.initialize(asked, waiter, now_ms),
        finish,
    )
    asked_broker = context.requester.asked_broker_id
    if (
        asked_broker is None
        or brokers.coordinators.leader_of(image, TRANSACTION_STATE, transactional_id) != asked_broker
    ):
        return outcome
    left, records, broker = _ids(brokers, image, context)
    effects = [ProducerIdsLeft(broker, left)] if broker and records else []
    return replace(outcome, records=records, effects=[*effects, *outcome.effects])


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


def _refuse_transactional(request: InitProducerIdRequest, context: RequestContext) -> ErrorCode | None:
    """The first checks of Kafka's coordinator, which any broker makes."""
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    settings, broker_id = context.settings, context.requester.asked_broker_id
    if request.enable2_pc and not settings.static_bool("transaction.two.phase.commit.enable", broker_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if request.keep_prepared_txn:
        return ErrorCode.UNSUPPORTED_VERSION
    if not 0 < request.transaction_timeout_ms <= settings.static_int("transaction.max.timeout.ms", broker_id):
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return None
