"""Snapshots and the log after them: after any change of the files a start finds everything, or its error names what is
missing."""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from klamm.controller.log import LogError
from klamm.controller.log.snapshot_files import SYNC_BYTES, check_snapshot
from klamm.controller.metadata_log import SnapshotFailed
from klamm.protocol.record_batch import decode_batches
from klamm.protocol.records.configs import ConfigRecord
from klamm.protocol.records.control import SnapshotFooterRecord, SnapshotHeaderRecord
from klamm.protocol.records.topics import RemoveTopicRecord, TopicRecord
from tests.controller.cluster_states import registration, unfence, uuid_of
from tests.controller.log.controllers import (
    ALL,
    BEGIN,
    FOLDER,
    Cluster,
    files,
    names_after,
    snapshot_files,
    started,
    three_snapshots,
)
from tests.controller.log.logs import TIMESTAMP_MS, append_records, fresh_dir, open_log, segment_files
from tools.power_loss.disk import Disk, Killed


def test_a_snapshot_is_what_kafka_writes(tmp_path: Path) -> None:
    """Like a snapshot of a real 4.3 controller: header, data, footer; offsets from 0; the epoch of the last record."""
    with started(tmp_path):
        pass
    with started(tmp_path) as cluster:
        cluster.topic(1)
        cluster.snapshot()
    (path,) = (tmp_path / FOLDER).glob("*.checkpoint")
    assert path.name == f"{BEGIN + 2:020}-0000000002.checkpoint"
    header, data, footer = decode_batches(path.read_bytes())
    assert [batch.is_control for batch in (header, data, footer)] == [True, False, True]
    assert {batch.leader_epoch for batch in (header, data, footer)} == {2}
    assert {batch.timestamp_ms for batch in (header, data, footer)} == {TIMESTAMP_MS}
    assert header.records == [SnapshotHeaderRecord(version=0, last_contained_log_timestamp=TIMESTAMP_MS)]
    assert footer.records == [SnapshotFooterRecord(version=0)]
    assert header.base_offset == 0
    assert data.base_offset == 1
    assert footer.base_offset == data.last_offset + 1
    assert check_snapshot(snapshot_files(tmp_path)[0]).record_count == footer.last_offset + 1


def test_a_start_reads_the_newest_snapshot_and_what_is_behind_it(tmp_path: Path) -> None:
    three_snapshots(tmp_path)
    with started(tmp_path) as cluster:
        assert cluster.names() == ALL
        assert cluster.log.snapshot is not None
        assert cluster.log.snapshot.end_offset == BEGIN + 5
        assert [batch.base_offset for batch in cluster.log.read()] == [BEGIN + 5, BEGIN + 6, BEGIN + 7]
        assert cluster.controller.image.next_offset == BEGIN + 7


def test_a_closed_log_refuses_to_read_its_snapshot(tmp_path: Path) -> None:
    three_snapshots(tmp_path)
    with started(tmp_path) as cluster:
        pass
    with pytest.raises(LogError, match="the log is closed"):
        cluster.log.read_snapshot()


def test_two_snapshots_stay_and_the_log_behind_the_older_one(tmp_path: Path) -> None:
    three_snapshots(tmp_path)
    older, newer = BEGIN + 3, BEGIN + 5
    assert files(tmp_path) == [f"{older}.checkpoint", f"{older}.log", f"{newer}.checkpoint", f"{newer}.log"]


def test_of_a_log_in_many_segments_all_stay_that_the_older_snapshot_needs(tmp_path: Path) -> None:
    with started(tmp_path, segment_bytes=100) as cluster:
        for number in range(1, 8):
            cluster.topic(number)
            if number in (3, 6):
                cluster.snapshot()
    older, newer = BEGIN + 3, BEGIN + 6
    assert [path.name for path in segment_files(tmp_path)] == [f"{n:020}.log" for n in range(older, newer + 1)]
    assert [snapshot.end_offset for snapshot in snapshot_files(tmp_path)] == [older, newer]
    snapshot_files(tmp_path)[-1].path.unlink()
    assert names_after(tmp_path) == ALL


def test_a_start_at_the_end_of_a_snapshot_is_at_its_offset(tmp_path: Path) -> None:
    """Not at an offset inside of the snapshot, which has fewer records because removed things are not in it."""
    with started(tmp_path) as cluster:
        cluster.topic(1)
        cluster.write(RemoveTopicRecord(topic_id=uuid_of(1)))
        cluster.snapshot()
    with started(tmp_path) as cluster:
        assert cluster.controller.image.next_offset == BEGIN + 2
        assert cluster.controller.log_end_offset == BEGIN + 3  # the epoch has begun


