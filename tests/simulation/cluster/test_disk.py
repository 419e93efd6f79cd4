"""Power cuts as the simulation makes them, by chance, and what the real log makes of them.

The tests of the disk itself are in `tests/disk`, those of the log at every point in `tests/controller/log`.
"""

from pathlib import Path
from random import Random

import pytest

from klamm.controller.log import LogError, SegmentLog
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from tests.controller.log.logs import append_records
from tests.simulation.cluster.disk import Disk

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
HISTORIES = 10


def open_log(disk: Disk, segment_bytes: int) -> SegmentLog:
    return SegmentLog.open(
        disk.data_dir,
        new_cluster_id=CLUSTER_ID,
        new_directory_id=Uuid(15 * b"\1" + b"\2"),
        timestamp_ms=1,
        warn=lambda _: None,
        segment_bytes=segment_bytes,
    )


def topic(number: int) -> TopicRecord:
    return TopicRecord(name=f"topic-{number}", topic_id=Uuid(number.to_bytes(16, "big")))


def names(log: SegmentLog) -> list[str]:
    return [record.name for batch in log.read() for record in batch.records if isinstance(record, TopicRecord)]


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_log_opens_after_any_power_cut_with_all_that_was_durable(tmp_path: Path, seed: int) -> None:
    """Also where the end was in several segments, of which the system stored the last one first."""
    chance = Random(seed)
    disk, written, durable = Disk(tmp_path, chance), list[str](), 0
    with disk.watched():
        for _ in range(4):
            log = open_log(disk, segment_bytes=400)
            assert names(log)[:durable] == written[:durable]
            assert names(log) == written[: len(names(log))]
            written = names(log)
            for _ in range(chance.randint(0, 30)):
                number = len(written)
                append_records(log, [topic(number)], 1)
                written.append(f"topic-{number}")
                if chance.random() < 0.15:
                    log.sync()
                    durable = len(written)
            disk.cut_power()
            log.close()


def test_what_was_not_synced_may_be_lost(tmp_path: Path) -> None:
    lost = set()
    for seed in range(60):
        disk = Disk(tmp_path / str(seed), Random(seed))
        with disk.watched():
            log = open_log(disk, segment_bytes=1 << 20)
            append_records(log, [topic(0)], 1)
            disk.cut_power()
            log.close()
            again = open_log(disk, segment_bytes=1 << 20)
            lost.add(len(names(again)))
            again.close()
    assert lost == {0, 1}


def test_a_power_cut_at_a_sync_leaves_a_directory_that_opens(tmp_path: Path) -> None:
    """At each sync of an opening, that of the first one included."""
    for sync in range(1, 12):
        disk = Disk(tmp_path / str(sync), Random(sync))
        with disk.watched():
            disk.cut_power_soon(sync)
            try:
                open_log(disk, segment_bytes=1 << 20).close()
            except LogError as error:
                raise AssertionError(f"sync {sync}") from error
            open_log(disk, segment_bytes=1 << 20).close()
