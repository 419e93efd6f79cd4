"""ReplicaStatus: API key 17902, version 0, flexible from 0. Ours, after KIP-179: Apache Kafka never gave it a key.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class ReplicaStatusRequestEntry(Message):
    topic: str = field("string", default="")
    partition_id: int = field("int32", default=0)
    broker: int = field("int32", default=0)


@message
class ReplicaStatusRequest(Message):
    replica_status_requests: Sequence[ReplicaStatusRequestEntry] = field([ReplicaStatusRequestEntry], default=())


@message
class ReplicaStatusEntry(Message):
    topic: str = field("string", default="")
    partition_id: int = field("int32", default=0)
    broker: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    status_time: int = field("int64", default=0)
    lag: int = field("int64", default=-1)


@message
class ReplicaStatusResponse(Message):
    replica_status: Sequence[ReplicaStatusEntry] = field([ReplicaStatusEntry], default=())


API = Api(
    key=17902,
    name="ReplicaStatus",
    versions=span(0, 0),
    flexible_since=0,
    listeners=frozenset({"broker"}),
    latest_stable=0,
    request=ReplicaStatusRequest,
    response=ReplicaStatusResponse,
)
