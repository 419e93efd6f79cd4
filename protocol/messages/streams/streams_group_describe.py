"""StreamsGroupDescribe: API key 89, version 0, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class StreamsGroupDescribeRequest(Message):
    group_ids: Sequence[str] = field(["string"], default=())
    include_authorized_operations: bool = field("bool", default=False)


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
class Subtopology(Message):
    subtopology_id: str = field("string", default="")
    source_topics: Sequence[str] = field(["string"], default=())
    repartition_sink_topics: Sequence[str] = field(["string"], default=())
    state_changelog_topics: Sequence[TopicInfo] = field([TopicInfo], default=())
    repartition_source_topics: Sequence[TopicInfo] = field([TopicInfo], default=())


@message
class Topology(Message):
    epoch: int = field("int32", default=0)
    subtopologies: Sequence[Subtopology] | None = field([Subtopology], default=None, nullable_since=0)


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
class TaskIds(Message):
    subtopology_id: str = field("string", default="")
    partitions: Sequence[int] = field(["int32"], default=())


@message
class Assignment(Message):
    active_tasks: Sequence[TaskIds] = field([TaskIds], default=())
    standby_tasks: Sequence[TaskIds] = field([TaskIds], default=())
    warmup_tasks: Sequence[TaskIds] = field([TaskIds], default=())


@message
class Member(Message):
    member_id: str = field("string", default="")
    member_epoch: int = field("int32", default=0)
    instance_id: str | None = field("string", default=None, nullable_since=0)
    rack_id: str | None = field("string", default=None, nullable_since=0)
    client_id: str = field("string", default="")
    client_host: str = field("string", default="")
    topology_epoch: int = field("int32", default=0)
    process_id: str = field("string", default="")
    user_endpoint: Endpoint | None = field(Endpoint, default=None, nullable_since=0)
    client_tags: Sequence[KeyValue] = field([KeyValue], default=())
    task_offsets: Sequence[TaskOffset] = field([TaskOffset], default=())
    task_end_offsets: Sequence[TaskOffset] = field([TaskOffset], default=())
    assignment: Assignment = field(Assignment, default=Assignment)
    target_assignment: Assignment = field(Assignment, default=Assignment)
    is_classic: bool = field("bool", default=False)


@message
class DescribedGroup(Message):
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=0)
    group_id: str = field("string", default="")
    group_state: str = field("string", default="")
    group_epoch: int = field("int32", default=0)
    assignment_epoch: int = field("int32", default=0)
    topology: Topology | None = field(Topology, default=None, nullable_since=0)
    members: Sequence[Member] = field([Member], default=())
    authorized_operations: int = field("int32", default=-2147483648)


@message
class StreamsGroupDescribeResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    groups: Sequence[DescribedGroup] = field([DescribedGroup], default=())


API = Api(
    key=89,
    name="StreamsGroupDescribe",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"broker"}),
    latest_stable=0,
    request=StreamsGroupDescribeRequest,
    response=StreamsGroupDescribeResponse,
)
