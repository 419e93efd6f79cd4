"""WriteTxnMarkers: API key 27, versions 0 to 2, flexible from 1.

Apache Kafka 4.0 removed version 0 (KIP-896).

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class WritableTxnMarkerTopic(Message):
    name: str = field("string", default="")
    partition_indexes: Sequence[int] = field(["int32"], default=())


@message
class WritableTxnMarker(Message):
    producer_id: int = field("int64", default=0)
    producer_epoch: int = field("int16", default=0)
    transaction_result: bool = field("bool", default=False)
    topics: Sequence[WritableTxnMarkerTopic] = field([WritableTxnMarkerTopic], default=())
    coordinator_epoch: int = field("int32", default=0)
    transaction_version: int = field("int8", default=0, since=2, ignorable=True)


@message
class WriteTxnMarkersRequest(Message):
    markers: Sequence[WritableTxnMarker] = field([WritableTxnMarker], default=())


@message
class WritableTxnMarkerPartitionResult(Message):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)


@message
class WritableTxnMarkerTopicResult(Message):
    name: str = field("string", default="")
    partitions: Sequence[WritableTxnMarkerPartitionResult] = field([WritableTxnMarkerPartitionResult], default=())


@message
class WritableTxnMarkerResult(Message):
    producer_id: int = field("int64", default=0)
    topics: Sequence[WritableTxnMarkerTopicResult] = field([WritableTxnMarkerTopicResult], default=())


@message
class WriteTxnMarkersResponse(Message):
    markers: Sequence[WritableTxnMarkerResult] = field([WritableTxnMarkerResult], default=())


API = Api(
    key=27,
    name="WriteTxnMarkers",
    versions=span(0, 2),
    flexible_since=1,
    listeners=frozenset({"broker"}),
    latest_stable=2,
    removed_before=1,
    request=WriteTxnMarkersRequest,
    response=WriteTxnMarkersResponse,
)
