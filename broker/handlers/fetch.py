"""Fetch (1): consumers read record batches, from the leader or from another replica (KIP-392).

A request without a session (KIP-227) names all its partitions, and the response has all of them. In a session a request
names what changes, and the response has the partitions with news (`klamm.broker.fetch_sessions`). Order of the checks:
KafkaApis.handleFetchRequest, FetchManager.newContext. Brokers do not replicate with this handler: their requests are
refused as those of unknown replicas.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.data.down_conversion import target_format
from klamm.broker.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    FetchSessions,
    PartitionKey,
    Partitions,
    WantedPartition,
)
from klamm.broker.handlers.delayed_fetch import DelayedFetch, InSession, NewSession, Settling, WithoutSession
from klamm.broker.handlers.fetch_quota import fetch_quota_of
from klamm.broker.handlers.fetch_reading import FIRST_VERSION_FROM_FOLLOWERS, Asked, is_replica
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.controller.configs import down_conversion_enabled, fetch_max_bytes
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Effect, Outcome
from klamm.controller.settings import REPLICA_SELECTOR_CONFIG
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data import fetch
from klamm.protocol.messages.data.fetch import FetchRequest, FetchResponse
from klamm.protocol.uuid import ZERO_UUID
from klamm.quick_dataclasses import dataclass

FIRST_VERSION_BY_ID = 13
WITHOUT_SESSION = WithoutSession()


def handle_fetch(
    brokers: SimulatedBrokers, image: MetadataImage, request: FetchRequest, context: RequestContext
) -> Outcome:
    """The records of each partition, or the error why it cannot be read."""
    sessions = brokers.fetch_sessions(context.requester.asked_broker_id)
    by_id = context.api_version >= FIRST_VERSION_BY_ID
    wanted = _named(image, request, by_id=by_id)
    settling: Settling = WITHOUT_SESSION
    effects: list[Effect] = []
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_epoch == INITIAL_EPOCH:
            settling = NewSession(sessions, is_replica=is_replica(request), uses_topic_ids=by_id)
        if request.session_id != NO_SESSION:
            effects.append(_Close(sessions, request.session_id))
    else:
        session = sessions.find(request.session_id)
        if session is None:
            return Outcome(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        if session.epoch != request.session_epoch:
            return Outcome(FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH))
        if session.uses_topic_ids is not by_id:
            return Outcome(FetchResponse(error_code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR))
        partitions = session.with_changes(wanted, _forgotten(request, by_id=by_id))
        _name_topics(image, partitions)
        if not sessions.has_room(session, partitions):  # the client reads without the session then
            close = _Close(sessions, session.session_id)
            return Outcome(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND), effects=[close])
        if partitions:
            settling, wanted = InSession(session), partitions
            effects.append(_Advance(sessions, session, partitions))
        else:
            effects.append(_Close(sessions, session.session_id))
    most_bytes = fetch_max_bytes(context.settings, context.requester.asked_broker_id)
    quota = None if is_replica(request) else fetch_quota_of(brokers, image, fetch.API, context)
    if quota is not None and quota.max_bytes is not None:
        most_bytes = min(most_bytes, quota.max_bytes)
    asked = Asked(context.requester, context.api_version, most_bytes, _preferred_rack(request, context))
    judged = _judged(image, request, context, wanted)
    delayed = DelayedFetch(brokers.data, request, asked, judged, settling, context.now_ms, quota)
    return Outcome(delayed, effects=effects)


@dataclass(frozen=True, slots=True)
class _Close:
    """Ends a session, if it exists."""

    sessions: FetchSessions
    session_id: int

    def apply(self, soft: Any, now_ms: int) -> None:
        del soft, now_ms
        self.sessions.close(self.session_id)


@dataclass(frozen=True, slots=True)
class _Advance:
    """Gives a session the partitions of its request, and the epoch of the next one."""

    sessions: FetchSessions
    session: FetchSession
    partitions: Partitions

    def apply(self, soft: Any, now_ms: int) -> None:
        del soft
        self.sessions.advance(self.session, self.partitions, now_ms)


def _preferred_rack(request: FetchRequest, context: RequestContext) -> str | None:
    """The rack of the consumer, if the broker that was asked has a replica selector (KIP-392)."""
    if not request.rack_id or context.api_version < FIRST_VERSION_FROM_FOLLOWERS:
        return None
    configs = context.settings.static_configs_of(context.requester.asked_broker_id)
    return request.rack_id if configs.get(REPLICA_SELECTOR_CONFIG, "").strip() else None


def _named(image: MetadataImage, request: FetchRequest, *, by_id: bool) -> Partitions:
    """The partitions that a request names. The last entry of a partition counts, in the place of the first one."""
    named: Partitions = {}
    for topic in request.topics:
        if by_id:
            known = image.topics_by_id.get(topic.topic_id)
            name, topic_id = None if known is None else known.name, topic.topic_id
        else:
            name, topic_id = topic.topic, ZERO_UUID
        for partition in topic.partitions:
            one = WantedPartition(name, topic_id, partition)
            named[one.key] = one
    return named


def _forgotten(request: FetchRequest, *, by_id: bool) -> Iterator[PartitionKey]:
    for topic in request.forgotten_topics_data:
        for partition in topic.partitions:
            yield topic.topic_id if by_id else topic.topic, partition


def _name_topics(image: MetadataImage, partitions: Partitions) -> None:
    """Name the topics of ids that were unknown before. The partitions are those of the request that is decided."""
    for key, one in partitions.items():
        if one.topic_name is None and (topic := image.topics_by_id.get(one.topic_id)) is not None:
            partitions[key] = one.renamed(topic.name)


def _judged(
    image: MetadataImage, request: FetchRequest, context: RequestContext, wanted: Partitions
) -> Iterable[tuple[WantedPartition, ErrorCode]]:
    """Each partition, with an error if the requester may not read it or it does not exist. As in Kafka, a consumer gets
    the errors of unknown ids before all others."""
    is_denied = _denied(request, context, wanted)
    needs_format, asked = target_format(context.api_version) is not None, context.requester.asked_broker_id
    in_order: Iterable[WantedPartition] = wanted.values()
    if any(one.topic_name is None for one in in_order) and not is_replica(request):
        in_order = sorted(in_order, key=lambda one: one.topic_name is not None)
    for one in in_order:
        if is_denied is not None and is_denied(one.topic_name):
            yield one, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif one.topic_name is None:
            yield one, ErrorCode.UNKNOWN_TOPIC_ID
        else:
            topic = image.topics_by_name.get(one.topic_name)
            exists = topic is not None and 0 <= one.request.partition < image.partitions.partition_count(topic.row)
            if not exists:
                yield one, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif needs_format and not down_conversion_enabled(image.configs, context.settings, one.topic_name, asked):
                yield one, ErrorCode.UNSUPPORTED_VERSION
            else:
                yield one, ErrorCode.NONE


def _denied(request: FetchRequest, context: RequestContext, wanted: Partitions) -> Callable[[str | None], bool] | None:
    """Whether the requester may not read a topic, by its name; None: it may read all of them."""
    if context.access is None:
        return None
    if is_replica(request):
        is_allowed = context.authorize_cluster(AclOperation.CLUSTER_ACTION)
        return lambda _: not is_allowed
    names = {one.topic_name for one in wanted.values() if one.topic_name is not None}
    denied = context.denied(AclOperation.READ, AclResourceType.TOPIC, names)
    return lambda name: name in denied
