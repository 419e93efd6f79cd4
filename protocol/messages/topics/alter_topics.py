"""AlterTopics: API key 17901, version 0, flexible from 0. Ours, after KIP-179: Apache Kafka never gave it a key.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class PartitionAssignment(Message):
    partition_id: int = field("int32", default=0)
    brokers: Sequence[int] = field(["int32"], default=())


@message
class AlterTopicRequest(Message):
    topic: str = field("string", default="")
    num_partitions: int = field("int32", default=-1)
    replication_factor: int = field("int16", default=-1)
    partition_assignment: Sequence[PartitionAssignment] = field([PartitionAssignment], default=())


@message
class AlterTopicsRequest(Message):
    alter_topic_requests: Sequence[AlterTopicRequest] = field([AlterTopicRequest], default=())
    validate_only: bool = field("bool", default=False)
    timeout: int = field("int32", default=60000)


@message
class TopicError(Message):
    topic: str = field("string", default="")
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=0)


@message
class AlterTopicsResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    topic_errors: Sequence[TopicError] = field([TopicError], default=())


API = Api(
    key=17901,
    name="AlterTopics",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=0,
    request=AlterTopicsRequest,
    response=AlterTopicsResponse,
)
