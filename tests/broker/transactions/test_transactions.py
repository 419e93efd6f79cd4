"""Transactions of producers on a cluster without sockets: outcomes, isolation, fencing, timeouts, moves."""

from typing import Any

import pytest

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.groups.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestAddPartitionsToTxnTopic,
)
from klamm.protocol.messages.transactions.describe_transactions import DescribeTransactionsRequest
from klamm.protocol.messages.transactions.end_txn import EndTxnRequest
from klamm.protocol.messages.transactions.init_producer_id import InitProducerIdRequest
from tests.broker.data.batches import batch
from tests.broker.handlers.data_requests import fetch, produce
from tests.controller.handlers.cluster import DrivenCluster

NAME = "x"
TIMEOUT_MS = 10_000
READ_COMMITTED = 1
TRANSACTIONAL = 1 << 4
CHECK_MS = 200
CONFIGS = {
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(CHECK_MS),
}


class Producer:
    """A transactional producer of topic `t`."""

    def __init__(self, cluster: DrivenCluster) -> None:
        self.cluster = cluster
        self.producer_id = self.epoch = -1
        self.sequence = 0
        cluster.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[NAME]))

    def ask(self, request: Any, version: int | None = None) -> Any:
        found = self.cluster.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[NAME])).coordinators[0]
        return self.cluster.ask(request, version=version, broker_id=found.node_id)

    def begin(self) -> int:
        found = self.ask(InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=TIMEOUT_MS))
        if not found.error_code:
            self.producer_id, self.epoch, self.sequence = found.producer_id, found.producer_epoch, 0
        return int(found.error_code)

    def send(self, count: int = 1, *, partition: int = 0, version: int | None = None) -> int:
        records = batch(
            count,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            attributes=TRANSACTIONAL,
        )
        code = produce(self.cluster, records, partition=partition, transactional_id=NAME, version=version).error_code
        if not code:
            self.sequence += count
        return int(code)

    def end(self, *, commit: bool, version: int | None = None) -> int:
        request = EndTxnRequest(
            transactional_id=NAME, producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit
        )
        found = self.ask(request, version)
        if not found.error_code and version is None:
            self.producer_id, self.epoch, self.sequence = found.producer_id, found.producer_epoch, 0
        return int(found.error_code)

    def add(self, partition: int = 0) -> int:
        topic = AddPartitionsToTxnRequestAddPartitionsToTxnTopic(name="t", partitions=[partition])
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=NAME,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[topic],
        )
        found = self.ask(request, 3).results_by_topic_v3_and_below[0].results_by_partition[0]
        return int(found.partition_error_code)

    @property
    def state(self) -> str:
        found = self.ask(DescribeTransactionsRequest(transactional_ids=[NAME])).transaction_states[0]
        return str(found.transaction_state)

    def seen(self, isolation_level: int = READ_COMMITTED) -> tuple[int, int, list[int]]:
        """The last stable offset, the bytes of records, the first offsets of aborted transactions."""
        found = fetch(self.cluster, 0, isolation_level=isolation_level)[0]
        aborted = [one.first_offset for one in found.aborted_transactions or ()]
        return found.last_stable_offset, len(found.records or b""), aborted


@pytest.fixture
def producer() -> Producer:
    cluster = DrivenCluster(profile="kafka", configs=CONFIGS)
    assert cluster.create_at("t", *[[1, 2, 3]] * 2).error_code == 0
    made = Producer(cluster)
    assert made.begin() == ErrorCode.NONE
    return made


def test_records_are_stable_when_their_transaction_is_committed(producer: Producer) -> None:
    assert producer.send(3) == ErrorCode.NONE
    assert producer.seen() == (0, 0, [])
    assert producer.state == "Ongoing"
    assert producer.end(commit=True) == ErrorCode.NONE
    assert producer.state == "CompleteCommit"
    stable, size, aborted = producer.seen()
    assert (stable, aborted) == (4, [])
    assert size > 0


def test_an_aborted_transaction_is_named_to_readers_of_committed_records(producer: Producer) -> None:
    producer.send(3)
    producer.end(commit=True)
    producer.send(2)
    assert producer.end(commit=False) == ErrorCode.NONE
    assert (producer.state, producer.epoch) == ("CompleteAbort", 2)
    assert (producer.seen()[0], producer.seen()[2]) == (7, [4])
    assert producer.seen(0)[2] == []


def test_a_partition_that_was_not_added_takes_no_records_of_older_clients(producer: Producer) -> None:
    assert producer.send(version=11) == ErrorCode.TRANSACTION_ABORTABLE
    assert producer.send(version=10) == ErrorCode.INVALID_TXN_STATE
    assert producer.add() == ErrorCode.NONE
    assert producer.send(version=11) == ErrorCode.NONE
    assert producer.end(commit=True, version=4) == ErrorCode.NONE
    assert producer.end(commit=True, version=4) == ErrorCode.NONE, "the request is repeated"
    assert producer.end(commit=False, version=4) == ErrorCode.INVALID_TXN_STATE


def test_a_second_producer_fences_the_first_and_aborts_its_transaction(producer: Producer) -> None:
    producer.send()
    second = Producer(producer.cluster)
    assert second.begin() == ErrorCode.CONCURRENT_TRANSACTIONS
    assert second.begin() == ErrorCode.NONE
    assert (second.producer_id, second.epoch) == (producer.producer_id, 2)
    assert producer.send() == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.end(commit=True, version=4) == ErrorCode.PRODUCER_FENCED
    assert producer.end(commit=True, version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.seen() == (2, producer.seen(0)[1], [0])


def test_a_transaction_beyond_its_timeout_is_aborted(producer: Producer) -> None:
    producer.send()
    cluster = producer.cluster
    cluster.clock.advance(TIMEOUT_MS)
    cluster.brokers.tick()
    assert producer.state == "Ongoing"
    cluster.clock.advance(CHECK_MS + 1)
    cluster.brokers.tick()
    assert producer.state == "CompleteAbort"
    assert producer.send() == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.seen()[2] == [0]


def test_an_open_transaction_goes_on_at_another_coordinator(producer: Producer) -> None:
    producer.send()
    cluster = producer.cluster
    found = cluster.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[NAME])).coordinators[0]
    if found.node_id == 1:  # it also leads the partition of the records, so that one stays
        pytest.fail("choose a transactional id that another broker coordinates")
    cluster.lose(found.node_id)
    cluster.brokers.tick()
    assert producer.state == "Ongoing"
    assert producer.end(commit=True) == ErrorCode.NONE
    assert producer.seen()[0] == 2
