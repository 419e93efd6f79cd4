"""AddPartitionsToTxn: API key 24, versions 0 to 5, flexible from 3.

Written by tools/generate_messages.py from spec/.
"""

from collections.abc import Sequence

from klamm.protocol.api import Api, span
from klamm.protocol.fields import Message, field, message


@message
class AddPartitionsToTxnTopic(Message):
    name: str = field("string", default="", since=4)
    partitions: Sequence[int] = field(["int32"], default=(), since=4)


@message
class AddPartitionsToTxnTransaction(Message):
    transactional_id: str = field("string", default="", since=4)
    producer_id: int = field("int64", default=0, since=4)
    producer_epoch: int = field("int16", default=0, since=4)
    verify_only: bool = field("bool", default=False, since=4)
    topics: Sequence[AddPartitionsToTxnTopic] = field([AddPartitionsToTxnTopic], default=(), since=4)


@message
class AddPartitionsToTxnRequestAddPartitionsToTxnTopic(Message):
    name: str = field("string", default="", until=3)
    partitions: Sequence[int] = field(["int32"], default=(), until=3)


@message
class AddPartitionsToTxnRequest(Message):
    transactions: Sequence[AddPartitionsToTxnTransaction] = field([AddPartitionsToTxnTransaction], default=(), since=4)
    v3_and_below_transactional_id: str = field("string", default="", until=3)
    v3_and_below_producer_id: int = field("int64", default=0, until=3)
    v3_and_below_producer_epoch: int = field("int16", default=0, until=3)
    v3_and_below_topics: Sequence[AddPartitionsToTxnRequestAddPartitionsToTxnTopic] = field(
        [AddPartitionsToTxnRequestAddPartitionsToTxnTopic], default=(), until=3
    )


@message
class AddPartitionsToTxnPartitionResult(Message):
    partition_index: int = field("int32", default=0, since=4)
    partition_error_code: int = field("int16", default=0, since=4)


@message
class AddPartitionsToTxnTopicResult(Message):
    name: str = field("string", default="", since=4)
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = field(
        [AddPartitionsToTxnPartitionResult], default=(), since=4
    )


@message
class AddPartitionsToTxnResult(Message):
    transactional_id: str = field("string", default="", since=4)
    topic_results: Sequence[AddPartitionsToTxnTopicResult] = field([AddPartitionsToTxnTopicResult], default=(), since=4)


@message
class AddPartitionsToTxnResponseAddPartitionsToTxnPartitionResult(Message):
    partition_index: int = field("int32", default=0, until=3)
    partition_error_code: int = field("int16", default=0, until=3)


@message
class AddPartitionsToTxnResponseAddPartitionsToTxnTopicResult(Message):
    name: str = field("string", default="", until=3)
    results_by_partition: Sequence[AddPartitionsToTxnResponseAddPartitionsToTxnPartitionResult] = field(
        [AddPartitionsToTxnResponseAddPartitionsToTxnPartitionResult], default=(), until=3
    )


@message
class AddPartitionsToTxnResponse(Message):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0, since=4, ignorable=True)
    results_by_transaction: Sequence[AddPartitionsToTxnResult] = field([AddPartitionsToTxnResult], default=(), since=4)
    results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnResponseAddPartitionsToTxnTopicResult] = field(
        [AddPartitionsToTxnResponseAddPartitionsToTxnTopicResult], default=(), until=3
    )


API = Api(
    key=24,
    name="AddPartitionsToTxn",
    versions=span(0, 5),
    flexible_since=3,
    listeners=frozenset({"broker"}),
    latest_stable=5,
    request=AddPartitionsToTxnRequest,
    response=AddPartitionsToTxnResponse,
)
