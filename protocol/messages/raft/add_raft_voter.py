"""AddRaftVoter: API key 80, versions 0 to 1, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class Listener(Message):
    name: str = field("string", default="")
    host: str = field("string", default="")
    port: int = field("uint16", default=0)


@message
class AddRaftVoterRequest(Message):
    cluster_id: str | None = field("string", default="", nullable_since=0)
    timeout_ms: int = field("int32", default=0)
    voter_id: int = field("int32", default=0)
    voter_directory_id: Uuid = field("uuid", default=ZERO_UUID)
    listeners: Sequence[Listener] = field([Listener], default=())
    ack_when_committed: bool = field("bool", default=True, since=1)


@message
class AddRaftVoterResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default="", nullable_since=0, ignorable=True)


API = Api(
    key=80,
    name="AddRaftVoter",
    versions=span(0, 1),
    flexible_since=0,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=1,
    request=AddRaftVoterRequest,
    response=AddRaftVoterResponse,
)
