"""The log in a data directory: Kafka's layout, segments, epochs across restarts, one sync for many appends."""

import json
import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.log import LogError, segment_log
from klamm.controller.log import segment_files as segment_files_module
from klamm.protocol.record_batch import decode_batches
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from tests.controller.log.logs import (
    CLUSTER_ID,
    DIRECTORY_ID,
    TIMESTAMP_MS,
    append_records,
    forget_recovery_point,
    fresh_dir,
    open_log,
    reopened,
    segment_files,
    write_log,
    written_records,
)


def open_file_count() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def topic(number: int) -> list[TopicRecord]:
    return [TopicRecord(name=f"topic-{number}", topic_id=Uuid(number.to_bytes(16, "big")))]


def test_the_directory_looks_like_kafkas(tmp_path: Path) -> None:
    data_dir = tmp_path / "not" / "yet" / "there"
    write_log(data_dir, [topic(1)])
    properties = dict(line.split("=") for line in (data_dir / "meta.properties").read_text().splitlines())
    assert properties == {
        "version": "1",
        "node.id": "3000",
        "cluster.id": CLUSTER_ID,
        "directory.id": str(DIRECTORY_ID),
    }
    log_folder = data_dir / "__cluster_metadata-0"
    assert sorted(path.name for path in log_folder.iterdir()) == [
        "00000000000000000000.log",
        "quorum-state",
        "recovery-point-checkpoint",
    ]
    # The files of a controller of Apache Kafka 4.3 that leads epoch 1 with kraft.version 0.
    assert json.loads((log_folder / "quorum-state").read_text()) == {
        "clusterId": "",
        "leaderId": 3000,
        "leaderEpoch": 1,
        "votedId": -1,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": 3000}],
        "data_version": 0,
    }


def test_a_segment_is_named_by_its_first_offset_and_a_batch_lies_in_one(tmp_path: Path) -> None:
    write_log(tmp_path, [topic(n) for n in range(20)], segment_bytes=300)
    files = segment_files(tmp_path)
    assert len(files) > 3
    offset = 0
    for path in files:
        assert path.stem == f"{offset:020}"
        assert path.stat().st_size <= 300
        for batch in decode_batches(path.read_bytes()):
            assert batch.base_offset == offset
            offset = batch.last_offset + 1
    assert offset == 21


def test_a_batch_larger_than_a_segment_has_one_to_itself(tmp_path: Path) -> None:
    large = [record for number in range(100) for record in topic(number)]
    write_log(tmp_path, [topic(1), large, topic(2)], segment_bytes=300)
    assert [path.stem[-3:] for path in segment_files(tmp_path)] == ["000", "002", "102"]
    assert reopened(tmp_path) == [topic(1), large, topic(2)]


def test_a_batch_larger_than_what_is_read_at_once_is_read(tmp_path: Path) -> None:
    large = [TopicRecord(name="x" * 30_000, topic_id=Uuid(bytes(16))) for _ in range(100)]
    write_log(tmp_path, [topic(1), large, topic(2), large])
    assert reopened(tmp_path) == [topic(1), large, topic(2), large]


def test_every_start_is_a_new_epoch_and_keeps_the_ids(tmp_path: Path) -> None:
    for start in range(1, 5):
        log = open_log(tmp_path, timestamp_ms=TIMESTAMP_MS + start, segment_bytes=300)
        assert log.leader_epoch == start
        assert append_records(log, topic(start), TIMESTAMP_MS)[0] == 2 * start - 1
        assert (log.cluster_id, log.directory_id) == (CLUSTER_ID, DIRECTORY_ID)
        log.close()
    log = open_log(tmp_path)
    assert [(batch.leader_epoch, batch.is_control) for batch in log.read()] == [
        (epoch, is_control) for epoch in range(1, 5) for is_control in (True, False)
    ] + [(5, True)]
    assert [batch.timestamp_ms - TIMESTAMP_MS for batch in log.read() if batch.is_control] == [1, 2, 3, 4, 0]
    log.close()


