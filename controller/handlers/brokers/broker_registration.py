"""BrokerRegistration (62): a broker announces itself, gets an epoch, and is fenced until it has caught up.

The epoch is the offset of the registration's own record. A broker that returns as a new incarnation first loses its
leaderships and leaves every ISR. One that returns as the same incarnation (with other listeners) keeps epoch and
status. Facts: golden/broker-join sections 2 and 7; log directories: KIP-858.
"""

from collections.abc import Sequence

from klamm.controller.authorizer import AclOperation
from klamm.controller.context import RequestContext
from klamm.controller.effects import Departing
from klamm.controller.feature_names import METADATA_VERSION
from klamm.controller.log_records import Record, count_records
from klamm.controller.metadata.broker import MIGRATING_DIRECTORY, REAL_BROKER
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata_versions import FIRST_LEVEL_WITH_LOG_DIRS
from klamm.controller.outcome import Outcome
from klamm.controller.transitions.broker_lifecycle import MAX_CHANGES_AT_ONCE
from klamm.controller.transitions.leadership import (
    count_in_sync,
    plan_broker_loss,
    plan_unclean_return,
    unclean_return_cost,
)
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from klamm.protocol.records.brokers import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord

RESERVED_DIRECTORY_IDS = 100
"""Directory ids below this number are reserved (KIP-858)."""


def handle_broker_registration(
    image: MetadataImage, request: BrokerRegistrationRequest, context: RequestContext
) -> Outcome:
    """The broker's epoch, or an error code without a text: the response has no field for one."""
    denied = context.refuse_cluster(AclOperation.CLUSTER_ACTION)
    if denied:
        return Outcome(BrokerRegistrationResponse(error_code=denied.code))
    refusal = _validate(image, request, context)
    if refusal:
        return Outcome(BrokerRegistrationResponse(error_code=refusal))
    existing = image.brokers.get(request.broker_id)
    same = existing is not None and existing.incarnation_id == request.incarnation_id
    before, departing = ((), None) if same else _departure(image, request, context)
    epoch = existing.broker_epoch if existing and same else context.log_end_offset + count_records(before)
    features = [
        BrokerFeature(
            name=feature.name,
            min_supported_version=feature.min_supported_version,
            max_supported_version=feature.max_supported_version,
        )
        for feature in request.features
        if feature.name != REAL_BROKER
    ]
    if not context.liveness.is_simulated(request.broker_id):
        features.append(BrokerFeature(name=REAL_BROKER))
    record = RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=[
            BrokerEndpoint(name=at.name, host=at.host, port=at.port, security_protocol=at.security_protocol)
            for at in request.listeners
        ],
        features=features,
        rack=request.rack,
        fenced=existing.fenced if existing and same else True,
        in_controlled_shutdown=existing.in_controlled_shutdown if existing and same else False,
        log_dirs=sorted(request.log_dirs) if _has_log_dirs(image) else [],
    )
    return Outcome(
        BrokerRegistrationResponse(broker_epoch=epoch),
        [*before, record],
        [departing] if departing else [],
    )


def _departure(
    image: MetadataImage, request: BrokerRegistrationRequest, context: RequestContext
) -> tuple[Sequence[Record], Departing | None]:
    """The changes of the partitions that the former incarnation held: now, or, if there are many, later. A broker that
    was unregistered may have left replicas behind; how it ended is not known then, so an unclean end is assumed."""
    existing = image.brokers.get(request.broker_id)
    clean = existing is not None and request.previous_broker_epoch == existing.broker_epoch
    count, plan = (count_in_sync, plan_broker_loss) if clean else (unclean_return_cost, plan_unclean_return)
    if count(image, request.broker_id) > MAX_CHANGES_AT_ONCE:
        return (), Departing(request.broker_id, unclean=not clean)
    return plan(image, context.settings, request.broker_id), None


def _validate(image: MetadataImage, request: BrokerRegistrationRequest, context: RequestContext) -> ErrorCode | None:
    if request.cluster_id != context.cluster.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if request.broker_id < 0:
        return ErrorCode.INVALID_REQUEST
    existing = image.brokers.get(request.broker_id)
    other = existing is not None and existing.incarnation_id != request.incarnation_id
    # Other incarnations of a broker, fenced or in shutdown too, keep the id until their session has expired (recorded).
    if other and context.liveness.has_session(request.broker_id, context.now_ms):
        return ErrorCode.DUPLICATE_BROKER_REGISTRATION
    if request.is_migrating_zk_broker:
        return ErrorCode.BROKER_ID_NOT_REGISTERED  # what Kafka's controller says, since it knows no such brokers
    return _validate_log_dirs(image, request) or _validate_features(image, request)


def _validate_log_dirs(image: MetadataImage, request: BrokerRegistrationRequest) -> ErrorCode | None:
    log_dirs = request.log_dirs
    if not _has_log_dirs(image):
        return None
    if not log_dirs or len(set(log_dirs)) != len(log_dirs):
        return ErrorCode.INVALID_REGISTRATION
    if any(
        directory[:15] == MIGRATING_DIRECTORY[:15] and directory[15] < RESERVED_DIRECTORY_IDS for directory in log_dirs
    ):
        return ErrorCode.INVALID_REGISTRATION
    for broker in image.brokers.values():
        if broker.broker_id != request.broker_id and not set(broker.log_dirs).isdisjoint(log_dirs):
            return ErrorCode.INVALID_REGISTRATION
    return None


def _has_log_dirs(image: MetadataImage) -> bool:
    return image.features.metadata_version >= FIRST_LEVEL_WITH_LOG_DIRS


def _validate_features(image: MetadataImage, request: BrokerRegistrationRequest) -> ErrorCode | None:
    """UNSUPPORTED_VERSION if the broker does not support a level that the cluster has finalized; a feature that it does
    not name counts as level 0. INVALID_REGISTRATION if the broker does not name metadata.version."""
    supported = {feature.name: feature for feature in request.features}
    for name, feature in supported.items():
        # A feature that is not finalized, known or not, has level 0.
        level = image.features.get(name, 0)
        if not feature.min_supported_version <= level <= feature.max_supported_version:
            return ErrorCode.UNSUPPORTED_VERSION
    if METADATA_VERSION not in supported:
        return ErrorCode.INVALID_REGISTRATION
    return None if image.features.keys() <= supported.keys() else ErrorCode.UNSUPPORTED_VERSION
