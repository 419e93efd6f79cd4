"""The states of clusters between micro-batches: what is kept on disk, what is lost, and what is made again."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from klamm.pipeline.errors import PipelineError
from klamm.pipeline.logs.metadata_logs import find_metadata_logs
from klamm.pipeline.logs.metadata_pieces import LogPart, Mark, cut_log
from klamm.pipeline.store import Store
from klamm.pipeline.windows import growing_logs, state_files
from klamm.pipeline.windows.growing_logs import close_windows
from klamm.pipeline.windows.state import ClusterState
from klamm.pipeline.windows.state_files import StateFiles, StateLost
from klamm.protocol.fields import Message
from klamm.protocol.records.brokers import BrokerRegistrationChangeRecord
from klamm.protocol.records.partitions import PartitionChangeRecord, PartitionRecord
from klamm.protocol.records.topics import RemoveTopicRecord, TopicRecord
from klamm.protocol.records.transactions import BeginTransactionRecord, EndTransactionRecord
from klamm.protocol.uuid import Uuid
from tests.pipeline.logs.logs import CLUSTER_ID, TIMESTAMP_MS, encoded, write_log

FIRST, SECOND = Uuid(b"first topic's id"), Uuid(b"second topic, id")


def _changed(isr: Sequence[int], partition_id: int = 0) -> Message:
    return PartitionChangeRecord(partition_id=partition_id, topic_id=FIRST, isr=list(isr))


HISTORY: list[list[Message]] = [
    [TopicRecord(name="first", topic_id=FIRST)]
    + [PartitionRecord(partition_id=n, topic_id=FIRST, replicas=[1, 2], isr=[1, 2]) for n in range(3)],
    [BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=1, fenced=1)],
    [_changed([1])],
    [_changed([1], 1), TopicRecord(name="second", topic_id=SECOND)],
    [PartitionRecord(partition_id=0, topic_id=SECOND, replicas=[1, 2], isr=[1])],
    [BeginTransactionRecord(name="t"), _changed([1], 2)],
    [_changed([1, 2], 2), EndTransactionRecord()],
    [RemoveTopicRecord(topic_id=SECOND)],
    [_changed([1, 2])],
    [_changed([1, 2], 1)],
]
"""Four windows close: of partition 2 and of the second topic, of partitions 0 and 1."""


@pytest.fixture(autouse=True)
def _new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing_logs, "_kept", type(growing_logs._kept)())


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(tmp_path / "log", b"".join(encoded(HISTORY)))


def _marks(log: Path) -> list[Mark]:
    (found,) = find_metadata_logs([str(log)])
    return [piece.behind for piece in cut_log(found, None, 1)]


def _read(log: Path, states: Path, start: Mark | None, end: Mark) -> list[dict[str, Any]]:
    (found,) = find_metadata_logs([str(log)])
    part = LogPart(found.cluster_id, found.folder, tuple(cut_log(found, start, 1 << 20, end)), start, end)
    return [row for batch in close_windows(part, str(states)) for row in batch.to_pylist()]


def _start_process() -> None:
    growing_logs._kept.clear()


def _files(states: Path) -> list[Path]:
    return sorted(next(states.iterdir()).iterdir())


def _micro_batches(log: Path) -> Iterator[tuple[Mark | None, Mark]]:
    marks = _marks(log)
    return zip([None, *marks], marks, strict=False)


def test_windows_have_all_their_columns(log: Path, tmp_path: Path) -> None:
    rows = _read(log, tmp_path / "states", None, _marks(log)[-1])
    first = rows[2]
    assert (first["opened"].timestamp(), first["closed"].timestamp()) == (
        (TIMESTAMP_MS + 2) / 1000,
        (TIMESTAMP_MS + 8) / 1000,
    )
    assert {name: value for name, value in first.items() if name not in ("opened", "closed")} == {
        "cluster_id": CLUSTER_ID,
        "kind": "under_replication",
        "topic_id": str(FIRST),
        "partition_index": 0,
        "topic": "first",
        "opened_offset": 6,
        "closed_offset": 15,
        "cause": "fenced",
        "wanted": 2,
        "min_isr": 1,
        "brokers": [2],
        **dict.fromkeys(("outcome", "from_replicas", "to_replicas", "steps")),
    }
    assert [(row["topic"], row["partition_index"], row["opened_offset"], row["closed_offset"]) for row in rows] == [
        ("first", 2, 11, 12),
        ("second", 0, 9, 14),
        ("first", 0, 6, 15),
        ("first", 1, 7, 16),
    ]


@pytest.mark.parametrize("damage", ["gone", "cut", "not json", "other format", "no header", "nothing"])
def test_a_state_that_is_lost_is_made_again_from_the_log(log: Path, tmp_path: Path, damage: str) -> None:
    states = tmp_path / "states"
    expected = _read(log, tmp_path / "other", None, _marks(log)[-1])
    found: list[dict[str, Any]] = []
    for number, (start, end) in enumerate(_micro_batches(log)):
        _start_process()
        found += _read(log, states, start, end)
        if number == 7:
            newest = max(_files(states), key=lambda path: path.name)
            _damage(newest, damage)
    assert found == expected
    files = StateFiles(str(states), CLUSTER_ID)
    whole = ClusterState()
    whole.apply(StateFiles(str(tmp_path / "other"), CLUSTER_ID).load(_marks(log)[-1]).everything())
    assert _plain(files.load(_marks(log)[-1])) == _plain(whole)


def _plain(state: ClusterState) -> Any:
    return json.loads(json.dumps(list(state.everything())))


def _damage(path: Path, damage: str) -> None:
    lines = path.read_text().splitlines(keepends=True)
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_text("".join(lines[:-1]))
    elif damage == "not json":
        path.write_text("".join([lines[0], lines[1][: len(lines[1]) // 2]]))
    elif damage == "other format":
        path.write_text("".join([json.dumps([99, *json.loads(lines[0])[1:]]) + "\n", *lines[1:]]))
    elif damage == "no header":
        path.write_text("")


def test_a_file_in_the_middle_of_the_chain_may_be_lost(log: Path, tmp_path: Path) -> None:
    states, marks = tmp_path / "states", _marks(log)
    for start, end in list(_micro_batches(log))[:6]:
        _read(log, states, start, end)
    _files(states)[2].unlink()
    _start_process()
    with pytest.raises(StateLost):
        StateFiles(str(states), CLUSTER_ID).load(marks[5])
    _read(log, states, marks[5], marks[6])
    assert _files(states)[-1].suffix == ".whole", "a chain without its beginning does not go on"
    StateFiles(str(states), CLUSTER_ID).load(marks[6])


def test_without_its_beginning_the_log_cannot_replace_a_lost_state(log: Path, tmp_path: Path) -> None:
    states, marks = tmp_path / "states", _marks(log)
    _read(log, states, None, marks[4])
    snapshot = b"".join(encoded(HISTORY[:2]))
    (log / f"{0:020}.log").rename(log / f"{1:020}.log")
    (log / f"{2:020}-0000000001.checkpoint").write_bytes(snapshot)
    part = LogPart(CLUSTER_ID, str(log), (), marks[4]._replace(file=f"{1:020}.log"), marks[5])
    with pytest.raises(PipelineError, match=r"open in .* at offset .* are lost, .*: ingest anew, with --overwrite"):
        list(close_windows(part, str(states)))


def test_another_process_reads_only_the_changes_since_its_own_state(log: Path, tmp_path: Path) -> None:
    states = tmp_path / "states"
    batches = list(_micro_batches(log))
    for start, end in batches[:3]:
        _read(log, states, start, end)
    old = growing_logs._kept.copy()
    _start_process()
    for start, end in batches[3:5]:
        _read(log, states, start, end)
    growing_logs._kept = old
    for path in _files(states)[:3]:
        path.unlink()  # it has no need of them
    assert _read(log, states, *batches[5]) == []
    assert _plain(StateFiles(str(states), CLUSTER_ID).load(batches[5][1], *_kept(states))) == _plain(_kept(states)[0])


def _kept(states: Path) -> tuple[ClusterState, Mark]:
    mark, state = growing_logs._kept[str(states), CLUSTER_ID]
    return state, mark


def test_a_state_is_written_whole_again_and_the_files_before_it_are_deleted(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_files, "MAX_CHAIN", 2)
    states = tmp_path / "states"
    suffixes: list[list[str]] = []
    for start, end in _micro_batches(log):
        _read(log, states, start, end)
        suffixes.append([path.suffix for path in _files(states)])
        if len(suffixes) == 6:
            (next(states.iterdir()) / "killed.whole.1.part").write_text("half")
    one, two, three = [".whole"], [".whole", ".changes"], [".whole", ".changes", ".changes"]
    assert suffixes[:9] == [one, two, three, [*three, ".whole"], [*three, *two], [*three, *three],
                            [*three, ".whole"], [*three, *two], [*three, *three]]  # fmt: skip


def test_changes_that_are_larger_than_the_state_are_followed_by_a_whole_one(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_files, "LEAST_WHOLE_BYTES", 1)
    states = tmp_path / "states"
    for start, end in _micro_batches(log):
        _read(log, states, start, end)
    names = [path.suffix for path in _files(states)]
    assert names.count(".whole") == 2
    sizes = [path.stat().st_size for path in _files(states)]
    chain = names[1:].index(".whole")
    assert sum(sizes[1:chain]) <= sizes[0] < sum(sizes[1 : chain + 1])


def test_a_process_keeps_the_states_of_few_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing_logs, "MAX_KEPT_PARTITIONS", 6)
    states = tmp_path / "states"
    for number in range(4):
        log = write_log(tmp_path / f"log{number}", b"".join(encoded(HISTORY[:2])))
        (log / "meta.properties").write_text(f"cluster.id={number}\n")
        _read(log, states, None, _marks(log)[-1])
    assert [cluster for _, cluster in growing_logs._kept] == ["1", "2", "3"]


def test_windows_of_release_0_1_are_written_again(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "out", {})
    table, checkpoint = Path(store.path("live", "closed_window")), Path(store.checkpoint("closed_window"))
    for folder in (table, checkpoint / "offsets"):
        folder.mkdir(parents=True)
        (folder / "0").write_text("kept")
    store.forget_windows_of_release_0_1()
    assert (table / "0").exists(), "it is of this release"
    assert (checkpoint / "offsets" / "0").exists()
    (checkpoint / "state").mkdir()
    store.forget_windows_of_release_0_1()
    assert not table.exists()
    assert list(checkpoint.parent.iterdir()) == []
