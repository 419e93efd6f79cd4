"""Metadata records about the cluster.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import RecordType, span
from klamm.protocol.fields import Message, field, message
from klamm.protocol.uuid import ZERO_UUID, Uuid


@message
class FeatureLevelRecord(Message):
    name: str = field("string", default="")
    feature_level: int = field("int16", default=0)


@message
class NoOpRecord(Message):
    pass


@message
class ControllerEndpoint(Message):
    name: str = field("string", default="")
    host: str = field("string", default="")
    port: int = field("uint16", default=0)
    security_protocol: int = field("int16", default=0)


@message
class ControllerFeature(Message):
    name: str = field("string", default="")
    min_supported_version: int = field("int16", default=0)
    max_supported_version: int = field("int16", default=0)


@message
class RegisterControllerRecord(Message):
    controller_id: int = field("int32", default=0)
    incarnation_id: Uuid = field("uuid", default=ZERO_UUID)
    zk_migration_ready: bool = field("bool", default=False)
    end_points: Sequence[ControllerEndpoint] = field([ControllerEndpoint], default=())
    features: Sequence[ControllerFeature] = field([ControllerFeature], default=())


@message
class ZkMigrationStateRecord(Message):
    zk_migration_state: int = field("int8", default=0)


FEATURE_LEVEL = RecordType(
    id=12,
    name="FeatureLevelRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=FeatureLevelRecord,
)

NO_OP = RecordType(
    id=20,
    name="NoOpRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=NoOpRecord,
)

REGISTER_CONTROLLER = RecordType(
    id=27,
    name="RegisterControllerRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=RegisterControllerRecord,
)

ZK_MIGRATION_STATE = RecordType(
    id=21,
    name="ZkMigrationStateRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=ZkMigrationStateRecord,
)
