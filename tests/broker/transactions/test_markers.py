"""The markers of a decided transaction: when they are written, and when the transaction is complete."""

from itertools import count
from typing import Any

import pytest

from klamm.broker.coordinator.coordinators import partition_of
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.internal_topics import TRANSACTION_STATE
from klamm.protocol.messages.groups.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestAddPartitionsToTxnTopic,
)
from klamm.protocol.messages.transactions.describe_transactions import DescribeTransactionsRequest
from klamm.protocol.messages.transactions.end_txn import EndTxnRequest
from klamm.protocol.messages.transactions.init_producer_id import InitProducerIdRequest
from tests.controller.handlers.cluster import DrivenCluster

CONFIGS = {"transaction.state.log.num.partitions": "12", "transaction.state.log.replication.factor": "2"}
LEADER, FOLLOWER = 3, 4
"""The replicas of topic `t`. The coordinator and its follower are other brokers."""


class Transaction:
    """A transaction with one partition, which has no records yet."""

    def __init__(self) -> None:
        self.cluster = DrivenCluster(4, racks=("a",), profile="kafka", configs=CONFIGS)
        self.cluster.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]))
        topic = self.cluster.image.topics_by_name[TRANSACTION_STATE]
        partitions = self.cluster.image.partition_count(topic)
        self.name, found = next(
            (name, partition)
            for name in map("x{}".format, count())
            for partition in [self.cluster.image.partitions.read(topic.row, partition_of(name, partitions))]
            if set(partition.replicas) == {1, 2}
        )
        self.coordinator_id, self.coordinator_follower_id = found.leader, 3 - found.leader
        assert self.cluster.create_at("t", [LEADER, FOLLOWER]).error_code == ErrorCode.NONE
        self.pass_time()
        self.made = self.ask(InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000))
        assert self.made.error_code == ErrorCode.NONE
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.made.producer_id,
            v3_and_below_producer_epoch=self.made.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnRequestAddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        added = self.ask(request, 3).results_by_topic_v3_and_below[0].results_by_partition[0]
        assert added.partition_error_code == ErrorCode.NONE

    def ask(self, request: Message, version: int | None = None) -> Any:
        return self.cluster.ask(request, version=version, broker_id=self.coordinator_id)

    def commit(self) -> None:
        """EndTxn, without a look at its answer."""
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.made.producer_id,
            producer_epoch=self.made.producer_epoch,
            committed=True,
        )
        self.cluster.submit(request, broker_id=self.coordinator_id)
        self.pass_time()

    def pass_time(self) -> None:
        """Time for replication, where the brokers are up."""
        for _ in range(3):
            self.cluster.clock.advance(2)
            self.cluster.brokers.tick()

    @property
    def state(self) -> str:
        request = DescribeTransactionsRequest(transactional_ids=[self.name])
        return str(self.ask(request).transaction_states[0].transaction_state)

    @property
    def written(self) -> int:
        """How many markers the partition has."""
        found = self.cluster.data.find(self.cluster.image.topics_by_name["t"].topic_id, 0)
        return 0 if found is None else found.log.log_end_offset


@pytest.fixture
def transaction() -> Transaction:
    return Transaction()


def test_no_marker_is_written_before_the_decision_is_replicated(transaction: Transaction) -> None:
    transaction.cluster.set_down({transaction.coordinator_follower_id})
    transaction.commit()
    assert transaction.written == 0
    transaction.cluster.set_down(())
    transaction.pass_time()
    assert (transaction.written, transaction.state) == (1, "CompleteCommit")


def test_a_transaction_is_complete_when_its_markers_are_replicated(transaction: Transaction) -> None:
    transaction.cluster.set_down({FOLLOWER})
    transaction.commit()
    assert (transaction.written, transaction.state) == (1, "PrepareCommit")
    transaction.cluster.set_down(())
    transaction.pass_time()
    assert (transaction.written, transaction.state) == (1, "CompleteCommit")


def test_a_leader_that_is_down_gets_its_marker_when_it_is_back(transaction: Transaction) -> None:
    transaction.cluster.set_down({LEADER})
    transaction.commit()
    assert (transaction.written, transaction.state) == (0, "PrepareCommit")
    transaction.cluster.set_down(())
    transaction.pass_time()
    assert (transaction.written, transaction.state) == (1, "CompleteCommit")
