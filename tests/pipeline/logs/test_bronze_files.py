"""Parquet files of bronze: the rows of the pieces, and the lists of files as Spark's own sink writes them."""

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from klamm.pipeline.errors import PipelineError
from klamm.pipeline.logs import bronze_files
from klamm.pipeline.logs.arrow_rows import ROW
from klamm.pipeline.logs.bronze_files import KEPT_SECONDS, SINK_LOG, WrittenFile, add_to_table, write_pieces
from klamm.pipeline.logs.metadata_logs import find_metadata_logs
from klamm.pipeline.logs.metadata_pieces import Piece, cut_log
from klamm.protocol.fields import Message
from klamm.protocol.records.partitions import PartitionRecord
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from tests.pipeline.logs.logs import encoded, rows, write_log

TOPIC = Uuid(bytes(range(16)))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    partitions: list[list[Message]] = [
        [PartitionRecord(partition_id=p, topic_id=TOPIC, replicas=[1, 2])] for p in range(40)
    ]
    parts = encoded([[TopicRecord(name="t", topic_id=TOPIC)], *partitions])
    return write_log(tmp_path / "log", parts[0] + b"junk" * 30 + b"".join(parts[1:]))


def _pieces(log: Path) -> list[Piece]:
    (found,) = find_metadata_logs([str(log)])
    return list(cut_log(found, None, 1 << 20))


@pytest.mark.parametrize("rows_at_once", [1, 7, 1_000])
def test_a_file_has_the_rows_of_its_pieces(
    log: Path, tmp_path: Path, rows_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bronze_files, "_ROWS_AT_ONCE", rows_at_once)
    written = write_pieces(tmp_path / "a table", _pieces(log))
    path = Path(written.path)
    assert path.parent == tmp_path / "a table"
    assert (written.size, written.modified_ms) == (path.stat().st_size, path.stat().st_mtime_ns // 1_000_000)
    table = pq.read_table(path)
    assert table.to_pylist() == rows(log)
    assert table.schema == ROW
    groups = pq.ParquetFile(path).metadata.num_row_groups
    assert {1: 43, 7: 7, 1_000: 1}[rows_at_once] >= groups > {1: 2, 7: 2, 1_000: 0}[rows_at_once]


def test_of_a_failed_task_no_file_remains(log: Path, tmp_path: Path) -> None:
    pieces = _pieces(log)
    next(log.glob("*.log")).write_bytes(b"")
    with pytest.raises(PipelineError, match="has become shorter while it was read"):
        write_pieces(tmp_path / "table", pieces)
    assert list((tmp_path / "table").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match=r"cannot write to .*file/table: Not a directory"):
        write_pieces(tmp_path / "file" / "table", pieces)


def _files(log: Path) -> dict[str, list[str]]:
    found = {}
    for path in log.glob("[0-9]*"):
        version, *lines = path.read_text().split("\n")
        assert version == "v1"
        found[path.name] = [json.loads(line)["path"].rpartition("/")[2] for line in lines]
    return found


def test_the_files_of_each_micro_batch_are_listed_once(tmp_path: Path) -> None:
    expected: dict[str, list[str]] = {}
    every: list[str] = []
    for batch in range(22):
        names = [f"{batch} {number}" for number in range(batch % 3)]
        for _ in range(2):  # Spark repeats a micro-batch that it did not commit
            add_to_table(tmp_path, batch, [WrittenFile(str(tmp_path / name), 1, 2) for name in names])
            names = [name.replace(" ", "%20") for name in names]
            every += names if _ == 0 else []
            expected["9.compact" if batch == 9 else "19.compact" if batch == 19 else str(batch)] = (
                list(every) if batch in (9, 19) else names
            )
    assert _files(tmp_path / SINK_LOG) == expected


def test_old_lists_are_deleted_when_two_whole_lists_have_their_files(tmp_path: Path) -> None:
    log = tmp_path / SINK_LOG
    for batch in range(29):
        add_to_table(tmp_path, batch, [WrittenFile(str(tmp_path / str(batch)), 1, 2)])
        for name in (str(batch), f"{batch}.compact"):
            if (log / name).exists() and batch != 12:
                newest = (log / name).stat().st_mtime
                os.utime(log / name, (newest, newest - KEPT_SECONDS - 5))
        (log / f".{batch}.crc").write_text("")
    assert {path.name for path in log.glob("[0-9]*")} >= {"9.compact", *map(str, range(10, 19))}
    assert not (log / "8").exists()
    assert not (log / ".8.crc").exists()
    add_to_table(tmp_path, 29, [])
    left = {"12", "19.compact", *map(str, range(20, 29)), "29.compact"}
    assert {path.name for path in log.glob("[0-9]*")} == left
    assert _files(log)["29.compact"] == [str(batch) for batch in range(29)]


def test_an_entry_is_one_of_sparks(tmp_path: Path) -> None:
    add_to_table(tmp_path, 0, [WrittenFile("/tables/a b.parquet", 12, 1_700_000_000_123)])
    _, line = (tmp_path / SINK_LOG / "0").read_text().split("\n")
    assert json.loads(line) == {
        "path": "file:///tables/a%20b.parquet",
        "size": 12,
        "isDir": False,
        "modificationTime": 1_700_000_000_123,
        "blockReplication": 1,
        "blockSize": 33_554_432,
        "action": "add",
    }


def test_lists_of_another_version_of_spark_are_refused(tmp_path: Path) -> None:
    for batch in range(9):
        add_to_table(tmp_path, batch, [])
    (tmp_path / SINK_LOG / "4").write_text("v2\n{}")
    with pytest.raises(PipelineError, match=r"_spark_metadata/4 is of another version of Spark"):
        add_to_table(tmp_path, 9, [])
