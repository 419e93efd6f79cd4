"""Simulated brokers ask the coordinator on a real broker before they write for a transaction (KIP-890). The real broker
is a script behind a socket."""

import io
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from klamm.protocol.api import Api
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data import fetch, produce
from klamm.protocol.messages.groups import find_coordinator
from klamm.protocol.messages.topics import metadata
from klamm.protocol.messages.transactions import add_partitions_to_txn, write_txn_markers
from klamm.protocol.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from klamm.server.server import Server
from tests.behaviour.player import Line
from tests.broker.data.batches import TRANSACTIONAL, batch
from tests.server.mixed_clusters import REAL, RealBroker
from tests.server.mixed_clusters import mixed as mixed_with

ADDS, VERIFIES = 12, 11
"""Versions of Produce."""


@pytest.fixture
def clock() -> MockClock:
    """Time passes when nothing else happens; not at once, since sockets may need a moment."""
    return MockClock(autojump_threshold=0.003)


class Coordinator(RealBroker):
    """A real broker that answers AddPartitionsToTxn as `code` says."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[AddPartitionsToTxnTransaction] = []
        self.code = 0
        self.whole = ErrorCode.NONE

    @property
    def served(self) -> Mapping[Api[Any, Any], int]:
        return {add_partitions_to_txn.API: 5}

    def answer(self, _api: object, request: Any) -> AddPartitionsToTxnResponse:
        assert isinstance(request, add_partitions_to_txn.AddPartitionsToTxnRequest)
        self.asked += request.transactions
        return self._answer(request)

    def _answer(self, request: add_partitions_to_txn.AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        if self.whole:
            return AddPartitionsToTxnResponse(error_code=self.whole)
        results = []
        for transaction in request.transactions:
            topics = [
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=self.code)
                        for index in topic.partitions
                    ],
                )
                for topic in transaction.topics
            ]
            results.append(
                AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=topics)
            )
        return AddPartitionsToTxnResponse(results_by_transaction=results)


@asynccontextmanager
async def mixed(real: Coordinator | None = None) -> AsyncIterator[tuple[Server, Line, Coordinator, io.StringIO]]:
    """A simulated broker with the topic `t`, and a real one that has the transactional ids."""
    coordinator = real or Coordinator()
    async with mixed_with(coordinator, {"transaction.state.log.num.partitions": 1}) as (server, line, stderr):
        find = find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=["id"])
        await line.ask(find_coordinator.API, 6, find)
        (found,) = (await line.ask(find_coordinator.API, 6, find)).coordinators
        assert found.node_id == REAL
        yield server, line, coordinator, stderr


async def write(
    line: Line,
    version: int = ADDS,
    *partitions: int,
    sequence: int = 0,
    timeout_ms: int = 30_000,
    producer_id: int = 7,
) -> list[int]:
    """Write a batch of a transaction to each partition; returns the codes."""
    records = batch(1, attributes=TRANSACTIONAL, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    request = produce.ProduceRequest(
        transactional_id="id",
        acks=-1,
        timeout_ms=timeout_ms,
        topic_data=[
            produce.TopicProduceData(
                name="t",
                partition_data=[produce.PartitionProduceData(index=at, records=records) for at in partitions or (0,)],
            )
        ],
    )
    response = await line.ask(produce.API, version, request)
    return [one.error_code for one in response.responses[0].partition_responses]


async def test_a_batch_is_written_when_the_real_coordinator_has_added_its_partition(clock: MockClock) -> None:
    async with mixed() as (_, line, coordinator, _stderr):
        assert await write(line, ADDS, 0, 1) == [0, 0]
        (asked,) = coordinator.asked
        assert (asked.transactional_id, asked.producer_id, asked.producer_epoch, asked.verify_only) == (
            "id",
            7,
            0,
            False,
        )
        assert [(topic.name, list(topic.partitions)) for topic in asked.topics] == [("t", [0, 1])]
        assert await write(line, ADDS, sequence=1) == [0]
        assert len(coordinator.asked) == 1  # the transaction is open in the partition
        assert coordinator.connections == 1


async def test_older_clients_have_added_it_and_it_is_only_verified(clock: MockClock) -> None:
    async with mixed() as (_, line, coordinator, _stderr):
        assert await write(line, VERIFIES) == [0]
        assert [one.verify_only for one in coordinator.asked] == [True]


@pytest.mark.parametrize(("code", "version", "expected"), [
    (ErrorCode.INVALID_TXN_STATE, ADDS, ErrorCode.INVALID_TXN_STATE),
    (ErrorCode.PRODUCER_FENCED, ADDS, ErrorCode.INVALID_PRODUCER_EPOCH),
    (ErrorCode.NOT_COORDINATOR, ADDS, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.CONCURRENT_TRANSACTIONS, VERIFIES, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.CONCURRENT_TRANSACTIONS, ADDS, ErrorCode.CONCURRENT_TRANSACTIONS),
    (9_999, ADDS, ErrorCode.UNKNOWN_SERVER_ERROR),
])  # fmt: skip
async def test_an_error_of_the_coordinator_is_that_of_the_batch(
    clock: MockClock, code: int, version: int, expected: ErrorCode
) -> None:
    async with mixed() as (_, line, coordinator, _stderr):
        coordinator.code = code
        assert await write(line, version) == [expected]
        coordinator.code = ErrorCode.NONE
        assert await write(line, version) == [0]  # nothing was written before


async def test_an_error_of_the_whole_answer_is_that_of_each_batch(clock: MockClock) -> None:
    async with mixed() as (_, line, coordinator, _stderr):
        coordinator.whole = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert await write(line, ADDS, 0, 1) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2


@pytest.mark.parametrize("damage", [
    lambda _: None,
    lambda answer: answer[:4] + b"\0\0\0\x7f" + answer[8:],
    lambda answer: answer[:3] + b"\5" + answer[4:9],
    lambda _: b"\x7f\xff\xff\xff",
])  # fmt: skip
async def test_a_coordinator_that_answers_badly_is_one_that_is_not_there(
    clock: MockClock, damage: Callable[[bytes], bytes | None]
) -> None:
    async with mixed() as (_, line, coordinator, stderr):
        coordinator.answers = damage
        assert await write(line) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        assert "a real broker gives no answer" in stderr.getvalue()
        coordinator.answers = lambda answer: answer
        assert await write(line) == [0]
        assert coordinator.connections == 2  # another connection


async def test_a_coordinator_that_never_answers_delays_its_request_alone(clock: MockClock) -> None:
    async with mixed() as (server, line, coordinator, _stderr):
        coordinator.answers = lambda _: b""
        started = trio.current_time()
        assert await write(line, timeout_ms=1_000) == [ErrorCode.REQUEST_TIMED_OUT]
        assert trio.current_time() - started == pytest.approx(1, abs=0.2)
        other = await Line.open(server.bootstrap_servers)
        started = trio.current_time()
        assert (await other.ask(metadata.API, 12, metadata.MetadataRequest(topics=()))).error_code == 0
        assert trio.current_time() - started < 0.1
        await other.close()
        await trio.sleep(6)  # that request is given up, and the next one is answered
        coordinator.answers = lambda answer: answer
        assert await write(line) == [0]


async def test_a_request_has_the_newest_version_that_both_sides_know(clock: MockClock) -> None:
    class Older(Coordinator):
        @property
        def served(self) -> Mapping[Api[Any, Any], int]:
            return {add_partitions_to_txn.API: 4}

    for real, version in ((Coordinator(), 5), (Older(), 4)):
        async with mixed(real) as (_, line, coordinator, _stderr):
            assert await write(line) == [0]
            assert coordinator.asked_versions == [version]


async def test_a_broker_that_does_not_serve_the_api_is_one_that_is_not_there(clock: MockClock) -> None:
    class Lacking(Coordinator):
        @property
        def served(self) -> Mapping[Api[Any, Any], int]:
            return {}

    async with mixed(Lacking()) as (_, line, coordinator, stderr):
        assert await write(line) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        assert coordinator.asked_versions == []
        assert "AddPartitionsToTxn" in stderr.getvalue()


async def test_the_markers_of_the_real_coordinator_end_the_transaction(clock: MockClock) -> None:
    async with mixed() as (server, line, _coordinator, _stderr):
        assert await write(line) == [0]
        topic_id = server.brokers.controller.image.topics_by_name["t"].topic_id

        async def stable() -> int:
            partition = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
            topic = fetch.FetchTopic(topic_id=topic_id, partitions=[partition])
            request = fetch.FetchRequest(isolation_level=1, max_bytes=1 << 20, topics=[topic])
            found = await line.ask(fetch.API, 17, request)
            offset: int = found.responses[0].partitions[0].last_stable_offset
            return offset

        assert await stable() == 0
        marker = write_txn_markers.WritableTxnMarker(
            producer_id=7,
            producer_epoch=0,
            transaction_result=True,
            topics=[write_txn_markers.WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        )
        request = write_txn_markers.WriteTxnMarkersRequest(markers=[marker])
        answer = await line.ask(write_txn_markers.API, 1, request)
        assert answer.markers[0].topics[0].partitions[0].error_code == 0
        assert await stable() == 2
