"""BrokerHeartbeat (63): a broker reports that it is alive and what it wants; the response contains its status.

The transitions are those of the table in `klamm.controller.transitions.broker_lifecycle`. A heartbeat also reports log
directories that went offline (KIP-858) or that take no new replicas.
"""

from collections.abc import Collection, Iterator

from klamm.controller.authorizer import AclOperation
from klamm.controller.context import RequestContext
from klamm.controller.effects import BrokerContact, WentOffline
from klamm.controller.log_records import Record, count_records
from klamm.controller.metadata.broker import BrokerState
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata_versions import FIRST_LEVEL_WITH_CORDONS, FIRST_LEVEL_WITH_LOG_DIRS
from klamm.controller.outcome import Effect, Outcome
from klamm.controller.transitions.broker_lifecycle import (
    MAX_CHANGES_AT_ONCE,
    TRANSITIONS,
    BrokerStatus,
    Wish,
    broker_status,
    plan_status,
)
from klamm.controller.transitions.elections import leads_any
from klamm.controller.transitions.leadership import count_in_sync, plan_broker_loss
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from klamm.protocol.records.brokers import BrokerRegistrationChangeRecord
from klamm.protocol.uuid import Uuid


def handle_broker_heartbeat(image: MetadataImage, request: BrokerHeartbeatRequest, context: RequestContext) -> Outcome:
    """Whether the broker has caught up with its registration, is fenced, and may stop."""
    denied = context.refuse_cluster(AclOperation.CLUSTER_ACTION)
    if denied:
        return Outcome(BrokerHeartbeatResponse(error_code=denied.code))
    broker = image.brokers.get(request.broker_id)
    # A broker that is not registered has no epoch, so every epoch is stale (recorded: tests/golden/authorizer).
    if broker is None or broker.broker_epoch != request.broker_epoch:
        return Outcome(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    before = broker_status(broker)
    level = image.features.metadata_version
    offline = frozenset(request.offline_log_dirs if level >= FIRST_LEVEL_WITH_LOG_DIRS else ())
    offline &= frozenset(broker.log_dirs)
    after = TRANSITIONS[before, _wish(image, request, broker, context, offline)]
    loses = after is BrokerStatus.UNFENCED and 0 < len(offline) < len(broker.log_dirs)
    many = loses and count_in_sync(image, broker.broker_id, offline) > MAX_CHANGES_AT_ONCE
    records: list[Record] = []
    if loses and not many:
        records += plan_broker_loss(image, context.settings, broker.broker_id, offline)
    records += _log_dir_changes(request, broker, offline, may_cordon=level >= FIRST_LEVEL_WITH_CORDONS)
    records += plan_status(image, context.settings, broker, after)
    leaving = after is BrokerStatus.CONTROLLED_SHUTDOWN and before is not after
    shutdown_offset = context.log_end_offset + count_records(records) if leaving else None
    effects: list[Effect] = [BrokerContact(request.broker_id, shutdown_offset)]
    if many:
        effects.append(WentOffline(broker.broker_id, offline))
    response = BrokerHeartbeatResponse(
        is_caught_up=_caught_up(request, broker),
        is_fenced=after in (BrokerStatus.FENCED, BrokerStatus.SHUTDOWN_NOW),
        should_shut_down=after is BrokerStatus.SHUTDOWN_NOW,
    )
    return Outcome(response, records, effects)


def _caught_up(request: BrokerHeartbeatRequest, broker: BrokerState) -> bool:
    # The epoch is the offset of the registration: a broker that has read up to it has read its own registration.
    return request.current_metadata_offset >= broker.broker_epoch


def _wish(
    image: MetadataImage,
    request: BrokerHeartbeatRequest,
    broker: BrokerState,
    context: RequestContext,
    offline: Collection[Uuid],
) -> Wish:
    status = broker_status(broker)
    if request.want_shut_down:
        if status is BrokerStatus.UNFENCED and (request.want_fence or not leads_any(image, broker.broker_id)):
            return Wish.SHUT_DOWN_NOW
        # The request names the last offset that the broker has read, so it has read every offset below the next one.
        seen = request.current_metadata_offset + 1 >= context.liveness.controlled_shutdown_offset(broker.broker_id)
        seen = seen and not context.liveness.losses_pending
        return Wish.SHUT_DOWN_CAUGHT_UP if seen else Wish.SHUT_DOWN
    if status is not BrokerStatus.FENCED:
        # A broker without any of its log directories has no replica to serve.
        nothing_left = bool(offline) and len(offline) == len(broker.log_dirs)
        return Wish.STAY_FENCED if request.want_fence or nothing_left else Wish.SERVE
    # Only registration as a new incarnation ends a controlled shutdown that has begun.
    # Directories that went offline are logged first, so that no replica in them becomes leader.
    waits = broker.in_controlled_shutdown or context.liveness.is_departing(broker.broker_id) or bool(offline)
    return Wish.STAY_FENCED if request.want_fence or waits or not _caught_up(request, broker) else Wish.SERVE


def _log_dir_changes(
    request: BrokerHeartbeatRequest, broker: BrokerState, offline: Collection[Uuid], *, may_cordon: bool
) -> Iterator[Record]:
    """The records for directories that went offline, and for cordoned directories."""
    change = BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
    if offline and len(offline) < len(broker.log_dirs):
        change.log_dirs = [directory for directory in broker.log_dirs if directory not in offline]
    cordoned = request.cordoned_log_dirs if may_cordon else None
    if cordoned is not None and tuple(cordoned) != broker.cordoned_log_dirs:
        change.cordoned_log_dirs = list(cordoned)
    if change.log_dirs or change.cordoned_log_dirs is not None:
        yield change
