"""ShareGroupDescribe: API key 77, version 1, flexible from 1.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class ShareGroupDescribeRequest(Message):
    group_ids: Sequence[str] = field(["string"], default=())
    include_authorized_operations: bool = field("bool", default=False)


@message
class TopicPartitions(Message):
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    topic_name: str = field("string", default="")
    partitions: Sequence[int] = field(["int32"], default=())


@message
class Assignment(Message):
    topic_partitions: Sequence[TopicPartitions] = field([TopicPartitions], default=())


@message
class Member(Message):
    member_id: str = field("string", default="")
    rack_id: str | None = field("string", default=None, nullable_since=1)
    member_epoch: int = field("int32", default=0)
    client_id: str = field("string", default="")
    client_host: str = field("string", default="")
    subscribed_topic_names: Sequence[str] = field(["string"], default=())
    assignment: Assignment = field(Assignment, default=Assignment)


@message
class DescribedGroup(Message):
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=1)
    group_id: str = field("string", default="")
    group_state: str = field("string", default="")
    group_epoch: int = field("int32", default=0)
    assignment_epoch: int = field("int32", default=0)
    assignor_name: str = field("string", default="")
    members: Sequence[Member] = field([Member], default=())
    authorized_operations: int = field("int32", default=-2147483648)


@message
class ShareGroupDescribeResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    groups: Sequence[DescribedGroup] = field([DescribedGroup], default=())


API = Api(
    key=77,
    name="ShareGroupDescribe",
    versions=span(1, 1),
    flexible_since=1,
    listeners=frozenset({"broker"}),
    latest_stable=1,
    request=ShareGroupDescribeRequest,
    response=ShareGroupDescribeResponse,
)
