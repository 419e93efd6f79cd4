"""DeleteTopics: API key 20, versions 0 to 6, flexible from 4.

Apache Kafka 4.0 removed version 0 (KIP-896).

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class DeleteTopicState(Message):
    name: str | None = field("string", default=None, since=6, nullable_since=6)
    topic_id: Uuid = field("uuid", default=ZERO_UUID, since=6)


@message
class DeleteTopicsRequest(Message):
    topics: Sequence[DeleteTopicState] = field([DeleteTopicState], default=(), since=6)
    topic_names: Sequence[str] = field(["string"], default=(), until=5, ignorable=True)
    timeout_ms: int = field("int32", default=0)


@message
class DeletableTopicResult(Message):
    name: str | None = field("string", default="", nullable_since=6)
    topic_id: Uuid = field("uuid", default=ZERO_UUID, since=6, ignorable=True)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, since=5, nullable_since=5, ignorable=True)


@message
class DeleteTopicsResponse(Message):
    throttle_time_ms: int = field("int32", default=0, since=1, ignorable=True)
    responses: Sequence[DeletableTopicResult] = field([DeletableTopicResult], default=())


API = Api(
    key=20,
    name="DeleteTopics",
    versions=span(0, 6),
    flexible_since=4,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=6,
    removed_before=1,
    request=DeleteTopicsRequest,
    response=DeleteTopicsResponse,
)