def test_one_snapshot_alone_drops_nothing(tmp_path: Path) -> None:
    with started(tmp_path) as cluster:
        cluster.topic(1)
        cluster.snapshot()
        cluster.topic(2)
    assert files(tmp_path) == ["0.log", f"{BEGIN + 1}.checkpoint", f"{BEGIN + 1}.log"]


def test_a_log_that_does_not_roll_keeps_its_history(tmp_path: Path) -> None:
    for number in range(1, 5):
        with started(tmp_path) as cluster:
            cluster.topic(number)
            cluster.snapshot(roll=False)
    ends = [snapshot.end_offset for snapshot in snapshot_files(tmp_path)]
    assert files(tmp_path) == ["0.log", *(f"{end}.checkpoint" for end in ends)]
    assert len(ends) == 2
    assert names_after(tmp_path) == ["t1", "t2", "t3", "t4"]


def test_a_log_that_is_to_roll_rolls_though_another_snapshot_was_begun_since(tmp_path: Path) -> None:
    with started(tmp_path) as cluster:
        cluster.topic(1)
        cluster.snapshot(roll=True)
        cluster.log.begin_snapshot(roll=False)
        cluster.topic(2)
        cluster.topic(3)
    assert files(tmp_path) == ["0.log", f"{BEGIN + 1}.checkpoint", f"{BEGIN + 1}.log"]


def test_with_its_history_kept_a_log_never_gets_shorter(tmp_path: Path) -> None:
    with started(tmp_path, keep_history=True) as cluster:
        for number in range(1, 5):
            cluster.topic(number)
            cluster.snapshot()
        assert len(segment_files(tmp_path)) == 4
        assert len(snapshot_files(tmp_path)) == 4
    for path in (tmp_path / FOLDER).glob("*.checkpoint"):
        path.unlink()
    assert names_after(tmp_path) == ["t1", "t2", "t3", "t4"]


def test_a_snapshot_may_end_inside_of_a_segment(tmp_path: Path) -> None:
    with started(tmp_path) as cluster:
        cluster.topic(1)
        cluster.snapshot(roll=False)
        cluster.topic(2)
    assert files(tmp_path) == ["0.log", f"{BEGIN + 1}.checkpoint"]
    with started(tmp_path) as cluster:
        assert [batch.base_offset for batch in cluster.log.read()] == [BEGIN + 1, BEGIN + 2]
        assert cluster.names() == ["t1", "t2"]


def test_a_topic_that_is_gone_is_not_in_a_snapshot(tmp_path: Path) -> None:
    with started(tmp_path) as cluster:
        cluster.topic(1)
        cluster.write(RemoveTopicRecord(topic_id=uuid_of(1)), registration(1), unfence(1))
        cluster.snapshot()
        before = cluster.facts()
    with started(tmp_path) as cluster:
        assert cluster.facts() == before


def test_a_snapshot_never_says_more_than_what_is_durable_in_the_log(tmp_path: Path) -> None:
    with started(tmp_path) as cluster:
        cluster.controller._commit([TopicRecord(name="t", topic_id=uuid_of(1))])
        with pytest.raises(SnapshotFailed, match="durable"):
            cluster.snapshot()
        assert files(tmp_path) == ["0.log"]
        cluster.log.sync()
        cluster.snapshot()
        assert len(snapshot_files(tmp_path)) == 1


def test_a_snapshot_that_cannot_be_written_leaves_no_trace_and_the_log_goes_on(tmp_path: Path) -> None:
    with started(tmp_path) as cluster:
        cluster.topic(1)
        place = cluster.log.begin_snapshot(roll=True)
        in_the_way = tmp_path / FOLDER / f"{BEGIN + 1:020}-0000000001.checkpoint"
        in_the_way.mkdir()
        with pytest.raises(SnapshotFailed, match="cannot write"):
            place.write([[TopicRecord(name="t", topic_id=uuid_of(1))]], TIMESTAMP_MS)
        in_the_way.rmdir()
        assert files(tmp_path) == ["0.log"]
        assert cluster.log.snapshot is None
        cluster.topic(2)
    assert names_after(tmp_path) == ["t1", "t2"]


