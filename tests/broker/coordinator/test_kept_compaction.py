"""Compaction of a partition whose records are kept in files: what a start finds at each moment, and how large the files
become."""

import shutil
from pathlib import Path

import pytest

from klamm.broker.coordinator import compaction, shard
from klamm.broker.coordinator.batches import EndOfTransaction, decode_records
from klamm.broker.coordinator.outbox import Written
from klamm.broker.data.record_batches import decode_header
from klamm.broker.groups.offsets import Offsets
from klamm.broker.kept_partitions import KeptPartitions
from klamm.protocol.coordinator_records import decode_key, decode_value
from klamm.protocol.internal_topics import CONSUMER_OFFSETS
from klamm.protocol.records.coordinator.groups import OffsetCommitKey, OffsetCommitValue
from tests.broker.coordinator.test_shards import SMALL, Kept
from tests.broker.groups.conversation import GROUP

PARTITIONS = 10
LIVE_BYTES = PARTITIONS * 150
COMMITS = 1_500


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    monkeypatch.setattr(shard, "BEGIN_AT_BYTES", SMALL)
    monkeypatch.setattr(compaction, "RECORDS_AT_ONCE", 3)
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    return Kept(data_dir)


def found_by_a_start(data_dir: Path, copy: Path) -> list[int]:
    """The offsets that a coordinator replays from a copy of the files, as a kill leaves them."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(data_dir, copy)
    offsets = Offsets()
    for _, batches in KeptPartitions(copy, print).load(lambda _: True):
        for raw in batches:
            for record in decode_records(decode_header(raw)):
                assert not isinstance(record, EndOfTransaction)
                key = decode_key(CONSUMER_OFFSETS, record.key or b"")
                if isinstance(key, OffsetCommitKey) and record.value is not None:
                    value = decode_value(CONSUMER_OFFSETS, key, record.value)
                    assert isinstance(value, OffsetCommitValue)
                    offsets.replay(key, value, Written(record.offset, record.timestamp_ms, -1))
    found = offsets.of_group(GROUP).get("t", {})
    return [found[partition].offset if partition in found else -1 for partition in range(PARTITIONS)]


def test_a_start_finds_all_acknowledged_commits_at_every_step_of_a_compaction(kept: Kept, tmp_path: Path) -> None:
    """Steps with and without syncs and commits between them, through several compactions."""
    newest, begins = [-1] * PARTITIONS, set()
    for offset in range(300):
        partition = offset * 7 % PARTITIONS
        assert kept.commit(offset, partition) == 0
        newest[partition] = offset
        assert found_by_a_start(tmp_path / "data", tmp_path / "copy") == newest
        for _ in range(offset % 3):
            kept.group.pass_time(1)
            assert found_by_a_start(tmp_path / "data", tmp_path / "copy") == newest
        begins.add(kept.log.log.log_start_offset)
    assert len(begins) > 4, "there were compactions"


def test_files_do_not_grow_with_the_number_of_commits(kept: Kept, tmp_path: Path) -> None:
    """At most three times the live records and twice the size at which a compaction begins."""
    largest = 0
    for offset in range(COMMITS):
        assert kept.commit(offset, offset % PARTITIONS) == 0
        files = (tmp_path / "data").glob(f"{CONSUMER_OFFSETS}-*/*.log")
        largest = max(largest, sum(path.stat().st_size for path in files))
    assert largest < 3 * LIVE_BYTES + 2 * SMALL
    assert 10 * largest < COMMITS * 100
