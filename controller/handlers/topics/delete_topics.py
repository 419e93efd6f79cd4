"""DeleteTopics (20): by name, and by id since version 6.

Ambiguous entries (a name or an id given twice, a name and an id in one entry, an id whose topic is also given by name)
are refused. The others are decided on their own, even if an ambiguous entry means the same topic. A requester that may
not describe a topic does not learn whether it exists, nor that a name and an id belong together. Order of checks and
texts: Apache Kafka 4.3 as recorded.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from klamm.controller.authorizer import REFUSALS, AclOperation, AclResourceType
from klamm.controller.configs import delete_topic_enabled
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage, Topic
from klamm.controller.outcome import Outcome
from klamm.controller.transitions.topics_per_request import MAX_TOPICS_PER_REQUEST, too_many_topics
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.topics.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from klamm.protocol.records.topics import RemoveTopicRecord
from klamm.protocol.uuid import ZERO_UUID

FIRST_VERSION_BY_ID = 6
FIRST_VERSION_WITH_QUOTA = 5
"""From this version on, topics beyond the quota of mutations are refused (KIP-599)."""
# Earlier versions have no code for disabled deletion; their clients get INVALID_REQUEST.
FIRST_VERSION_WITH_DISABLED_CODE = 3


class Denied(NamedTuple):
    """Names of topics that the requester may not describe, and those that it may not delete."""

    hidden: frozenset[str]
    kept: frozenset[str]


def handle_delete_topics(image: MetadataImage, request: DeleteTopicsRequest, context: RequestContext) -> Outcome:
    """One result per entry; an entry given twice has one result, unless every entry is refused."""
    if context.api_version >= FIRST_VERSION_BY_ID:
        entries: Sequence[DeleteTopicState] = request.topics
    else:
        entries = [DeleteTopicState(name=name) for name in request.topic_names]
    refusal = _validate_request(request.timeout_ms, entries, context)
    if refusal:
        return Outcome(
            DeleteTopicsResponse(
                responses=[
                    DeletableTopicResult(
                        name=entry.name,
                        topic_id=entry.topic_id,
                        error_code=refusal.code,
                        error_message=refusal.message,
                    )
                    for entry in entries
                ]
            )
        )
    denied = _denied(image, entries, context)
    results: list[DeletableTopicResult] = []
    records: list[Message] = []
    for entry, doubt in _with_doubts(image, entries, denied):
        decided = doubt or _decide(image, entry, denied)
        if isinstance(decided, Topic):
            strict = context.api_version >= FIRST_VERSION_WITH_QUOTA
            decided = context.mutations.take(image.partition_count(decided), strict=strict) or decided
        if isinstance(decided, Topic):
            results.append(DeletableTopicResult(name=decided.name, topic_id=decided.topic_id))
            records.append(RemoveTopicRecord(topic_id=decided.topic_id))
        else:
            results.append(
                DeletableTopicResult(
                    name=_told_name(image, entry, denied) if decided is _REFUSED else entry.name,
                    topic_id=entry.topic_id,
                    error_code=decided.code,
                    error_message=decided.message,
                )
            )
    quota = context.mutations
    response = DeleteTopicsResponse(responses=results, throttle_time_ms=quota.throttle_time_ms)
    return Outcome(response, records, quota.effects)


def _validate_request(timeout_ms: int, entries: Sequence[DeleteTopicState], context: RequestContext) -> ApiError | None:
    """The error of every entry: deletion is disabled, the timeout leaves no time to decide the unambiguous
    entries, or there are too many."""
    if not delete_topic_enabled(context.settings):
        known = context.api_version >= FIRST_VERSION_WITH_DISABLED_CODE
        code = ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
        return ApiError(code, "Topic deletion is disabled.")
    if timeout_ms <= 0 and 1 in _times(entries).values():
        return ApiError(ErrorCode.REQUEST_TIMED_OUT)
    if len(entries) > MAX_TOPICS_PER_REQUEST:
        return too_many_topics(len(entries))
    return None


def _denied(image: MetadataImage, entries: Sequence[DeleteTopicState], context: RequestContext) -> Denied:
    if context.authorize_cluster(AclOperation.DELETE):
        return Denied(frozenset(), frozenset())
    names = {entry.name for entry in entries if entry.name is not None}
    names |= {topic.name for entry in entries if (topic := image.topics_by_id.get(entry.topic_id))}
    return Denied(
        context.denied(AclOperation.DESCRIBE, AclResourceType.TOPIC, names),
        context.denied(AclOperation.DELETE, AclResourceType.TOPIC, names),
    )


_REFUSED = REFUSALS[AclResourceType.TOPIC]


def _decide(image: MetadataImage, entry: DeleteTopicState, denied: Denied) -> Topic | ApiError:
    if entry.name is None:
        topic = image.topics_by_id.get(entry.topic_id)
        if topic is None:
            # Whether an id exists need not be hidden.
            return ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    else:
        topic = image.topics_by_name.get(entry.name)
        if entry.name in denied.hidden:
            return _REFUSED
        if topic is None:
            text = "This server does not host this topic-partition."
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return _REFUSED if topic.name in denied.kept else topic


def _told_name(image: MetadataImage, entry: DeleteTopicState, denied: Denied) -> str | None:
    """The name that a refusal contains: if the topic was asked for by id, only if the requester may describe it."""
    if entry.name is not None:
        return entry.name
    name = image.topics_by_id[entry.topic_id].name
    return None if name in denied.hidden else name


def _with_doubts(
    image: MetadataImage, entries: Sequence[DeleteTopicState], denied: Denied
) -> Iterator[tuple[DeleteTopicState, ApiError | None]]:
    """The entries to answer, each with the error if it is ambiguous; what is given twice occurs once."""
    times = _times(entries)
    secret = denied.hidden | denied.kept
    named = {
        topic.topic_id
        for (name, topic_id), count in times.items()
        if name is not None and topic_id == ZERO_UUID and count == 1 and name not in secret
        if (topic := image.topics_by_name.get(name))
    }
    answered: set[tuple[str | None, bytes]] = set()
    for entry in entries:
        key = (entry.name, entry.topic_id)
        doubt = _doubt(entry, times[key])
        if key in answered or (entry.topic_id in named and entry.name is None and not doubt):
            continue  # answered already, or answered with the entry that has the name
        if times[key]:
            answered.add(key)
        topic = image.topics_by_name.get(entry.name) if entry.name is not None and not doubt else None
        if topic and topic.topic_id in named and (None, topic.topic_id) in times:
            text = "The provided topic name maps to an ID that was already supplied."
            both = DeleteTopicState(name=entry.name, topic_id=topic.topic_id)
            yield both, ApiError(ErrorCode.INVALID_REQUEST, text)
        else:
            yield entry, ApiError(ErrorCode.INVALID_REQUEST, doubt) if doubt else None


def _times(entries: Sequence[DeleteTopicState]) -> Counter[tuple[str | None, bytes]]:
    """How often each name and each id is given; entries with both or neither are not counted."""
    return Counter(
        (entry.name, entry.topic_id) for entry in entries if (entry.name is None) != (entry.topic_id == ZERO_UUID)
    )


def _doubt(entry: DeleteTopicState, times: int) -> str | None:
    if entry.name is None and entry.topic_id == ZERO_UUID:
        return "Neither topic name nor id were specified."
    if entry.name is not None and entry.topic_id != ZERO_UUID:
        return "You may not specify both topic name and topic id."
    if times > 1:
        return "Duplicate topic id." if entry.name is None else "Duplicate topic name."
    return None
