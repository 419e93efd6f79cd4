"""DescribeClientQuotas: API key 48, versions 0 to 1, flexible from 1.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class ComponentData(Message):
    entity_type: str = field("string", default="")
    match_type: int = field("int8", default=0)
    match: str | None = field("string", default="", nullable_since=0)


@message
class DescribeClientQuotasRequest(Message):
    components: Sequence[ComponentData] = field([ComponentData], default=())
    strict: bool = field("bool", default=False)


@message
class EntityData(Message):
    entity_type: str = field("string", default="")
    entity_name: str | None = field("string", default="", nullable_since=0)


@message
class ValueData(Message):
    key: str = field("string", default="")
    value: float = field("float64", default=0.0)


@message
class EntryData(Message):
    entity: Sequence[EntityData] = field([EntityData], default=())
    values: Sequence[ValueData] = field([ValueData], default=())


@message
class DescribeClientQuotasResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", default="", nullable_since=0)
    entries: Sequence[EntryData] | None = field([EntryData], default=(), nullable_since=0)


API = Api(
    key=48,
    name="DescribeClientQuotas",
    versions=span(0, 1),
    flexible_since=1,
    listeners=frozenset({"broker"}),
    latest_stable=1,
    request=DescribeClientQuotasRequest,
    response=DescribeClientQuotasResponse,
)
