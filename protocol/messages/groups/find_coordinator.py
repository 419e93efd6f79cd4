"""FindCoordinator: API key 10, versions 0 to 6, flexible from 3.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class FindCoordinatorRequest(Message):
    key: str = field("string", default="", until=3)
    key_type: int = field("int8", default=0, since=1)
    coordinator_keys: Sequence[str] = field(["string"], default=(), since=4)


@message
class Coordinator(Message):
    key: str = field("string", default="", since=4)
    node_id: int = field("int32", default=0, since=4)
    host: str = field("string", default="", since=4)
    port: int = field("int32", default=0, since=4)
    error_code: int = field("int16", default=0, since=4)
    error_message: str | None = field("string", default="", since=4, nullable_since=4, ignorable=True)


@message
class FindCoordinatorResponse(Message):
    throttle_time_ms: int = field("int32", default=0, since=1, ignorable=True)
    error_code: int = field("int16", default=0, until=3)
    error_message: str | None = field("string", default="", since=1, until=3, nullable_since=1, ignorable=True)
    node_id: int = field("int32", default=0, until=3)
    host: str = field("string", default="", until=3)
    port: int = field("int32", default=0, until=3)
    coordinators: Sequence[Coordinator] = field([Coordinator], default=(), since=4)


API = Api(
    key=10,
    name="FindCoordinator",
    versions=span(0, 6),
    flexible_since=3,
    listeners=frozenset({"broker"}),
    latest_stable=6,
    request=FindCoordinatorRequest,
    response=FindCoordinatorResponse,
)
