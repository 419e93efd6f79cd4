"""ShareGroupHeartbeat: API key 76, version 1, flexible from 1.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class ShareGroupHeartbeatRequest(Message):
    group_id: str = field("string", default="")
    member_id: str = field("string", default="")
    member_epoch: int = field("int32", default=0)
    rack_id: str | None = field("string", default=None, nullable_since=1)
    subscribed_topic_names: Sequence[str] | None = field(["string"], default=None, nullable_since=1)


@message
class TopicPartitions(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    partitions: Sequence[int] = field(["int32"], default=())


@message
class Assignment(Message):
    topic_partitions: Sequence[TopicPartitions] = field([TopicPartitions], default=())


@message
class ShareGroupHeartbeatResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=1)
    member_id: str | None = field("string", default=None, nullable_since=1)
    member_epoch: int = field("int32", default=0)
    heartbeat_interval_ms: int = field("int32", default=0)
    assignment: Assignment | None = field(Assignment, default=None, nullable_since=1)


API = Api(
    key=76,
    name="ShareGroupHeartbeat",
    versions=span(1, 1),
    flexible_since=1,
    listeners=frozenset({"broker"}),
    latest_stable=1,
    request=ShareGroupHeartbeatRequest,
    response=ShareGroupHeartbeatResponse,
)
