"""BrokerRegistration: API key 62, versions 0 to 4, flexible from 0.

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
class BrokerRegistrationRequest(Message):
    broker_id: int = field("int32", default=0)
    cluster_id: str = field("string", default="")
    incarnation_id: Uuid = field("uuid", default=ZERO_UUID)
    listeners: Sequence[Listener] = field([Listener], default=())
    features: Sequence[Feature] = field([Feature], default=())
    rack: str | None = field("string", default="", nullable_since=0)
    is_migrating_zk_broker: bool = field("bool", default=False, since=1)
    log_dirs: Sequence[Uuid] = field(["uuid"], default=(), since=2, ignorable=True)
    previous_broker_epoch: int = field("int64", default=-1, since=3, ignorable=True)


@message
class BrokerRegistrationResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    broker_epoch: int = field("int64", default=-1)


API = Api(
    key=62,
    name="BrokerRegistration",
    versions=span(0, 4),
    flexible_since=0,
    listeners=frozenset({"controller"}),
    latest_stable=4,
    request=BrokerRegistrationRequest,
    response=BrokerRegistrationResponse,
)
