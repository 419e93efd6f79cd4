"""Requests about records use the configs of the broker that receives them."""

from collections.abc import Callable

import pytest

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from klamm.protocol.messages.transactions.init_producer_id import InitProducerIdRequest
from tests.broker.data.batches import batch
from tests.broker.handlers.data_requests import fetch, produce
from tests.controller.handlers.cluster import START_MS, DrivenCluster

LARGE = batch(value=bytes(2_000))
SIZE = len(LARGE)


def produce_large(cluster: DrivenCluster, broker_id: int) -> int:
    return produce(cluster, LARGE, partition=broker_id - 1, broker_id=broker_id).error_code


def produce_ahead_of_time(cluster: DrivenCluster, broker_id: int) -> int:
    early = batch(timestamp_ms=START_MS + 1_000)
    return produce(cluster, early, partition=broker_id - 1, broker_id=broker_id).error_code


def produce_without_keys(cluster: DrivenCluster, broker_id: int) -> int:
    keyless = batch([b"\x0c\0\0\0\1\0\0"])
    return produce(cluster, keyless, partition=broker_id - 1, broker_id=broker_id).error_code


def delete(cluster: DrivenCluster, broker_id: int) -> int:
    partitions = [DeleteRecordsPartition(partition_index=broker_id - 1, offset=0)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=partitions)])
    code: int = cluster.ask(request, broker_id=broker_id).topics[0].partitions[0].error_code
    return code


def begin_transactions(cluster: DrivenCluster, broker_id: int, *, enable2_pc: bool = False) -> int:
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1_000, enable2_pc=enable2_pc)
    code: int = cluster.ask(request, broker_id=broker_id, version=6).error_code
    return code


def begin_two_phases(cluster: DrivenCluster, broker_id: int) -> int:
    return begin_transactions(cluster, broker_id, enable2_pc=True)


def fetch_all(cluster: DrivenCluster, broker_id: int) -> int:
    """How many batches of three."""
    for _ in range(3):
        assert produce_large(cluster, broker_id) == 0
    (found,) = fetch(cluster, 0, partition=broker_id - 1, broker_id=broker_id)
    return len(found.records or b"") // SIZE


CASES: list[tuple[Callable[[DrivenCluster, int], int], str, str, int, int]] = [
    (produce_large, "message.max.bytes", str(SIZE - 1), ErrorCode.MESSAGE_TOO_LARGE, 0),
    (produce_large, "message.max.bytes", str(SIZE), 0, 0),
    (produce_ahead_of_time, "log.message.timestamp.after.max.ms", "999", ErrorCode.INVALID_TIMESTAMP, 0),
    (produce_ahead_of_time, "log.message.timestamp.after.max.ms", "1000", 0, 0),
    (produce_without_keys, "log.cleanup.policy", "compact", ErrorCode.INVALID_RECORD, 0),
    (delete, "log.cleanup.policy", "compact", ErrorCode.POLICY_VIOLATION, 0),
    (delete, "log.cleanup.policy", "compact,delete", 0, 0),
    (fetch_all, "fetch.max.bytes", str(2 * SIZE), 2, 3),
    (
        begin_transactions,
        "transaction.max.timeout.ms",
        "999",
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.NOT_COORDINATOR,
    ),
    (begin_transactions, "transaction.max.timeout.ms", "1000", ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
    (
        begin_two_phases,
        "transaction.two.phase.commit.enable",
        "true",
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
]


@pytest.mark.parametrize(("ask", "name", "value", "with_it", "without"), CASES)
def test_the_configs_of_the_broker_that_is_asked_count(
    ask: Callable[[DrivenCluster, int], int], name: str, value: str, with_it: int, without: int
) -> None:
    """Broker 1 leads partition 0, and broker 2 partition 1."""
    cluster = DrivenCluster(2, broker_configs={1: {name: value}})
    assert cluster.create_at("t", [1, 2], [2, 1]).error_code == 0
    assert (ask(cluster, 1), ask(cluster, 2)) == (with_it, without)
