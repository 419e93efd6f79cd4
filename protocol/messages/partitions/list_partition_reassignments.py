"""ListPartitionReassignments: API key 46, version 0, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class ListPartitionReassignmentsTopics(Message):
    name: str = field("string", default="")
    partition_indexes: Sequence[int] = field(["int32"], default=())


@message
class ListPartitionReassignmentsRequest(Message):
    timeout_ms: int = field("int32", default=60000)
    topics: Sequence[ListPartitionReassignmentsTopics] | None = field(
        [ListPartitionReassignmentsTopics], default=None, nullable_since=0
    )


@message
class OngoingPartitionReassignment(Message):
    partition_index: int = field("int32", default=0)
    replicas: Sequence[int] = field(["int32"], default=())
    adding_replicas: Sequence[int] = field(["int32"], default=())
    removing_replicas: Sequence[int] = field(["int32"], default=())


@message
class OngoingTopicReassignment(Message):
    name: str = field("string", default="")
    partitions: Sequence[OngoingPartitionReassignment] = field([OngoingPartitionReassignment], default=())


@message
class ListPartitionReassignmentsResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default="", nullable_since=0)
    topics: Sequence[OngoingTopicReassignment] = field([OngoingTopicReassignment], default=())


API = Api(
    key=46,
    name="ListPartitionReassignments",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=0,
    request=ListPartitionReassignmentsRequest,
    response=ListPartitionReassignmentsResponse,
)
