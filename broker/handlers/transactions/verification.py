"""What brokers ask a transaction coordinator before they write for a transaction (KIP-890).

Records and offsets of a transaction are written only to partitions that the coordinator has in the transaction, so that
no partition keeps an open transaction that nothing ends. Newer requests of clients (Produce v12, TxnOffsetCommit v5)
add the partition in the same step. Source: Kafka's AddPartitionsToTxnManager and ReplicaManager.
A coordinator on a real broker is asked over the network.
"""

from collections.abc import Callable, Sequence
from enum import Enum

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.coordinator.answer import Step
from klamm.broker.coordinator.outbox import Outbox
from klamm.broker.coordinator.shard import Shard
from klamm.broker.handlers.transactions.add_to_txn import VERSION_OF_ADDING_BROKERS
from klamm.broker.outgoing import Outgoing, error_of
from klamm.broker.transactions.transactions import Producer, TopicPartition, Transactions
from klamm.controller.metadata.image import MetadataImage
from klamm.protocol.errors import ErrorCode
from klamm.protocol.internal_topics import TRANSACTION_STATE
from klamm.protocol.messages.transactions import add_partitions_to_txn
from klamm.protocol.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)


class Support(Enum):
    """What the version of a request allows."""

    DEFAULT = 0
    """A partition that was not added is INVALID_TXN_STATE."""
    ABORTABLE = 1
    """It is TRANSACTION_ABORTABLE."""
    ADDS = 2
    """It is added."""


_RETRIABLE = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
)


def verify(
    brokers: SimulatedBrokers,
    image: MetadataImage,
    producer: Producer,
    partitions: Sequence[TopicPartition],
    support: Support,
    *,
    then: Callable[[Sequence[ErrorCode]], None],
    wait_on: Callable[[Shard], None],
    now_ms: int,
) -> None:
    """Ask the coordinator of a producer's transaction about partitions. `then` is called, at once or later, with the
    code of each partition; `wait_on` with the shard that decides."""

    def refused(code: ErrorCode) -> None:
        then([_for_client(code, support)] * len(partitions))

    def resolved(result: object) -> None:
        if isinstance(result, list):
            then([_for_client(code, support) for code in result])
        else:
            then([ErrorCode.NONE] * len(partitions))

    step = Step(resolved, refused, wait_on)

    def operation(transactions: Transactions) -> Outbox:
        if support is Support.ADDS:
            return transactions.add_partitions(producer, partitions, step, now_ms, version=VERSION_OF_ADDING_BROKERS)
        return transactions.verify(producer, partitions, step)

    coordinators, name = brokers.coordinators, producer.transactional_id
    leader = coordinators.leader_of(image, TRANSACTION_STATE, name)
    if leader in image.brokers.real:
        ask_real_coordinator(
            brokers.outgoing,
            leader,
            producer,
            partitions,
            lambda codes: then([_for_client(code, support) for code in codes]),
            adds=support is Support.ADDS,
        )
        return
    coordinators.submit(image, (TRANSACTION_STATE, name, leader), step, operation, now_ms)


def ask_real_coordinator(
    outgoing: Outgoing,
    broker_id: int,
    producer: Producer,
    partitions: Sequence[TopicPartition],
    then: Callable[[Sequence[ErrorCode]], None],
    *,
    adds: bool,
) -> None:
    """Ask the coordinator on a real broker by AddPartitionsToTxn. `then` is called once, with the code of each
    partition: NOT_COORDINATOR, which is retriable, if there is no answer."""
    by_topic: dict[str, list[int]] = {}
    for name, index in partitions:
        by_topic.setdefault(name, []).append(index)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        verify_only=not adds,
        topics=[AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in by_topic.items()],
    )

    def answered(answer: AddPartitionsToTxnResponse | None) -> None:
        found = {
            (topic.name, one.partition_index): error_of(one.partition_error_code)
            for result in (answer.results_by_transaction if answer is not None else ())
            if result.transactional_id == producer.transactional_id
            for topic in result.topic_results
            for one in topic.results_by_partition
        }
        whole = error_of(answer.error_code) if answer is not None and answer.error_code else ErrorCode.NOT_COORDINATOR
        then([found.get(place, whole) for place in partitions])

    request = AddPartitionsToTxnRequest(transactions=[transaction])
    outgoing.ask(broker_id, add_partitions_to_txn.API, request, answered)


def _for_client(code: ErrorCode, support: Support) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code in _RETRIABLE or (code is ErrorCode.CONCURRENT_TRANSACTIONS and support is not Support.ADDS):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.TRANSACTION_ABORTABLE and support is Support.DEFAULT:
        return ErrorCode.INVALID_TXN_STATE
    return code
