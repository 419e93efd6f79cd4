"""Coordinator records: streams groups.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import RecordType, span
from klamm.protocol.fields import Message, field, message


@message
class StreamsGroupMetadataKey(Message):
    group_id: str = field("string", default="")


@message
class LastAssignmentConfig(Message):
    key: str = field("string", default="")
    value: str = field("string", default="")


@message
class StreamsGroupMetadataValue(Message):
    epoch: int = field("int32", default=0)
    metadata_hash: int = field("int64", default=0)
    validated_topology_epoch: int = field("int32", default=-1, tag=0)
    last_assignment_configs: Sequence[LastAssignmentConfig] | None = field(
        [LastAssignmentConfig], default=(), nullable_since=0, tag=1
    )


@message
class StreamsGroupMemberMetadataKey(Message):
    group_id: str = field("string", default="")
    member_id: str = field("string", default="")


@message
class Endpoint(Message):
    host: str = field("string", default="")
    port: int = field("uint16", default=0)


@message
class KeyValue(Message):
    key: str = field("string", default="")
    value: str = field("string", default="")


@message
class StreamsGroupMemberMetadataValue(Message):
    instance_id: str | None = field("string", default="", nullable_since=0)
    rack_id: str | None = field("string", default="", nullable_since=0)
    client_id: str = field("string", default="")
    client_host: str = field("string", default="")
    rebalance_timeout_ms: int = field("int32", default=-1)
    topology_epoch: int = field("int32", default=0)
    process_id: str = field("string", default="")
    user_endpoint: Endpoint | None = field(Endpoint, default=None, nullable_since=0)
    client_tags: Sequence[KeyValue] = field([KeyValue], default=())


@message
class StreamsGroupTargetAssignmentMetadataKey(Message):
    group_id: str = field("string", default="")


@message
class StreamsGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int = field("int32", default=0)
    assignment_timestamp: int = field("int64", default=0, tag=0, ignorable=True)


@message
class StreamsGroupTargetAssignmentMemberKey(Message):
    group_id: str = field("string", default="")
    member_id: str = field("string", default="")


@message
class TaskIds(Message):
    subtopology_id: str = field("string", default="")
    partitions: Sequence[int] = field(["int32"], default=())


@message
class StreamsGroupTargetAssignmentMemberValue(Message):
    active_tasks: Sequence[TaskIds] = field([TaskIds], default=())
    standby_tasks: Sequence[TaskIds] = field([TaskIds], default=())
    warmup_tasks: Sequence[TaskIds] = field([TaskIds], default=())


@message
class StreamsGroupCurrentMemberAssignmentKey(Message):
    group_id: str = field("string", default="")
    member_id: str = field("string", default="")


@message
class StreamsGroupCurrentMemberAssignmentValueTaskIds(Message):
    subtopology_id: str = field("string", default="")
    partitions: Sequence[int] = field(["int32"], default=())
    assignment_epochs: Sequence[int] | None = field(["int32"], default=(), nullable_since=0, tag=0)


@message
class StreamsGroupCurrentMemberAssignmentValue(Message):
    member_epoch: int = field("int32", default=0)
    previous_member_epoch: int = field("int32", default=0)
    state: int = field("int8", default=0)
    active_tasks: Sequence[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(
        [StreamsGroupCurrentMemberAssignmentValueTaskIds], default=()
    )
    standby_tasks: Sequence[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(
        [StreamsGroupCurrentMemberAssignmentValueTaskIds], default=()
    )
    warmup_tasks: Sequence[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(
        [StreamsGroupCurrentMemberAssignmentValueTaskIds], default=()
    )
    active_tasks_pending_revocation: Sequence[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(
        [StreamsGroupCurrentMemberAssignmentValueTaskIds], default=()
    )
    standby_tasks_pending_revocation: Sequence[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(
        [StreamsGroupCurrentMemberAssignmentValueTaskIds], default=()
    )
    warmup_tasks_pending_revocation: Sequence[StreamsGroupCurrentMemberAssignmentValueTaskIds] = field(
        [StreamsGroupCurrentMemberAssignmentValueTaskIds], default=()
    )


@message
class StreamsGroupTopologyKey(Message):
    group_id: str = field("string", default="")


@message
class TopicConfig(Message):
    key: str = field("string", default="")
    value: str = field("string", default="")


@message
class TopicInfo(Message):
    name: str = field("string", default="")
    partitions: int = field("int32", default=0)
    replication_factor: int = field("int16", default=0)
    topic_configs: Sequence[TopicConfig] = field([TopicConfig], default=())


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
class StreamsGroupTopologyValue(Message):
    epoch: int = field("int32", default=0)
    subtopologies: Sequence[Subtopology] = field([Subtopology], default=())


STREAMS_GROUP_METADATA_KEY = RecordType(
    id=17,
    name="StreamsGroupMetadataKey",
    versions=span(0, 0),
    flexible_since=None,
    message=StreamsGroupMetadataKey,
)

STREAMS_GROUP_METADATA_VALUE = RecordType(
    id=17,
    name="StreamsGroupMetadataValue",
    versions=span(0, 0),
    flexible_since=0,
    message=StreamsGroupMetadataValue,
)

STREAMS_GROUP_MEMBER_METADATA_KEY = RecordType(
    id=19,
    name="StreamsGroupMemberMetadataKey",
    versions=span(0, 0),
    flexible_since=None,
    message=StreamsGroupMemberMetadataKey,
)

STREAMS_GROUP_MEMBER_METADATA_VALUE = RecordType(
    id=19,
    name="StreamsGroupMemberMetadataValue",
    versions=span(0, 0),
    flexible_since=0,
    message=StreamsGroupMemberMetadataValue,
)

STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = RecordType(
    id=20,
    name="StreamsGroupTargetAssignmentMetadataKey",
    versions=span(0, 0),
    flexible_since=None,
    message=StreamsGroupTargetAssignmentMetadataKey,
)

STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = RecordType(
    id=20,
    name="StreamsGroupTargetAssignmentMetadataValue",
    versions=span(0, 0),
    flexible_since=0,
    message=StreamsGroupTargetAssignmentMetadataValue,
)

STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = RecordType(
    id=21,
    name="StreamsGroupTargetAssignmentMemberKey",
    versions=span(0, 0),
    flexible_since=None,
    message=StreamsGroupTargetAssignmentMemberKey,
)

STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = RecordType(
    id=21,
    name="StreamsGroupTargetAssignmentMemberValue",
    versions=span(0, 0),
    flexible_since=0,
    message=StreamsGroupTargetAssignmentMemberValue,
)

STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = RecordType(
    id=22,
    name="StreamsGroupCurrentMemberAssignmentKey",
    versions=span(0, 0),
    flexible_since=None,
    message=StreamsGroupCurrentMemberAssignmentKey,
)

STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = RecordType(
    id=22,
    name="StreamsGroupCurrentMemberAssignmentValue",
    versions=span(0, 0),
    flexible_since=0,
    message=StreamsGroupCurrentMemberAssignmentValue,
)

STREAMS_GROUP_TOPOLOGY_KEY = RecordType(
    id=23,
    name="StreamsGroupTopologyKey",
    versions=span(0, 0),
    flexible_since=None,
    message=StreamsGroupTopologyKey,
)

STREAMS_GROUP_TOPOLOGY_VALUE = RecordType(
    id=23,
    name="StreamsGroupTopologyValue",
    versions=span(0, 0),
    flexible_since=0,
    message=StreamsGroupTopologyValue,
)
