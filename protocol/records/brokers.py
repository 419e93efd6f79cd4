"""Metadata records about brokers.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import RecordType, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class BrokerEndpoint(Message):
    name: str = field("string", default="")
    host: str = field("string", default="")
    port: int = field("uint16", default=0)
    security_protocol: int = field("int16", default=0)


@message
class BrokerFeature(Message):
    name: str = field("string", default="")
    min_supported_version: int = field("int16", default=0)
    max_supported_version: int = field("int16", default=0)


@message
class RegisterBrokerRecord(Message):
    broker_id: int = field("int32", default=0)
    is_migrating_zk_broker: bool = field("bool", default=False, since=2)
    incarnation_id: Uuid = field("uuid", default=ZERO_UUID)
    broker_epoch: int = field("int64", default=0)
    end_points: Sequence[BrokerEndpoint] = field([BrokerEndpoint], default=())
    features: Sequence[BrokerFeature] = field([BrokerFeature], default=())
    rack: str | None = field("string", default="", nullable_since=0)
    fenced: bool = field("bool", default=True)
    in_controlled_shutdown: bool = field("bool", default=False, since=1)
    log_dirs: Sequence[Uuid] = field(["uuid"], default=(), since=3, tag=0)
    cordoned_log_dirs: Sequence[Uuid] | None = field(["uuid"], default=None, since=4, nullable_since=4, tag=1)


@message
class UnregisterBrokerRecord(Message):
    broker_id: int = field("int32", default=0)
    broker_epoch: int = field("int64", default=0)


@message
class BrokerRegistrationChangeRecord(Message):
    broker_id: int = field("int32", default=0)
    broker_epoch: int = field("int64", default=0)
    fenced: int = field("int8", default=0, tag=0)
    in_controlled_shutdown: int = field("int8", default=0, since=1, tag=1)
    log_dirs: Sequence[Uuid] = field(["uuid"], default=(), since=2, tag=2)
    cordoned_log_dirs: Sequence[Uuid] | None = field(["uuid"], default=None, since=3, nullable_since=3, tag=3)


@message
class FenceBrokerRecord(Message):
    id: int = field("int32", default=0)
    epoch: int = field("int64", default=0)


@message
class UnfenceBrokerRecord(Message):
    id: int = field("int32", default=0)
    epoch: int = field("int64", default=0)


@message
class ProducerIdsRecord(Message):
    broker_id: int = field("int32", default=0)
    broker_epoch: int = field("int64", default=-1)
    next_producer_id: int = field("int64", default=0)


REGISTER_BROKER = RecordType(
    id=0,
    name="RegisterBrokerRecord",
    versions=span(0, 4),
    flexible_since=0,
    message=RegisterBrokerRecord,
)

UNREGISTER_BROKER = RecordType(
    id=1,
    name="UnregisterBrokerRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=UnregisterBrokerRecord,
)

BROKER_REGISTRATION_CHANGE = RecordType(
    id=17,
    name="BrokerRegistrationChangeRecord",
    versions=span(0, 3),
    flexible_since=0,
    message=BrokerRegistrationChangeRecord,
)

FENCE_BROKER = RecordType(
    id=7,
    name="FenceBrokerRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=FenceBrokerRecord,
)

UNFENCE_BROKER = RecordType(
    id=8,
    name="UnfenceBrokerRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=UnfenceBrokerRecord,
)

PRODUCER_IDS = RecordType(
    id=15,
    name="ProducerIdsRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=ProducerIdsRecord,
)