def test_a_crash_amid_writing_leaves_no_snapshot(tmp_path: Path) -> None:
    cluster = Cluster(open_log(tmp_path))
    cluster.topic(1)
    place = cluster.log.begin_snapshot(roll=True)
    disk = Disk(tmp_path)

    def dying() -> Iterator[list[TopicRecord]]:
        yield [TopicRecord(name="t1", topic_id=uuid_of(1))]
        disk.kill_before(0)
        raise Killed

    with disk.watched(), pytest.raises(Killed):
        place.write(dying(), TIMESTAMP_MS)
    cluster.log.close()
    assert [name for name in files(tmp_path) if not name.endswith(".log")] == [f"{BEGIN + 1}.part"]
    assert names_after(tmp_path) == ["t1"]
    assert files(tmp_path) == ["0.log"]


def test_a_crash_between_any_two_steps_of_a_snapshot_loses_nothing() -> None:
    with fresh_dir() as whole:
        with started(whole) as cluster:
            for number in range(1, 5):
                cluster.topic(number)
                cluster.snapshot()
            cluster.topic(5)
            before = cluster.facts()
        seen, step, is_over = set(), 0, False
        while not is_over:
            with fresh_dir() as data_dir:
                shutil.copytree(whole, data_dir)
                cluster, disk = Cluster(open_log(data_dir)), Disk(data_dir)
                disk.kill_before(step)
                with disk.watched(), suppress(Killed):
                    cluster.snapshot()
                    cluster.topic(6)
                    cluster.snapshot()
                    is_over = True
                cluster.log.close()
                seen.add(tuple(files(data_dir)))
                with started(data_dir) as cluster:
                    found = cluster.facts()
                    if "t6" in cluster.names():
                        cluster.write(RemoveTopicRecord(topic_id=uuid_of(6)))
                    assert cluster.facts() == before, (step, found)
                    assert not any(name.endswith(".part") for name in files(data_dir))
                    cluster.snapshot()
                with started(data_dir) as cluster:
                    assert cluster.facts() == before
            step += 1
        assert step > 12
        assert len(seen) > 6  # a part, a new snapshot beside old ones, segments removed one by one


def test_a_snapshot_is_synced_piece_by_piece(tmp_path: Path) -> None:
    """The log's own syncs wait for each piece, and answers wait for those syncs."""
    with started(tmp_path) as cluster:
        cluster.topic(1)
        place, disk = cluster.log.begin_snapshot(roll=True), Disk(tmp_path)
        batch = [ConfigRecord(resource_type=4, resource_name="1", name="c", value="v" * 32_000)] * (
            SYNC_BYTES // 100_000
        )
        with disk.watched():
            place.write([batch] * 10, TIMESTAMP_MS)
    unsynced = [state.unsynced_bytes(one.file) for _, state in disk.states() for one in state.pending_files]
    assert SYNC_BYTES <= max(unsynced) < SYNC_BYTES * 3 / 2


def test_a_snapshot_that_is_taken_twice_counts_once(tmp_path: Path) -> None:
    with started(tmp_path) as cluster:
        for number in (1, 2):
            cluster.topic(number)
            cluster.snapshot()
        cluster.snapshot()
    assert [snapshot.end_offset for snapshot in snapshot_files(tmp_path)] == [BEGIN + 1, BEGIN + 2]
    snapshot_files(tmp_path)[-1].path.unlink()
    assert names_after(tmp_path) == ["t1", "t2"]


@pytest.mark.parametrize("appended", [(), (7,), (7, 3)])
def test_a_snapshot_tells_when_the_last_record_that_it_stands_for_was_written(
    tmp_path: Path, appended: tuple[int, ...]
) -> None:
    log = open_log(tmp_path, timestamp_ms=5)
    for number, timestamp_ms in enumerate(appended):
        append_records(log, [TopicRecord(name=f"t{number}", topic_id=uuid_of(number))], timestamp_ms)
    log.sync()
    place = log.begin_snapshot(roll=False)
    append_records(log, [TopicRecord(name="later", topic_id=uuid_of(99))], 1000)
    place.write([[TopicRecord(name="t", topic_id=uuid_of(1))]], 2000)
    header, data, _ = log.read_snapshot()
    assert header.records == [SnapshotHeaderRecord(last_contained_log_timestamp=[5, *appended][-1])]
    assert (header.timestamp_ms, data.timestamp_ms) == (2000, 2000)
    log.close()
