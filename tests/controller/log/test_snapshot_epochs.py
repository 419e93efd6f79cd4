"""Epochs of snapshots and logs: they agree where the log continues after the snapshot, and none is used twice."""

from pathlib import Path

import pytest

from klamm.controller.log import CorruptLog, LogError
from klamm.controller.log.epoch import encode_leader_change
from tests.controller.log.controllers import ALL, BEGIN, FOLDER, snapshot_files, started, three_snapshots
from tests.controller.log.logs import TIMESTAMP_MS, batch_starts, forget_recovery_point, segment_files

OLDER = BEGIN + 3


def newest(data_dir: Path) -> Path:
    return snapshot_files(data_dir)[-1].path


@pytest.mark.parametrize("epoch", [0, 2, 9])
def test_a_snapshot_of_another_epoch_than_the_log_has_there_is_refused(tmp_path: Path, epoch: int) -> None:
    with started(tmp_path) as cluster:
        cluster.topic(1)
        cluster.snapshot(roll=False)
        cluster.topic(2)
    rename_to_epoch(newest(tmp_path), epoch)
    with pytest.raises(LogError, match=r"it has leader epoch 1, and snapshot .* ends with it"):
        started(tmp_path).__enter__()


def test_a_log_behind_a_snapshot_of_a_higher_epoch_is_refused(tmp_path: Path) -> None:
    three_snapshots(tmp_path)
    rename_to_epoch(newest(tmp_path), 4)
    with pytest.raises(CorruptLog, match="it has leader epoch 1 inside of epoch 4"):
        started(tmp_path).__enter__()


def test_an_epoch_that_quorum_state_does_not_know_is_refused(tmp_path: Path) -> None:
    three_snapshots(tmp_path)
    for path in segment_files(tmp_path):
        path.unlink()
    forget_recovery_point(tmp_path)
    rename_to_epoch(newest(tmp_path), 4)
    with pytest.raises(LogError, match=r"has epoch 4, which .*quorum-state does not know: it ends with 1"):
        started(tmp_path).__enter__()


def rename_to_epoch(snapshot: Path, epoch: int) -> None:
    """The same snapshot with this epoch in its name."""
    data = bytearray(snapshot.read_bytes())
    for start in batch_starts(bytes(data))[:-1]:
        data[start + 12 : start + 16] = epoch.to_bytes(4, "big")  # not covered by the checksum
    snapshot.with_name(f"{snapshot.name[:20]}-{epoch:010}.checkpoint").write_bytes(data)
    snapshot.unlink()


@pytest.mark.parametrize(
    ("log_epoch", "snapshot_epoch"), [(0, 1), (1, 1), (1, 4), (4, 1)], ids=lambda epoch: f"epoch {epoch}"
)
def test_a_log_that_begins_anew_at_the_end_of_its_snapshot_is_in_a_higher_epoch_than_both(
    tmp_path: Path, log_epoch: int, snapshot_epoch: int
) -> None:
    """Without quorum-state: only the log and the snapshot have the epochs that were used."""
    three_snapshots(tmp_path)
    snapshot_files(tmp_path)[0].path.unlink()
    older, last = segment_files(tmp_path)
    last.unlink()
    if log_epoch:
        older.write_bytes(encode_leader_change(OLDER, log_epoch, TIMESTAMP_MS))
    else:
        older.unlink()
    if snapshot_epoch != 1:
        rename_to_epoch(newest(tmp_path), snapshot_epoch)
    (tmp_path / FOLDER / "quorum-state").unlink()
    forget_recovery_point(tmp_path)
    warnings: list[str] = []
    with started(tmp_path, warnings.append) as cluster:
        assert cluster.log.leader_epoch == max(log_epoch, snapshot_epoch) + 1
        assert cluster.names() == ALL[:5]
    assert len(warnings) == bool(log_epoch)
