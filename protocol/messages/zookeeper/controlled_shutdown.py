"""ControlledShutdown: API key 7, versions 0 to 3, flexible from 3.

Apache Kafka 4.0 removed versions 0 to 3 (KIP-896).

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class ControlledShutdownRequest(Message):
    broker_id: int = field("int32", default=0)
    broker_epoch: int = field("int64", default=-1, since=2, ignorable=True)


@message
class RemainingPartition(Message):
    topic_name: str = field("string", default="")
    partition_index: int = field("int32", default=0)


@message
class ControlledShutdownResponse(Message):
    error_code: int = field("int16", default=0)
    remaining_partitions: Sequence[RemainingPartition] = field([RemainingPartition], default=())


API = Api(
    key=7,
    name="ControlledShutdown",
    versions=span(0, 3),
    flexible_since=3,
    listeners=frozenset({"controller", "broker"}),
    latest_stable=3,
    removed_before=4,
    request=ControlledShutdownRequest,
    response=ControlledShutdownResponse,
)
