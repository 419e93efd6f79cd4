"""BrokerHeartbeat (63): a broker is alive, says what it wants, and learns where it stands.

The steps are those of the table in `controller.transitions.broker_lifecycle`. A heartbeat also reports log
directories that went offline (KIP-858) or are closed to new replicas.
"""

from controller.metadata.broker import BrokerState
from controller.metadata.image import MetadataImage
from controller.outcome import BrokerContact, Outcome, Record, RequestContext, count_records
from controller.transitions.broker_lifecycle import TRANSITIONS, BrokerStatus, Wish, broker_status, plan_status
from controller.transitions.leadership import plan_broker_loss
from protocol.errors import ErrorCode
from protocol.messages.brokers.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from protocol.records.brokers import BrokerRegistrationChangeRecord


def handle_broker_heartbeat(image: MetadataImage, request: BrokerHeartbeatRequest, context: RequestContext) -> Outcome:
    """Whether the broker has caught up with its registration, is fenced, and may stop."""
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        return Outcome(BrokerHeartbeatResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED))
    if broker.broker_epoch != request.broker_epoch:
        return Outcome(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    before = broker_status(broker)
    after = TRANSITIONS[before, _wish(request, broker, context)]
    records = [*_log_dir_changes(image, request, broker, context), *plan_status(image, context.settings, broker, after)]
    leaving = after is BrokerStatus.CONTROLLED_SHUTDOWN and before is not after
    contact = BrokerContact(request.broker_id, context.log_end_offset + count_records(records) if leaving else None)
    response = BrokerHeartbeatResponse(
        is_caught_up=_caught_up(request, broker),
        is_fenced=after in (BrokerStatus.FENCED, BrokerStatus.SHUTDOWN_NOW),
        should_shut_down=after is BrokerStatus.SHUTDOWN_NOW,
    )
    return Outcome(response, records, contact)


def _caught_up(request: BrokerHeartbeatRequest, broker: BrokerState) -> bool:
    # The epoch is the offset of the registration: a broker that has read it knows itself.
    return request.current_metadata_offset >= broker.broker_epoch


def _wish(request: BrokerHeartbeatRequest, broker: BrokerState, context: RequestContext) -> Wish:
    if request.want_shut_down:
        # The request names the last offset that was read; everything before the one after it has been seen.
        seen = request.current_metadata_offset + 1 >= context.controlled_shutdown_offset(broker.broker_id)
        return Wish.SHUT_DOWN_CAUGHT_UP if seen else Wish.SHUT_DOWN
    # Told to stop once, a broker serves again as a new incarnation only: nothing else ends its controlled shutdown.
    if request.want_fence or (broker.fenced and broker.in_controlled_shutdown):
        return Wish.STAY_FENCED
    ready = _caught_up(request, broker) or not broker.fenced
    return Wish.SERVE if ready else Wish.STAY_FENCED


def _log_dir_changes(
    image: MetadataImage, request: BrokerHeartbeatRequest, broker: BrokerState, context: RequestContext
) -> list[Record]:
    change = BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
    records: list[Record] = []
    offline = set(request.offline_log_dirs) & set(broker.log_dirs)
    if offline and offline != set(broker.log_dirs):
        change.log_dirs = [directory for directory in broker.log_dirs if directory not in offline]
        records += plan_broker_loss(image, context.settings, broker.broker_id, offline)
    cordoned = request.cordoned_log_dirs
    if cordoned is not None and tuple(cordoned) != broker.cordoned_log_dirs:
        change.cordoned_log_dirs = list(cordoned)
    if change.log_dirs or change.cordoned_log_dirs is not None:
        records.append(change)
    return records
