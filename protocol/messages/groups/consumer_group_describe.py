"""ConsumerGroupDescribe: API key 69, versions 0 to 1, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class ConsumerGroupDescribeRequest(Message):
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
    instance_id: str | None = field("string", default=None, nullable_since=0)
    rack_id: str | None = field("string", default=None, nullable_since=0)
    member_epoch: int = field("int32", default=0)
    client_id: str = field("string", default="")
    client_host: str = field("string", default="")
    subscribed_topic_names: Sequence[str] = field(["string"], default=())
    subscribed_topic_regex: str | None = field("string", default=None, nullable_since=0)
    assignment: Assignment = field(Assignment, default=Assignment)
    target_assignment: Assignment = field(Assignment, default=Assignment)
    member_type: int = field("int8", default=-1, since=1, ignorable=True)


@message
class DescribedGroup(Message):
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=0)
    group_id: str = field("string", default="")
    group_state: str = field("string", default="")
    group_epoch: int = field("int32", default=0)
    assignment_epoch: int = field("int32", default=0)
    assignor_name: str = field("string", default="")
    members: Sequence[Member] = field([Member], default=())
    authorized_operations: int = field("int32", default=-2147483648)


@message
class ConsumerGroupDescribeResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    groups: Sequence[DescribedGroup] = field([DescribedGroup], default=())


API = Api(
    key=69,
    name="ConsumerGroupDescribe",
    versions=span(0, 1),
    flexible_since=0,
    listeners=frozenset({"broker"}),
    latest_stable=1,
    request=ConsumerGroupDescribeRequest,
    response=ConsumerGroupDescribeResponse,
)
