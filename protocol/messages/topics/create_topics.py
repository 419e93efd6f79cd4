"""CreateTopics: API key 19, versions 0 to 7, flexible from 5.

Apache Kafka 4.0 removed versions 0 to 1 (KIP-896).

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class CreatableReplicaAssignment(Message):
    partition_index: int = field("int32", default=0)
    broker_ids: Sequence[int] = field(["int32"], default=())


@message
class CreatableTopicConfig(Message):
    name: str = field("string", default="")
    value: str | None = field("string", default="", nullable_since=0)


@message
class CreatableTopic(Message):
    name: str = field("string", default="")
    num_partitions: int = field("int32", default=0)
    replication_factor: int = field("int16", default=0)
    assignments: Sequence[CreatableReplicaAssignment] = field([CreatableReplicaAssignment], default=())
    configs: Sequence[CreatableTopicConfig] = field([CreatableTopicConfig], default=())


@message
class CreateTopicsRequest(Message):
    topics: Sequence[CreatableTopic] = field([CreatableTopic], default=())
    timeout_ms: int = field("int32", default=60000)
    validate_only: bool = field("bool", default=False, since=1)


@message
class CreatableTopicConfigs(Message):
    name: str = field("string", default="", since=5)
    value: str | None = field("string", default="", since=5, nullable_since=5)
    read_only: bool = field("bool", default=False, since=5)
    config_source: int = field("int8", default=-1, since=5, ignorable=True)
    is_sensitive: bool = field("bool", default=False, since=5)


@message
class CreatableTopicResult(Message):
    name: str = field("string", default="")
    topic_id: Uuid = field("uuid", default=ZERO_UUID, since=7, ignorable=True)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default="", since=1, nullable_since=1, ignorable=True)
    topic_config_error_code: int = field("int16", default=0, since=5, tag=0, ignorable=True)
    num_partitions: int = field("int32", default=-1, since=5, ignorable=True)
    replication_factor: int = field("int16", default=-1, since=5, ignorable=True)
    configs: Sequence[CreatableTopicConfigs] | None = field(
        [CreatableTopicConfigs], default=(), since=5, nullable_since=5, ignorable=True
    )


@message
class CreateTopicsResponse(Message):
    throttle_time_ms: int = field("int32", default=0, since=2, ignorable=True)
    topics: Sequence[CreatableTopicResult] = field([CreatableTopicResult], default=())


API = Api(
    key=19,
    name="CreateTopics",
    versions=span(0, 7),
    flexible_since=5,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=7,
    removed_before=2,
    request=CreateTopicsRequest,
    response=CreateTopicsResponse,
)
