"""RemoveRaftVoter: API key 81, version 0, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class RemoveRaftVoterRequest(Message):
    cluster_id: str | None = field("string", default="", nullable_since=0)
    voter_id: int = field("int32", default=0)
    voter_directory_id: Uuid = field("uuid", default=ZERO_UUID)


@message
class RemoveRaftVoterResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default="", nullable_since=0, ignorable=True)


API = Api(
    key=81,
    name="RemoveRaftVoter",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=0,
    request=RemoveRaftVoterRequest,
    response=RemoveRaftVoterResponse,
)
