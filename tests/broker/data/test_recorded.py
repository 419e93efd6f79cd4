"""The answers of Apache Kafka 4.3 to valid and invalid batches, compared with Klamm's; this module names every
difference."""

from typing import Any

import pytest

from klamm.broker.data.partition_log import FoundOffset, PartitionLog
from klamm.broker.data.producers import ProducerStates, WrittenBatch
from klamm.broker.data.record_batches import ProducedBatch, RefusedBatch, read_produced
from klamm.protocol.errors import ApiError, ErrorCode
from tests.broker.data.batches import batch
from tests.broker.data.judging import judge
from tests.broker.data.recordings import recorded
from tests.broker.data.rooms import room

NONE = 0
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
DIFFERENCES = {
    (case, TRANSACTIONAL_ID_AUTHORIZATION_FAILED): NONE
    for case in ("transactional, no producer", "transactional, producer")
}
"""Refused because of their request, of which these tests know nothing."""


def answered(row: dict[str, Any]) -> tuple[ProducedBatch | RefusedBatch, bool]:
    """The answer to a recorded request, and whether its topic has log append times."""
    configs = row["topic_configs"]
    log_append_time = configs.get("message.timestamp.type") == "LogAppendTime"
    batch = read_produced(
        bytes.fromhex(row["records"]),
        api_version=row["api_version"],
        max_message_bytes=int(configs.get("max.message.bytes", 1048588)),
    )
    if isinstance(batch, RefusedBatch):
        return batch, log_append_time
    judged = judge(
        batch,
        now_ms=row["now_ms"],
        timestamp_before_max_ms=int(configs.get("message.timestamp.before.max.ms", 2**63 - 1)),
        log_append_time=log_append_time,
        is_compacted=configs.get("cleanup.policy") == "compact",
    )
    return judged, log_append_time


@pytest.mark.parametrize("row", recorded("produced.jsonl"), ids=lambda row: row["case"])
def test_a_batch_is_judged_as_by_kafka(row: dict[str, Any]) -> None:
    batch, log_append_time = answered(row)
    expected = DIFFERENCES.get((row["case"], row["error_code"]), row["error_code"])
    if isinstance(batch, RefusedBatch):
        assert (batch.code, bool(batch.message)) == (expected, True)
        assert [index for index, _ in batch.record_errors] == [index for index, _ in row["record_errors"]]
        assert all(reason for _, reason in batch.record_errors)
        return
    assert expected == NONE
    log = PartitionLog(room())
    appended_ms = row["log_append_time_ms"] if log_append_time else row["now_ms"]
    assert log.append(batch, 0, appended_ms, log_append_time=log_append_time) == 0
    if row["stored"] is not None:
        stored = log.read(0, 1 << 20, log.log_end_offset)
        assert stored is not None
        assert stored.hex() == row["stored"]


def test_every_difference_is_one() -> None:
    """Every named difference must occur in the recordings and in Klamm."""
    rows = {(row["case"], row["error_code"]): row for row in recorded("produced.jsonl")}
    for key, ours in DIFFERENCES.items():
        if key in rows:
            batch, _ = answered(rows[key])
            assert (batch.code if isinstance(batch, RefusedBatch) else NONE) == ours != key[1]
    assert {case for case, _ in DIFFERENCES} <= {case for case, _ in rows}


def read(data: bytes) -> ProducedBatch:
    batch = read_produced(data, api_version=11, max_message_bytes=1 << 20)
    assert isinstance(batch, ProducedBatch)
    return batch


@pytest.mark.parametrize("row", recorded("sequences.jsonl"), ids=lambda row: row["case"])
def test_sequences_are_judged_as_by_kafka(row: dict[str, Any]) -> None:
    log, producers = PartitionLog(room()), ProducerStates()
    for producer_id, producer_epoch, base_sequence, record_count, error_code, base_offset in row["steps"]:
        numbered = {"producer_id": producer_id, "producer_epoch": producer_epoch, "base_sequence": base_sequence}
        produced = read(batch(record_count, **numbered))
        judged = producers.check(produced)
        if isinstance(judged, ApiError):
            assert (judged.code, -1) == (error_code, base_offset)
        elif isinstance(judged, WrittenBatch):
            assert (0, judged.base_offset) == (error_code, base_offset)
            assert judged.last_offset == base_offset + record_count - 1
            assert judged.base_offset < log.log_end_offset
        else:
            assert (0, log.log_end_offset) == (error_code, base_offset)
            producers.append(produced, log.append(produced, 0, 5), 5)


@pytest.mark.parametrize("row", recorded("found_offsets.jsonl"), ids=lambda row: row["case"])
def test_offsets_are_found_as_by_kafka(row: dict[str, Any]) -> None:
    log = PartitionLog(room())
    log.begin_leader_epoch(0)
    for data in row["produced"]:
        log.append(read(bytes.fromhex(data)), 0, 5)
    for timestamp, error_code, offset, found_timestamp, leader_epoch in row["found"]:
        if error_code == ErrorCode.UNSUPPORTED_VERSION:
            continue  # refused because of the request, whatever the log has
        found = log.find_offset(timestamp) or FoundOffset(-1, -1, -1)
        assert found == (offset, found_timestamp, leader_epoch)


@pytest.mark.parametrize("row", recorded("clients.jsonl"), ids=lambda row: f"{row['client']} {row['codec']}")
def test_batches_of_clients_pass_untouched(row: dict[str, Any]) -> None:
    data = bytes.fromhex(row["records"])
    batch = read(data)
    assert batch.compression == ["none", "gzip", "snappy", "lz4", "zstd"].index(row["codec"])
    assert (batch.record_count, batch.last_offset_delta) == (row["record_count"], row["record_count"] - 1)
    log = PartitionLog(room())
    assert log.append(batch, 0, 5) == 0
    assert log.read(0, 1 << 20, 4) == data
    found = log.find_offset(batch.base_timestamp_ms)
    assert found is not None
    assert found.offset == 0
