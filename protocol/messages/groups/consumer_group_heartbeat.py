"""ConsumerGroupHeartbeat: API key 68, versions 0 to 1, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class TopicPartitions(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[int] = field(["int32"], default=())


@message
class ConsumerGroupHeartbeatRequest(Message):
    group_id: str = field("string", default="")
    member_id: str = field("string", default="")
    member_epoch: int = field("int32", default=0)
    instance_id: str | None = field("string", default=None, nullable_since=0)
    rack_id: str | None = field("string", default=None, nullable_since=0)
    rebalance_timeout_ms: int = field("int32", default=-1)
    subscribed_topic_names: Sequence[str] | None = field(["string"], default=None, nullable_since=0)
    subscribed_topic_regex: str | None = field("string", default=None, since=1, nullable_since=1)
    server_assignor: str | None = field("string", default=None, nullable_since=0)
    topic_partitions: Sequence[TopicPartitions] | None = field([TopicPartitions], default=None, nullable_since=0)


@message
class Assignment(Message):
    topic_partitions: Sequence[TopicPartitions] = field([TopicPartitions], default=())


@message
class ConsumerGroupHeartbeatResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=0)
    member_id: str | None = field("string", default=None, nullable_since=0)
    member_epoch: int = field("int32", default=0)
    heartbeat_interval_ms: int = field("int32", default=0)
    assignment: Assignment | None = field(Assignment, default=None, nullable_since=0)


API = Api(
    key=68,
    name="ConsumerGroupHeartbeat",
    versions=span(0, 1),
    flexible_since=0,
    listeners=frozenset({"broker"}),
    latest_stable=1,
    request=ConsumerGroupHeartbeatRequest,
    response=ConsumerGroupHeartbeatResponse,
)
