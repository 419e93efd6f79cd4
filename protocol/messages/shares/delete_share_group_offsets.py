"""DeleteShareGroupOffsets: API key 92, version 0, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class DeleteShareGroupOffsetsRequestTopic(Message):
    topic_name: str = field("string", default="")


@message
class DeleteShareGroupOffsetsRequest(Message):
    group_id: str = field("string", default="")
    topics: Sequence[DeleteShareGroupOffsetsRequestTopic] = field([DeleteShareGroupOffsetsRequestTopic], default=())


@message
class DeleteShareGroupOffsetsResponseTopic(Message):
    topic_name: str = field("string", default="")
    topic_id: Uuid = field("uuid", default=ZERO_UUID)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=0)


@message
class DeleteShareGroupOffsetsResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default=None, nullable_since=0)
    responses: Sequence[DeleteShareGroupOffsetsResponseTopic] = field(
        [DeleteShareGroupOffsetsResponseTopic], default=()
    )


API = Api(
    key=92,
    name="DeleteShareGroupOffsets",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"broker"}),
    latest_stable=0,
    request=DeleteShareGroupOffsetsRequest,
    response=DeleteShareGroupOffsetsResponse,
)
