"""ControllerRegistration: API key 70, version 0, flexible from 0.

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
    security_protocol: int = field("int16", default=0)


@message
class Feature(Message):
    name: str = field("string", default="")
    min_supported_version: int = field("int16", default=0)
    max_supported_version: int = field("int16", default=0)


@message
class ControllerRegistrationRequest(Message):
    controller_id: int = field("int32", default=0)
    incarnation_id: Uuid = field("uuid", default=ZERO_UUID)
    zk_migration_ready: bool = field("bool", default=False)
    listeners: Sequence[Listener] = field([Listener], default=())
    features: Sequence[Feature] = field([Feature], default=())


@message
class ControllerRegistrationResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default="", nullable_since=0)


API = Api(
    key=70,
    name="ControllerRegistration",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"controller"}),
    latest_stable=0,
    request=ControllerRegistrationRequest,
    response=ControllerRegistrationResponse,
)
