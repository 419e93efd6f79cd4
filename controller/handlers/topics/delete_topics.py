"""DeleteTopics (20): by name, and by id since version 6.

Entries in doubt (named twice, by name and by id, by an id that a name already gave) are refused and nothing of them is
deleted; the others are decided on their own. Who may not describe a topic is not told whether it is there, nor that
a name and an id are one. Order of checks and texts: Apache Kafka 4.3 as recorded.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from controller.authorizer import REFUSALS, AclOperation, AclResourceType
from controller.configs import delete_topic_enabled
from controller.metadata.image import MetadataImage, Topic
from controller.outcome import Outcome, RequestContext
from protocol.errors import ApiError, ErrorCode
from protocol.fields import Message
from protocol.messages.topics.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from protocol.records.topics import RemoveTopicRecord
from protocol.uuid import ZERO_UUID

FIRST_VERSION_BY_ID = 6
# Clients of these versions know no code for "deletion is switched off" and get INVALID_REQUEST.
FIRST_VERSION_WITH_DISABLED_CODE = 3


class Denied(NamedTuple):
    """Names of topics that the requester may not describe, and those that it may not delete."""

    hidden: frozenset[str]
    kept: frozenset[str]


def handle_delete_topics(image: MetadataImage, request: DeleteTopicsRequest, context: RequestContext) -> Outcome:
    """One result per entry; an entry named twice is answered once."""
    if context.api_version >= FIRST_VERSION_BY_ID:
        entries: Sequence[DeleteTopicState] = request.topics
    else:
        entries = [DeleteTopicState(name=name) for name in request.topic_names]
    refusal = _validate_request(request, context)
    denied = _denied(image, entries, context)
    results: list[DeletableTopicResult] = []
    records: list[Message] = []
    for entry, doubt in _without_repeats(image, entries, denied):
        decided = refusal or doubt or _decide(image, entry, denied)
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
    return Outcome(DeleteTopicsResponse(responses=results), records)


def _validate_request(request: DeleteTopicsRequest, context: RequestContext) -> ApiError | None:
    if not delete_topic_enabled(context.settings):
        known = context.api_version >= FIRST_VERSION_WITH_DISABLED_CODE
        code = ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
        return ApiError(code, "Topic deletion is disabled.")
    return ApiError(ErrorCode.REQUEST_TIMED_OUT) if request.timeout_ms <= 0 else None


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
            # Ids are no secret.
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
    """The name in a refusal: of a topic asked for by id only if it may be described."""
    if entry.name is not None:
        return entry.name
    name = image.topics_by_id[entry.topic_id].name
    return None if name in denied.hidden else name


def _without_repeats(
    image: MetadataImage, entries: Sequence[DeleteTopicState], denied: Denied
) -> Iterator[tuple[DeleteTopicState, ApiError | None]]:
    """Each distinct entry, as it is to be answered, with what puts it in doubt."""
    times = Counter((entry.name, entry.topic_id) for entry in entries)
    by_name = Counter(entry.name for entry in entries)
    secret = denied.hidden | denied.kept
    ids_of_names = {
        topic.topic_id for name in by_name if name not in secret and (topic := image.topics_by_name.get(name or ""))
    }
    answered: set[tuple[str | None, bytes]] = set()
    for entry in entries:
        key = (entry.name, entry.topic_id)
        if key in answered or (entry.name is None and entry.topic_id in ids_of_names):
            continue  # answered already, or with the entry that gives the name
        answered.add(key)
        topic = image.topics_by_name.get(entry.name) if entry.name is not None and entry.name not in secret else None
        if topic and (None, topic.topic_id) in times and entry.topic_id == ZERO_UUID:
            text = "The provided topic name maps to an ID that was already supplied."
            named = DeleteTopicState(name=entry.name, topic_id=topic.topic_id)
            yield named, ApiError(ErrorCode.INVALID_REQUEST, text)
        else:
            doubt = _doubt(entry, times[key])
            yield entry, ApiError(ErrorCode.INVALID_REQUEST, doubt) if doubt else None


def _doubt(entry: DeleteTopicState, times: int) -> str | None:
    if entry.name is None and entry.topic_id == ZERO_UUID:
        return "Neither topic name nor id were specified."
    if entry.name is not None and entry.topic_id != ZERO_UUID:
        return "You may not specify both topic name and topic id."
    if times > 1:
        return "Duplicate topic id." if entry.name is None else "Duplicate topic name."
    return None
