"""FindCoordinator (10): the broker that coordinates a group, a transactional id or a share partition.

The first request of a kind makes the kind's internal topic, and is answered with COORDINATOR_NOT_AVAILABLE. Order of
the checks: KafkaApis.getCoordinator.
"""

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.coordinator.coordinators import partition_of
from klamm.broker.coordinator.internal_topics import plan_internal_topic
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.context import RequestContext
from klamm.controller.log_records import Record
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from klamm.protocol.messages.groups.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

FIRST_VERSION_WITH_KEYS: Final = 4
FIRST_VERSION_WITH_SHARE: Final = 6
NO_NODE: Final = -1


class KeyType(IntEnum):
    """What a key names."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


_TOPICS: Final = {
    KeyType.GROUP: CONSUMER_OFFSETS,
    KeyType.TRANSACTION: TRANSACTION_STATE,
    KeyType.SHARE: SHARE_GROUP_STATE,
}
_SHARE_KEY: Final = re.compile(r"[^:]+:[A-Za-z0-9_-]{22}:-?[0-9]+", re.DOTALL)
_REFUSALS: Final = {
    ErrorCode.INVALID_REQUEST: "This most likely occurs because of a request being malformed by the client library or "
    "the message was sent to an incompatible broker. See the broker logs for more details.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
}
"""Kafka's default texts of the errors."""


def handle_find_coordinator(
    _brokers: SimulatedBrokers, image: MetadataImage, request: FindCoordinatorRequest, context: RequestContext
) -> Outcome:
    """The coordinator of each key."""
    has_keys = context.api_version >= FIRST_VERSION_WITH_KEYS
    keys = request.coordinator_keys if has_keys else [request.key]
    found, wants_topic = _find_each(image, request.key_type, keys, context)
    records: Sequence[Record] = ()
    if wants_topic:
        records = plan_internal_topic(image, context, _TOPICS[KeyType(request.key_type)])
    if has_keys:
        return Outcome(FindCoordinatorResponse(coordinators=found), records)
    one = found[0]
    code = ErrorCode(one.error_code)
    response = FindCoordinatorResponse(
        error_code=code,
        error_message=_REFUSALS.get(code) if code else "NONE",
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )
    return Outcome(response, records)


def _find_each(
    image: MetadataImage, number: int, keys: Sequence[str], context: RequestContext
) -> tuple[list[Coordinator], bool]:
    """The coordinator of each key, and whether the internal topic has to be made first."""
    wants_topic = False
    found = []
    for key in keys:
        code = _refuse(number, key, context)
        if code:
            # An unknown type is refused with Kafka's text, the others without.
            text = _REFUSALS.get(code) if number not in _TOPICS or code is not ErrorCode.INVALID_REQUEST else ""
            found.append(_none(key, code, text))
            continue
        topic_name = _TOPICS[KeyType(number)]
        wants_topic |= topic_name not in image.topics_by_name
        found.append(_find(image, topic_name, key, context.requester.listener_name))
    return found, wants_topic


def _refuse(number: int, key: str, context: RequestContext) -> ErrorCode:
    if number == KeyType.GROUP:
        if not context.authorize(AclOperation.DESCRIBE, AclResourceType.GROUP, key):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
    elif number == KeyType.TRANSACTION:
        if not context.authorize(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, key):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif number == KeyType.SHARE:
        if context.api_version < FIRST_VERSION_WITH_KEYS:
            return ErrorCode.INVALID_REQUEST
        if not context.authorize_cluster(AclOperation.CLUSTER_ACTION):
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if context.api_version < FIRST_VERSION_WITH_SHARE or not _SHARE_KEY.fullmatch(key):
            return ErrorCode.INVALID_REQUEST
    else:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _find(image: MetadataImage, topic_name: str, key: str, listener_name: str | None) -> Coordinator:
    topic = image.topics_by_name.get(topic_name)
    if topic is not None:
        partition = image.partitions.read(topic.row, partition_of(key, image.partition_count(topic)))
        broker = image.brokers.get(partition.leader)
        at = broker.end_point(listener_name) if broker is not None and not broker.fenced else None
        if at is not None:
            return Coordinator(key=key, node_id=partition.leader, host=at.host, port=at.port)
    return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "")


def _none(key: str, code: ErrorCode, text: str | None) -> Coordinator:
    return Coordinator(key=key, node_id=NO_NODE, port=NO_NODE, error_code=code, error_message=text)
