"""Records beyond the memory budget: consumers get the same bytes, a limited number of them from the file, and Kafka's
code if the file cannot be read."""

import os
from typing import Any

import pytest

from klamm.broker.data.record_room import ENTRY_BYTES
from klamm.broker.handlers import fetch_reading as handler
from klamm.controller.data_limits import DataLimits
from klamm.protocol.errors import ErrorCode
from tests.broker.data.batches import batch
from tests.broker.handlers.data_requests import fetch, produce
from tests.broker.handlers.test_list_offsets import asked
from tests.controller.handlers.cluster import DrivenCluster

BATCHES = 30
SIZE = len(batch(10, value=bytes(200)))


def filled(**limits: int) -> DrivenCluster:
    """A topic of one partition with 30 batches of ten records."""
    cluster = DrivenCluster(1, data_limits=DataLimits(**limits))
    cluster.create_at("t", [1], [1])
    for index in range(BATCHES):
        assert produce(cluster, batch(10, value=bytes([index]) * 200, timestamp_ms=1_000 + index)).error_code == 0
    return cluster


def in_a_file() -> DrivenCluster:
    cluster = filled(memory_bytes=4 * SIZE + BATCHES * ENTRY_BYTES)
    assert cluster.data.room.file.used_bytes > 20 * SIZE
    return cluster


def cut_short(cluster: DrivenCluster) -> None:
    os.ftruncate(cluster.data.room.file._descriptor or -1, 10)


@pytest.mark.parametrize("fields", [{}, {"partition_max_bytes": 3 * SIZE}, {"max_bytes": 7 * SIZE + 1}])
def test_answers_are_the_same_as_from_memory(fields: dict[str, Any]) -> None:
    in_memory, filed = filled(), in_a_file()
    for offset in range(0, 10 * BATCHES + 1, 7):
        assert fetch(filed, offset, **fields) == fetch(in_memory, offset, **fields)


def test_an_answer_reads_a_limited_number_of_bytes_and_does_not_wait_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "MAX_FILED_BYTES", 3 * SIZE + 1)
    cluster = in_a_file()
    produce(cluster, batch(10, value=bytes(200)), partition=1)
    (found,) = fetch(cluster, 0, min_bytes=20 * SIZE, max_wait_ms=10_000)
    assert len(found.records or b"") == 3 * SIZE
    monkeypatch.setattr(handler, "MAX_FILED_BYTES", 1)
    assert len(fetch(cluster, 0, min_bytes=20 * SIZE, max_wait_ms=10_000)[0].records or b"") == SIZE, (
        "one batch at least"
    )
    (newest,) = fetch(cluster, 10 * (BATCHES - 1))
    assert len(newest.records or b"") == SIZE


def test_a_file_that_cannot_be_read_is_a_storage_error() -> None:
    cluster = in_a_file()
    cut_short(cluster)
    (found,) = fetch(cluster, 0)
    assert (found.error_code, found.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
    (newest,) = fetch(cluster, 10 * (BATCHES - 1))
    assert (newest.error_code, len(newest.records or b"")) == (0, SIZE)
    codes = [one.error_code for timestamp_ms in (1_000, -2) for one in asked(cluster, timestamp_ms, topic_name="t")]
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
