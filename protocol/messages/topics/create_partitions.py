"""CreatePartitions: API key 37, versions 0 to 3, flexible from 2.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class CreatePartitionsAssignment(Message):
    broker_ids: Sequence[int] = field(["int32"], default=())


@message
class CreatePartitionsTopic(Message):
    name: str = field("string", default="")
    count: int = field("int32", default=0)
    assignments: Sequence[CreatePartitionsAssignment] | None = field(
        [CreatePartitionsAssignment], default=(), nullable_since=0
    )


@message
class CreatePartitionsRequest(Message):
    topics: Sequence[CreatePartitionsTopic] = field([CreatePartitionsTopic], default=())
    timeout_ms: int = field("int32", default=0)
    validate_only: bool = field("bool", default=False)


@message
class CreatePartitionsTopicResult(Message):
    name: str = field("string", default="")
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=0)


@message
class CreatePartitionsResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    results: Sequence[CreatePartitionsTopicResult] = field([CreatePartitionsTopicResult], default=())


API = Api(
    key=37,
    name="CreatePartitions",
    versions=span(0, 3),
    flexible_since=2,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=3,
    request=CreatePartitionsRequest,
    response=CreatePartitionsResponse,
)
