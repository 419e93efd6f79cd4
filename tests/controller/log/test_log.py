"""The common behaviour of both logs: batches are read as they were appended, without gaps, in an epoch that was
announced."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.log import LogError, MemoryLog, MetadataLog
from klamm.protocol.errors import ProtocolError
from klamm.protocol.fields import Message
from klamm.protocol.records.control import LeaderChangeMessage, Voter
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from tests.controller.log.logs import (
    CLUSTER_ID,
    DIRECTORY_ID,
    TIMESTAMP_MS,
    append_records,
    appends,
    data_batches,
    fresh_dir,
    open_log,
    segment_files,
    written_records,
)

ONE_TOPIC = [TopicRecord(name="one", topic_id=Uuid(bytes(range(16))))]


def memory_log(max_log_bytes: int = 1 << 20) -> MemoryLog:
    return MemoryLog(CLUSTER_ID, DIRECTORY_ID, TIMESTAMP_MS, max_log_bytes=max_log_bytes)


@pytest.fixture(params=["memory", "segments"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MetadataLog]:
    made: MetadataLog = memory_log() if request.param == "memory" else open_log(tmp_path / "data")
    yield made
    made.close()


def test_a_new_log_begins_epoch_1_with_a_leader_change(log: MetadataLog) -> None:
    (batch,) = log.read()
    voter = Voter(voter_id=3000)
    assert batch.is_control
    assert batch.records == [LeaderChangeMessage(leader_id=3000, voters=[voter], granting_voters=[voter])]
    assert (batch.base_offset, batch.leader_epoch, batch.timestamp_ms) == (0, 1, TIMESTAMP_MS)
    assert (log.leader_epoch, log.end_offset, log.durable_offset) == (1, 1, 1)
    assert (log.cluster_id, log.directory_id) == (CLUSTER_ID, DIRECTORY_ID)


def test_what_is_appended_while_reading_is_not_read(log: MetadataLog) -> None:
    append_records(log, ONE_TOPIC, TIMESTAMP_MS)
    reading = log.read()
    next(reading)
    append_records(log, ONE_TOPIC, TIMESTAMP_MS)
    assert [batch.base_offset for batch in reading] == [1]


def test_a_closed_log_refuses_everything_but_another_close(log: MetadataLog) -> None:
    log.close()
    for refused in (
        lambda: append_records(log, ONE_TOPIC, 1),
        log.sync,
        lambda: list(log.read()),
        lambda: log.begin_snapshot(roll=False),
    ):
        with pytest.raises(LogError, match="closed"):
            refused()
    log.close()


def test_records_that_have_no_bytes_leave_no_trace(log: MetadataLog) -> None:
    for unwritable in ([], [TopicRecord(name="\ud800")]):
        with pytest.raises((ProtocolError, ValueError)):
            append_records(log, unwritable, TIMESTAMP_MS)
    assert append_records(log, ONE_TOPIC, TIMESTAMP_MS) == (1, 1)
    assert written_records(log) == [ONE_TOPIC]


@given(st.lists(st.tuples(appends, st.integers(0, 2**62)), max_size=6), st.integers(1, 400))
def test_batches_come_back_as_they_went_in(batches: list[tuple[Sequence[Message], int]], segment_bytes: int) -> None:
    with fresh_dir() as data_dir:
        both: list[MetadataLog] = [memory_log(), open_log(data_dir, segment_bytes=segment_bytes)]
        for log in both:
            expected_offset = 1
            for records, timestamp_ms in batches:
                first_and_last = (expected_offset, expected_offset + len(records) - 1)
                assert append_records(log, records, timestamp_ms) == first_and_last
                expected_offset += len(records)
                assert log.end_offset == expected_offset
            read = data_batches(log)
            assert [(list(batch.records), batch.timestamp_ms) for batch in read] == [
                (list(records), timestamp_ms) for records, timestamp_ms in batches
            ]
            assert {batch.leader_epoch for batch in read} <= {1}
            log.close()


@given(st.lists(appends, max_size=6), st.integers(1, 400))
def test_both_logs_keep_the_same_bytes(batches: list[Sequence[Message]], segment_bytes: int) -> None:
    """Segments are parts of one stream of bytes, which is the log in memory."""
    with fresh_dir() as data_dir:
        in_memory, on_disk = memory_log(), open_log(data_dir, segment_bytes=segment_bytes)
        for records in batches:
            append_records(in_memory, records, TIMESTAMP_MS)
            append_records(on_disk, records, TIMESTAMP_MS)
        on_disk.close()
        assert b"".join(path.read_bytes() for path in segment_files(data_dir)) == in_memory.log_bytes()


def test_a_log_in_memory_has_a_limit_and_ends_at_it() -> None:
    log = memory_log(max_log_bytes=1000)
    leader_change = len(log.log_bytes())
    append_records(log, ONE_TOPIC, TIMESTAMP_MS)
    batch = len(log.log_bytes()) - leader_change
    for _ in range((1000 - leader_change) // batch - 1):
        append_records(log, ONE_TOPIC, TIMESTAMP_MS)
    kept = log.log_bytes()
    assert 1000 - batch < len(kept) <= 1000
    for refused in (lambda: append_records(log, ONE_TOPIC, TIMESTAMP_MS), log.sync):
        with pytest.raises(LogError, match=r"limit of 1000$"):
            refused()
    assert log.log_bytes() == kept


@pytest.mark.parametrize("missing_bytes", [0, 1])
def test_a_log_in_memory_takes_a_batch_that_just_fits(missing_bytes: int) -> None:
    sizing = memory_log()
    append_records(sizing, ONE_TOPIC, TIMESTAMP_MS)
    log = memory_log(max_log_bytes=len(sizing.log_bytes()) - missing_bytes)
    if missing_bytes:
        with pytest.raises(LogError, match="beyond its limit"):
            append_records(log, ONE_TOPIC, TIMESTAMP_MS)
    else:
        append_records(log, ONE_TOPIC, TIMESTAMP_MS)
        assert log.log_bytes() == sizing.log_bytes()