def test_an_epoch_is_not_used_again_when_the_log_lost_it(tmp_path: Path) -> None:
    """Brokers may have seen epoch 3; with epoch 2 they would never follow again."""
    for _ in range(3):
        open_log(tmp_path).close()
    (segment,) = segment_files(tmp_path)
    os.truncate(segment, 91)
    forget_recovery_point(tmp_path)
    log = open_log(tmp_path)
    assert log.leader_epoch == 4
    assert [batch.leader_epoch for batch in log.read()] == [1, 4]
    log.close()


def test_a_log_without_quorum_state_is_believed(tmp_path: Path) -> None:
    for _ in range(3):
        open_log(tmp_path).close()
    (tmp_path / "__cluster_metadata-0" / "quorum-state").unlink()
    log = open_log(tmp_path)
    assert log.leader_epoch == 4
    log.close()


def test_two_appends_share_one_sync(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert append_records(log, topic(1), TIMESTAMP_MS) == (1, 1)
    assert append_records(log, topic(2), TIMESTAMP_MS) == (2, 2)
    assert (log.durable_offset, log.end_offset) == (1, 3)
    log.sync()
    assert log.durable_offset == log.end_offset == 3
    log.close()


def test_a_sync_reaches_every_segment_written_since_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test observes the system call without replacing it: which files it was called for, and which offset was
    durable then."""
    synced: list[tuple[str, int]] = []

    def watch(fd: int) -> None:
        os.fdatasync(fd)
        synced.append((Path(f"/proc/self/fd/{fd}").readlink().stem[-2:], log.durable_offset))

    log = open_log(tmp_path, segment_bytes=150)
    monkeypatch.setattr(segment_log, "_sync_data", watch)
    for number in range(1, 4):
        append_records(log, topic(number), TIMESTAMP_MS)
    log.sync()
    assert synced == [("01", 1), ("02", 1), ("03", 1)]
    log.sync()
    assert len(synced) == 3
    append_records(log, topic(4), TIMESTAMP_MS)
    log.sync()
    assert synced[3:] == [("04", 4)]
    log.close()


def test_files_of_full_segments_are_let_go(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=100)
    open_files = []
    for number in range(30):
        append_records(log, topic(number), TIMESTAMP_MS)
        log.sync()
        open_files.append(open_file_count())
    assert len(segment_files(tmp_path)) == 31
    assert max(open_files) - min(open_files) <= 1
    log.close()
    assert open_file_count() < min(open_files)


def test_the_file_before_a_new_segment_is_let_go_when_it_is_durable(tmp_path: Path) -> None:
    """A snapshot rolls the log. The segment before it is not durable then, and no other segment follows soon."""
    log = open_log(tmp_path)
    before = open_file_count()
    append_records(log, topic(1), TIMESTAMP_MS)
    log.begin_snapshot(roll=True)
    append_records(log, topic(2), TIMESTAMP_MS)
    assert open_file_count() == before + 1
    log.sync()
    append_records(log, topic(3), TIMESTAMP_MS)
    assert open_file_count() == before
    log.close()


def test_appends_go_on_while_a_thread_syncs_and_segments_roll(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=500)
    promised: list[tuple[int, int]] = []
    finished = threading.Event()

    def sync_until_finished() -> None:
        while not finished.is_set():
            before = log.end_offset
            log.sync()
            promised.append((before, log.durable_offset))

    worker = threading.Thread(target=sync_until_finished)
    worker.start()
    for number in range(2000):
        append_records(log, topic(number), TIMESTAMP_MS)
    finished.set()
    worker.join()
    assert all(before <= durable for before, durable in promised)
    assert promised == sorted(promised)
    log.sync()
    assert log.durable_offset == log.end_offset == 2001
    log.close()
    assert reopened(tmp_path) == [topic(number) for number in range(2000)]


@given(st.lists(st.sampled_from(["append", "sync", "restart"]), max_size=25), st.integers(1, 500))
def test_any_order_of_appends_syncs_and_restarts_keeps_everything(steps: list[str], segment_bytes: int) -> None:
    with fresh_dir() as data_dir:
        log = open_log(data_dir, segment_bytes=segment_bytes)
        appended, starts = 0, 1
        for step in steps:
            if step == "append":
                append_records(log, topic(appended), TIMESTAMP_MS)
                appended += 1
            elif step == "sync":
                log.sync()
            else:
                log.close()
                log = open_log(data_dir, segment_bytes=segment_bytes)
                starts += 1
            assert log.durable_offset <= log.end_offset == appended + starts
            assert step == "append" or log.durable_offset == log.end_offset
        assert log.leader_epoch == starts
        assert written_records(log) == [topic(number) for number in range(appended)]
        log.close()


def test_a_failed_sync_ends_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed fsync the kernel may have dropped the pages: a later one that succeeds would prove nothing."""

    def fail(_fd: int) -> None:
        raise OSError(5, "Input/output error")

    log = open_log(tmp_path)
    append_records(log, topic(1), TIMESTAMP_MS)
    monkeypatch.setattr(segment_log, "_sync_data", fail)
    with pytest.raises(LogError, match=r"cannot sync .*00\.log: Input/output error$"):
        log.sync()
    monkeypatch.undo()
    assert log.durable_offset == 1
    for refused in (log.sync, lambda: append_records(log, topic(2), TIMESTAMP_MS), lambda: list(log.read())):
        with pytest.raises(LogError, match="cannot sync"):
            refused()
    log.close()
    assert reopened(tmp_path) == [topic(1)]


def test_a_start_whose_sync_fails_leaves_no_file_open_and_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(segment_log, "_sync_data", fail)
    before = open_file_count()
    with pytest.raises(LogError, match=r"cannot sync .*00\.log: Input/output error$"):
        open_log(tmp_path)
    assert open_file_count() == before
    monkeypatch.undo()
    assert reopened(tmp_path) == []


@pytest.mark.parametrize(("spare_bytes", "begun"), [(-1, [0, 3]), (0, [0, 4]), (1, [0, 4])])
def test_a_segment_is_full_when_no_byte_is_left(tmp_path: Path, spare_bytes: int, begun: list[int]) -> None:
    write_log(tmp_path / "measured", [topic(n) for n in range(3)])
    (measured,) = segment_files(tmp_path / "measured")
    segment_bytes = measured.stat().st_size + spare_bytes
    write_log(tmp_path / "data", [topic(n) for n in range(4)], segment_bytes=segment_bytes)
    assert [int(path.stem) for path in segment_files(tmp_path / "data")] == begun


def test_others_may_read_what_is_written_and_not_write_it(tmp_path: Path) -> None:
    """A backup runs as another user. The umask of the process removes permissions and adds none."""
    before = os.umask(0)
    try:
        write_log(tmp_path, [topic(n) for n in range(3)], segment_bytes=100)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in (*segment_files(tmp_path), tmp_path / ".lock")} == {0o644}


@pytest.mark.parametrize("read_bytes", [1, 1 << 20])
@pytest.mark.parametrize("before", range(1, 8))
@pytest.mark.parametrize("segment_bytes", [1, 400])
def test_a_reader_gets_what_was_there_when_it_began_however_the_segments_grow_and_roll(
    tmp_path: Path, segment_bytes: int, before: int, read_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_files_module, "_WINDOW_BYTES", read_bytes)
    log = open_log(tmp_path, segment_bytes=segment_bytes)
    for number in range(1, before):
        append_records(log, topic(number), TIMESTAMP_MS)
    reading = log.read()
    next(reading)
    for number in range(before, before + 6):
        append_records(log, topic(number), TIMESTAMP_MS)
    assert [batch.base_offset for batch in reading] == list(range(1, before))
    assert [batch.base_offset for batch in log.read()] == list(range(before + 6))
    log.close()
