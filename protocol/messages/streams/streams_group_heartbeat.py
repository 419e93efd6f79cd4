"""StreamsGroupHeartbeat: API key 88, version 0, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class KeyValue(Message):
    key: str = field("string", default="")
    value: str = field("string", default="")


@message
class TopicInfo(Message):
    name: str = field("string", default="")
    partitions: int = field("int32", default=0)
    replication_factor: int = field("int16", default=0)
    topic_configs: Sequence[KeyValue] = field([KeyValue], default=())


@message
class CopartitionGroup(Message):
    source_topics: Sequence[int] = field(["int16"], default=())
    source_topic_regex: Sequence[int] = field(["int16"], default=())
    repartition_source_topics: Sequence[int] = field(["int16"], default=())


@message
class Subtopology(Message):
    subtopology_id: str = field("string", default="")
    source_topics: Sequence[str] = field(["string"], default=())
    source_topic_regex: Sequence[str] = field(["string"], default=())
    state_changelog_topics: Sequence[TopicInfo] = field([TopicInfo], default=())
    repartition_sink_topics: Sequence[str] = field(["string"], default=())
    repartition_source_topics: Sequence[TopicInfo] = field([TopicInfo], default=())
    copartition_groups: Sequence[CopartitionGroup] = field([CopartitionGroup], default=())


@message
class Topology(Message):
    epoch: int = field("int32", default=0)
    subtopologies: Sequence[Subtopology] = field([Subtopology], default=())


@message
class TaskIds(Message):
    subtopology_id: str = field("string", default="")
    partitions: Sequence[int] = field(["int32"], default=())


@message
class Endpoint(Message):
    host: str = field("string", default="")
    port: int = field("uint16", default=0)


@message
class TaskOffset(Message):
    subtopology_id: str = field("string", default="")
    partition: int = field("int32", default=0)
    offset: int = field("int64", default=0)


@message
class StreamsGroupHeartbeatRequest(Message):
    group_id: str = field("string", default="")
    member_id: str = field("string", default="")
    member_epoch: int = field("int32", default=0)
    endpoint_information_epoch: int = field("int32", default=0)
    instance_id: str | None = field("string", default=None, nullable_since=0)
    rack_id: str | None = field("string", default=None, nullable_since=0)
    rebalance_timeout_ms: int = field("int32", default=-1)
    topology: Topology | None = field(Topology, default=None, nullable_since=0)
    active_tasks: Sequence[TaskIds] | None = field([TaskIds], default=None, nullable_since=0)
    standby_tasks: Sequence[TaskIds] | None = field([TaskIds], default=None, nullable_since=0)
    warmup_tasks: Sequence[TaskIds] | None = field([TaskIds], default=None, nullable_since=0)
    process_id: str | None = field("string", default=None, nullable_since=0)
    user_endpoint: Endpoint | None = field(Endpoint, default=None, nullable_since=0)
    client_tags: Sequence[KeyValue] | None = field([KeyValue], default=None, nullable_since=0)
    task_offsets: Sequence[TaskOffset] | None = field([TaskOffset], default=None, nullable_since=0)
    task_end_offsets: Sequence[TaskOffset] | None = field([TaskOffset], default=None, nullable_since=0)
    shutdown_application: bool = field("bool", default=False)


@message
class Status(Message):
    status_code: int = field("int8", default=0)
    status_detail: str = field("string", default="")


@message
class TopicPartition(Message):
    topic: str = field("string", default="")
    partitions: Sequence[int] = field(["int32"], default=())


@message
class EndpointToPartitions(Message):
    user_endpoint: Endpoint = field(Endpoint, default=Endpoint)
    active_partitions: Sequence[TopicPartition] = field([TopicPartition], default=())
    standby_partitions: Sequence[TopicPartition] = field([TopicPartition], default=())


@message
class StreamsGroupHeartbeatResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=0)
    member_id: str = field("string", default="")
    member_epoch: int = field("int32", default=0)
    heartbeat_interval_ms: int = field("int32", default=0)
    acceptable_recovery_lag: int = field("int32", default=0)
    task_offset_interval_ms: int = field("int32", default=0)
    status: Sequence[Status] | None = field([Status], default=(), nullable_since=0)
    active_tasks: Sequence[TaskIds] | None = field([TaskIds], default=None, nullable_since=0)
    standby_tasks: Sequence[TaskIds] | None = field([TaskIds], default=None, nullable_since=0)
    warmup_tasks: Sequence[TaskIds] | None = field([TaskIds], default=None, nullable_since=0)
    endpoint_information_epoch: int = field("int32", default=0)
    partitions_by_user_endpoint: Sequence[EndpointToPartitions] | None = field(
        [EndpointToPartitions], default=None, nullable_since=0
    )


API = Api(
    key=88,
    name="StreamsGroupHeartbeat",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"broker"}),
    latest_stable=0,
    request=StreamsGroupHeartbeatRequest,
    response=StreamsGroupHeartbeatResponse,
)
