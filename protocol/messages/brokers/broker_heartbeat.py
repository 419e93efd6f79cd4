"""BrokerHeartbeat: API key 63, versions 0 to 2, flexible from 0.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import Uuid


@message
class BrokerHeartbeatRequest(Message):
    broker_id: int = field("int32", default=0)
    broker_epoch: int = field("int64", default=-1)
    current_metadata_offset: int = field("int64", default=0)
    want_fence: bool = field("bool", default=False)
    want_shut_down: bool = field("bool", default=False)
    offline_log_dirs: Sequence[Uuid] = field(["uuid"], default=(), since=1, tag=0)
    cordoned_log_dirs: Sequence[Uuid] | None = field(["uuid"], default=None, since=2, nullable_since=2, tag=1)


@message
class BrokerHeartbeatResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    is_caught_up: bool = field("bool", default=False)
    is_fenced: bool = field("bool", default=True)
    should_shut_down: bool = field("bool", default=False)


API = Api(
    key=63,
    name="BrokerHeartbeat",
    versions=span(0, 2),
    flexible_since=0,
    listeners=frozenset({"controller"}),
    latest_stable=2,
    request=BrokerHeartbeatRequest,
    response=BrokerHeartbeatResponse,
)
