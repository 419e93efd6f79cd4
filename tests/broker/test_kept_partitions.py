"""The files of internal topics: what a start finds, what is durable at which time, torn tails, compaction, truncation,
deletion."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from klamm.broker.coordinator.batches import decode_records, encode_batch
from klamm.broker.data.record_batches import decode_header, stamp
from klamm.broker.kept_partitions import METADATA, KeptPartitions
from klamm.controller.log.errors import CorruptLog
from klamm.controller.metadata.partition import LogKey
from klamm.protocol.internal_topics import CONSUMER_OFFSETS
from klamm.protocol.uuid import Uuid

KEY: LogKey = (Uuid(bytes(15) + b"\7"), 3)
FOLDER = f"{CONSUMER_OFFSETS}-3"


def batch_at(offset: int, value: bytes = b"v", count: int = 1) -> bytes:
    return stamp(encode_batch([(b"k", value)] * count, 1_000), offset, 0, None)


def refuse(what: str) -> None:
    raise AssertionError(what)


def opened(data_dir: Path, *batches: bytes) -> KeptPartitions:
    kept = KeptPartitions(data_dir, refuse)
    for batch in batches:
        kept.append(KEY, CONSUMER_OFFSETS, batch)
    return kept


def found_offsets(
    data_dir: Path, warn: Callable[[str], None] = refuse, exists: Callable[[LogKey], bool] = KEY.__eq__
) -> list[int]:
    """The offsets of all records that a start finds."""
    return [
        record.offset  # type: ignore[union-attr]
        for _, batches in KeptPartitions(data_dir, warn).load(exists)
        for batch in batches
        for record in decode_records(decode_header(batch))
    ]


def sync(kept: KeptPartitions) -> None:
    work = kept.begin_sync()
    kept.sync(work)
    kept.end_sync(work)


def segments(data_dir: Path) -> list[str]:
    return sorted(path.name for path in (data_dir / FOLDER).glob("*.log"))


def test_a_start_finds_every_batch_that_was_appended(tmp_path: Path) -> None:
    opened(tmp_path, batch_at(0), batch_at(1, count=3), batch_at(4))
    assert found_offsets(tmp_path) == [0, 1, 2, 3, 4]
    assert segments(tmp_path) == ["00000000000000000000.log"]
    assert (tmp_path / FOLDER / "partition.metadata").read_text() == f"version: 0\ntopic_id: {KEY[0]}\n"


def test_records_are_durable_when_the_sync_that_began_behind_them_has_ended(tmp_path: Path) -> None:
    kept = opened(tmp_path, batch_at(0))
    assert kept.needs_sync
    assert kept.durable_end(KEY) == 0
    work = kept.begin_sync()
    kept.append(KEY, CONSUMER_OFFSETS, batch_at(1))
    kept.sync(work)
    kept.end_sync(work)
    assert kept.durable_end(KEY) == 1
    assert kept.needs_sync
    sync(kept)
    assert kept.durable_end(KEY) == 2
    assert not kept.needs_sync


def test_what_a_start_has_found_is_durable_after_a_sync(tmp_path: Path) -> None:
    opened(tmp_path, batch_at(0), batch_at(1))
    kept = KeptPartitions(tmp_path, refuse)
    assert len(list(kept.load(KEY.__eq__))) == 1
    assert kept.durable_end(KEY) == 0
    sync(kept)
    assert kept.durable_end(KEY) == 2


@pytest.mark.parametrize("cut", [1, 40, 65])
def test_a_torn_tail_is_cut_off(tmp_path: Path, cut: int) -> None:
    opened(tmp_path, batch_at(0), batch_at(1))
    path = tmp_path / FOLDER / "00000000000000000000.log"
    path.write_bytes(path.read_bytes()[:-cut])
    reported: list[str] = []
    assert found_offsets(tmp_path, reported.append) == [0]
    assert len(reported) == 1
    assert path.read_bytes() == batch_at(0)
    assert found_offsets(tmp_path) == [0]


def test_damage_before_a_sound_batch_is_refused(tmp_path: Path) -> None:
    opened(tmp_path, batch_at(0), batch_at(1), batch_at(2))
    path = tmp_path / FOLDER / "00000000000000000000.log"
    damaged = bytearray(path.read_bytes())
    damaged[len(batch_at(0)) + 62] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(CorruptLog):
        found_offsets(tmp_path)


def test_a_compaction_leaves_only_the_segments_behind_it(tmp_path: Path) -> None:
    kept = opened(tmp_path, batch_at(0), batch_at(1))
    kept.roll(KEY)
    kept.append(KEY, CONSUMER_OFFSETS, batch_at(2))
    assert segments(tmp_path) == ["00000000000000000000.log", "00000000000000000002.log"]
    kept.delete_before(KEY, 1)
    assert len(segments(tmp_path)) == 2
    kept.delete_before(KEY, 2)
    assert segments(tmp_path) == ["00000000000000000002.log"]
    sync(kept)
    assert kept.durable_end(KEY) == 3
    assert found_offsets(tmp_path) == [2]


def test_a_cut_log_is_not_durable_by_a_sync_that_began_before(tmp_path: Path) -> None:
    kept = opened(tmp_path, batch_at(0), batch_at(1), batch_at(2))
    work = kept.begin_sync()
    kept.truncate(KEY, 1)
    kept.append(KEY, CONSUMER_OFFSETS, batch_at(1, b"other"))
    kept.sync(work)
    kept.end_sync(work)
    assert kept.durable_end(KEY) == 0
    sync(kept)
    assert kept.durable_end(KEY) == 2
    assert found_offsets(tmp_path) == [0, 1]


def test_a_cut_removes_segments_that_begin_behind_it(tmp_path: Path) -> None:
    kept = opened(tmp_path, batch_at(0), batch_at(1))
    kept.roll(KEY)
    kept.append(KEY, CONSUMER_OFFSETS, batch_at(2))
    kept.truncate(KEY, 1)
    kept.append(KEY, CONSUMER_OFFSETS, batch_at(1, b"other"))
    assert segments(tmp_path) == ["00000000000000000000.log"]
    assert found_offsets(tmp_path) == [0, 1]


def test_a_deleted_topic_is_there_until_its_deletion_is_durable(tmp_path: Path) -> None:
    kept = opened(tmp_path, batch_at(0))
    kept.remove(KEY[0])
    assert not (tmp_path / FOLDER).exists()
    assert found_offsets(tmp_path) == [0]
    kept = KeptPartitions(tmp_path, refuse)
    assert len(list(kept.load(KEY.__eq__))) == 1
    kept.remove(KEY[0])
    sync(kept)
    assert list(tmp_path.iterdir()) == []


def test_folders_of_partitions_that_do_not_exist_are_deleted_at_the_start(tmp_path: Path) -> None:
    opened(tmp_path, batch_at(0))
    assert found_offsets(tmp_path, exists=lambda _: False) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("cut_at", "left"), [(0, 0), (1, 1), (2, 2), (3, 3)])
def test_what_was_cut_off_is_durable_no_longer(tmp_path: Path, cut_at: int, left: int) -> None:
    kept = opened(tmp_path, batch_at(0), batch_at(1), batch_at(2))
    sync(kept)
    kept.truncate(KEY, cut_at)
    assert kept.durable_end(KEY) == left
    kept.append(KEY, CONSUMER_OFFSETS, batch_at(cut_at, b"other"))
    assert kept.durable_end(KEY) == left
    sync(kept)
    assert kept.durable_end(KEY) == cut_at + 1


@pytest.mark.parametrize("lost", [1, 20])
def test_a_segment_that_has_a_successor_has_no_torn_tail(tmp_path: Path, lost: int) -> None:
    kept = opened(tmp_path, batch_at(0), batch_at(1))
    kept.roll(KEY)
    kept.append(KEY, CONSUMER_OFFSETS, batch_at(2))
    path = tmp_path / FOLDER / "00000000000000000000.log"
    path.write_bytes(path.read_bytes()[:-lost])
    with pytest.raises(CorruptLog):
        found_offsets(tmp_path)


def test_files_and_the_entries_of_files_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is new is lost with the power unless its folder is synced, too."""
    synced: set[Path] = set()
    monkeypatch.setattr(os, "fsync", lambda fd: synced.add(Path(f"/proc/self/fd/{fd}").readlink()))
    folder = tmp_path.resolve() / FOLDER
    kept = opened(tmp_path, batch_at(0))
    sync(kept)
    assert synced >= {folder / "00000000000000000000.log", folder / METADATA, folder, tmp_path.resolve()}
    synced.clear()
    kept.roll(KEY)
    kept.append(KEY, CONSUMER_OFFSETS, batch_at(1))
    sync(kept)
    assert synced >= {folder / "00000000000000000001.log", folder}
