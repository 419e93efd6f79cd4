"""AlterClientQuotas: API key 49, versions 0 to 1, flexible from 1.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class EntityData(Message):
    entity_type: str = field("string", default="")
    entity_name: str | None = field("string", default="", nullable_since=0)


@message
class OpData(Message):
    key: str = field("string", default="")
    value: float = field("float64", default=0.0)
    remove: bool = field("bool", default=False)


@message
class EntryData(Message):
    entity: Sequence[EntityData] = field([EntityData], default=())
    ops: Sequence[OpData] = field([OpData], default=())


@message
class AlterClientQuotasRequest(Message):
    entries: Sequence[EntryData] = field([EntryData], default=())
    validate_only: bool = field("bool", default=False)


@message
class AlterClientQuotasResponseEntryData(Message):
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default="", nullable_since=0)
    entity: Sequence[EntityData] = field([EntityData], default=())


@message
class AlterClientQuotasResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    entries: Sequence[AlterClientQuotasResponseEntryData] = field([AlterClientQuotasResponseEntryData], default=())


API = Api(
    key=49,
    name="AlterClientQuotas",
    versions=span(0, 1),
    flexible_since=1,
    listeners=frozenset({"broker", "controller"}),
    latest_stable=1,
    request=AlterClientQuotasRequest,
    response=AlterClientQuotasResponse,
)
