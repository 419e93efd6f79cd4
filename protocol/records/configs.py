"""Metadata records about configs.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import RecordType, span
from klamm.protocol.fields import Message, field, message


@message
class ConfigRecord(Message):
    resource_type: int = field("int8", default=0)
    resource_name: str = field("string", default="")
    name: str = field("string", default="")
    value: str | None = field("string", default="", nullable_since=0)


@message
class EntityData(Message):
    entity_type: str = field("string", default="")
    entity_name: str | None = field("string", default="", nullable_since=0)


@message
class ClientQuotaRecord(Message):
    entity: Sequence[EntityData] = field([EntityData], default=())
    key: str = field("string", default="")
    value: float = field("float64", default=0.0)
    remove: bool = field("bool", default=False)


CONFIG = RecordType(
    id=4,
    name="ConfigRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=ConfigRecord,
)

CLIENT_QUOTA = RecordType(
    id=14,
    name="ClientQuotaRecord",
    versions=span(0, 0),
    flexible_since=0,
    message=ClientQuotaRecord,
)
