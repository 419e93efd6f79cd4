"""The copy of a metadata log: what is appended, what is refused, what a start finds, what the leader may cut off."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.log.data_dir import LOG_FOLDER, Identity, load_identity
from klamm.controller.log.errors import LogError
from klamm.controller.log.snapshot_files import SnapshotContent, SnapshotFile, snapshot_path, write_snapshot
from klamm.protocol.record_batch import HEADER_BYTES, CorruptBatch, encode_batch
from klamm.protocol.records.topics import TopicRecord
from klamm.twin import followed_log
from klamm.twin.followed_log import Diverged, FollowedLog
from klamm.twin.follower_identity import FIRST_REPLICA_ID
from tests.controller.cluster_states import uuid_of

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
TIMESTAMP_MS = 1_700_000_000_000


def batch(base_offset: int, epoch: int = 1, count: int = 1) -> bytes:
    records = [TopicRecord(name=f"t{base_offset + at}", topic_id=uuid_of(base_offset + at)) for at in range(count)]
    return encode_batch(base_offset, epoch, TIMESTAMP_MS, records)


def log_of(epochs: Sequence[int], start: int = 0) -> list[bytes]:
    """Batches of one record, one for each epoch."""
    return [batch(start + at, epoch) for at, epoch in enumerate(epochs)]


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[], FollowedLog]:
    logs: list[FollowedLog] = []

    def open_again() -> FollowedLog:
        while logs:
            logs.pop().close()
        logs.append(FollowedLog(tmp_path / "copy"))
        logs[-1].name(CLUSTER_ID)
        return logs[-1]

    return open_again


def snapshot_in(folder: Path, end_offset: int, epoch: int = 1) -> SnapshotFile:
    snapshot = SnapshotFile(end_offset, epoch, snapshot_path(folder, end_offset, epoch))
    write_snapshot(snapshot, SnapshotContent([[TopicRecord(name="t")]], TIMESTAMP_MS, TIMESTAMP_MS))
    return snapshot


def stored(log: FollowedLog) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(log.folder.glob("*.log")))


@given(cuts=st.lists(st.integers(0, 900), max_size=6), epochs=st.lists(st.integers(1, 3), min_size=1, max_size=8))
def test_any_pieces_of_answers_make_the_same_copy(
    cuts: list[int], epochs: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The leader cuts its answers at any byte, and the next answer begins with a whole batch, even an older one."""
    batches = log_of(sorted(epochs))
    log = FollowedLog(tmp_path_factory.mktemp("copy"))
    log.name(CLUSTER_ID)
    for cut in (*cuts, 1 << 20):
        at = max(log.end_offset - 1, 0)
        log.append(b"".join(batches[at:])[:cut])
    assert stored(log) == b"".join(batches)
    assert (log.end_offset, log.last_epoch) == (len(batches), max(epochs))
    log.close()


def test_a_start_finds_the_end_and_the_epoch(opened: Callable[[], FollowedLog]) -> None:
    opened().append(b"".join(log_of([1, 1, 4])))
    log = opened()
    assert (log.start_offset, log.end_offset, log.last_epoch, log.broken_bytes) == (0, 3, 4, 0)
    log.append(batch(3, 4, count=5))
    assert opened().end_offset == 8


@pytest.mark.parametrize("kept_bytes", [0, 1, HEADER_BYTES, -1])
def test_a_batch_that_was_not_written_whole_is_cut_off(opened: Callable[[], FollowedLog], kept_bytes: int) -> None:
    first, last = log_of([1, 2])
    log = opened()
    log.append(first + last)
    (path,) = log.folder.glob("*.log")
    torn = last[:kept_bytes]
    path.write_bytes(first + torn)
    log = opened()
    assert (log.end_offset, log.last_epoch, log.broken_bytes) == (1, 1, len(torn))
    incomplete = f"{path} is damaged at byte {len(first)}: the last {len(torn)} bytes are incomplete"
    assert log.damage == (incomplete if torn else "")
    assert stored(log) == first + torn, "it stays until the leader has sent what comes there"
    log.append(last)
    assert stored(log) == first + last


def test_everything_behind_a_broken_batch_is_fetched_again(
    opened: Callable[[], FollowedLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = log_of([1] * 6)
    monkeypatch.setattr(followed_log, "SEGMENT_BYTES", 2 * len(batches[0]))
    log = opened()
    log.append(b"".join(batches))
    first, second, third = sorted(log.folder.glob("*.log"))
    assert [path.name for path in (first, second, third)] == [f"{at:020}.log" for at in (0, 2, 4)]
    raw = bytearray(second.read_bytes())
    raw[-1] ^= 1
    second.write_bytes(bytes(raw))
    log = opened()
    assert (log.end_offset, log.broken_bytes) == (3, 3 * len(batches[0]))
    assert log.damage.startswith(f"{second} is damaged at byte {len(batches[0])}: ")
    assert "incomplete" not in log.damage
    assert (second.read_bytes(), third.read_bytes()) == (bytes(raw), b"".join(batches[4:]))
    assert log.append(b"") == 0
    assert third.exists()
    log.append(batches[3])
    assert (stored(log), log.broken_bytes, log.damage) == (b"".join(batches[:4]), 0, "")
    log.append(b"".join(batches[4:]))
    assert stored(log) == b"".join(batches)


@pytest.mark.parametrize("leader", ["has less", "has a snapshot"])
def test_a_broken_end_goes_with_what_the_leader_replaces(opened: Callable[[], FollowedLog], leader: str) -> None:
    batches = log_of([1, 1, 1])
    log = opened()
    log.append(b"".join(batches))
    (path,) = log.folder.glob("*.log")
    path.write_bytes(path.read_bytes()[:-1])
    log = opened()
    if leader == "has less":
        assert log.truncate(1, 1) == 1
        assert stored(log) == batches[0]
    else:
        log.begin_anew(snapshot_in(log.folder, 7))
        assert not list(log.folder.glob("*.log"))
    assert log.broken_bytes == 0


def test_a_log_that_ends_before_the_snapshot_stays_until_the_leader_goes_on(opened: Callable[[], FollowedLog]) -> None:
    """A crash has come between a snapshot that was fetched and the end of the older log."""
    log = opened()
    log.append(b"".join(log_of([1, 1])))
    snapshot_in(log.folder, 7)
    log = opened()
    assert (log.start_offset, log.end_offset, log.broken_bytes) == (7, 7, 2 * len(batch(0)))
    assert (log.high_watermark, log.last_committed()) == (7, None)
    assert stored(log) == b"".join(log_of([1, 1]))
    log.append(batch(7))
    assert stored(log) == batch(7)


@pytest.mark.parametrize(("high_watermark", "found"), [(0, None), (2, None), (3, 0), (4, 3), (5, 4), (6, 5), (9, 5)])
def test_the_last_committed_batch_is_found(
    opened: Callable[[], FollowedLog], high_watermark: int, found: int | None
) -> None:
    batches = {0: batch(0, 1, count=3), 3: batch(3, 2), 4: batch(4, 2), 5: batch(5, 4)}
    log = opened()
    log.append(b"".join(batches.values()))
    log.note_high_watermark(high_watermark)
    log.keep_state()
    for one in (log, opened()):
        committed = one.last_committed()
        if found is None:
            assert committed is None
        else:
            assert committed is not None
            assert (committed.base_offset, committed.epoch_before) == (found, {0: 0, 3: 1, 4: 2, 5: 2}[found])
            assert committed.content() == batches[found]


def test_a_committed_batch_is_compared_with_the_leaders(opened: Callable[[], FollowedLog]) -> None:
    log = opened()
    log.append(b"".join(log_of([1, 1])))
    log.note_high_watermark(2)
    committed = log.last_committed()
    assert committed is not None
    for same in (b"", batch(1)[:10], batch(1), batch(1) + batch(2)):
        log.compare(committed, same)
    for other in (b"\1", batch(1)[:-1] + b"\1", batch(1, count=2), batch(2)):
        with pytest.raises(Diverged, match="differs from offset 1 on, and records up to offset 2 were committed"):
            log.compare(committed, other)
    log.truncate(1, 2)
    log.begin_anew(snapshot_in(log.folder, 7))
    assert log.last_committed() is None
    log.append(batch(7, 3))
    log.note_high_watermark(8)
    committed = log.last_committed()
    assert committed is not None
    assert (committed.base_offset, committed.epoch_before) == (7, 1)


def test_a_batch_that_was_cut_off_is_not_compared(opened: Callable[[], FollowedLog]) -> None:
    log = opened()
    log.append(b"".join(log_of([1, 1, 1])))
    log.truncate(1, 1)
    log.append(batch(1, 2, count=5))
    log.note_high_watermark(3)
    committed = log.last_committed()
    assert committed is not None
    assert committed.base_offset == 0


@pytest.mark.parametrize("damage", ["truncated", "lost"])
@pytest.mark.parametrize("leader", ["has the same snapshot", "has a newer snapshot", "has the whole log"])
def test_a_log_whose_snapshot_is_damaged_is_fetched_anew(
    opened: Callable[[], FollowedLog], damage: str, leader: str
) -> None:
    """A twin cannot be made of what is behind the snapshot, however the log goes on there."""
    log = opened()
    whole = snapshot_in(log.folder, 7)
    content = whole.path.read_bytes()
    log.begin_anew(whole)
    log.append(batch(7, 3))
    log.note_high_watermark(8)
    log.keep_state()
    if damage == "truncated":
        whole.path.write_bytes(content[:-1])
    else:
        whole.path.unlink()
    log = opened()
    damaged = len(content) - 1 if damage == "truncated" else 0
    (segment,) = log.folder.glob("*.log")
    first = f"snapshot {whole.path} is damaged at byte " if damaged else f"{segment} does not continue the copy"
    assert log.damage.startswith(first)
    assert (log.end_offset, log.last_epoch, log.broken_bytes) == (0, 0, damaged + len(batch(7, 3)))
    assert stored(log) == batch(7, 3)
    assert log.last_committed() is None
    if leader == "has the whole log":
        log.append(batch(0, 1, count=2))
        assert (stored(log), list(log.folder.glob("*.checkpoint"))) == (batch(0, 1, count=2), [])
    else:
        fetched = snapshot_in(log.folder, 9 if leader == "has a newer snapshot" else 7)
        log.begin_anew(fetched)
        assert (stored(log), list(log.folder.glob("*.checkpoint"))) == (b"", [fetched.path])
        assert log.end_offset == fetched.end_offset
    assert log.broken_bytes == 0


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (batch(3), "it has offsets 3 to 3 where 2 was due"),
        (batch(1, count=2), "it has offsets 1 to 2 where 2 was due"),
        (batch(2, epoch=1), "it has leader epoch 1 behind 2"),
        (batch(2, epoch=2)[:-1] + b"\1", "checksum|crc"),
    ],
    ids=["gap", "overlap", "older epoch", "changed byte"],
)
def test_nothing_is_written_of_an_answer_that_is_wrong(
    opened: Callable[[], FollowedLog], wrong: bytes, reason: str
) -> None:
    log = opened()
    log.append(b"".join(log_of([1, 2])))
    before = stored(log)
    with pytest.raises(CorruptBatch, match=f"(?i){reason}"):
        log.append(wrong)
    assert stored(log) == before
    assert log.end_offset == 2


@pytest.mark.parametrize(
    ("epoch", "end_offset", "cut_to"),
    [(2, 100, 4), (2, 3, 3), (1, 100, 2), (1, 1, 1), (3, 5, 5), (9, 100, 6)],
)
def test_the_copy_is_cut_to_what_both_logs_have(
    opened: Callable[[], FollowedLog], epoch: int, end_offset: int, cut_to: int
) -> None:
    log = opened()
    batches = log_of([1, 1, 2, 2, 3, 3])
    log.append(b"".join(batches))
    assert log.truncate(epoch, end_offset) == cut_to
    assert stored(log) == b"".join(batches[:cut_to])
    last_epoch = log.last_epoch
    log = opened()
    assert (log.end_offset, log.last_epoch) == (cut_to, last_epoch)


def test_what_cannot_change_any_more_is_never_cut_off(opened: Callable[[], FollowedLog]) -> None:
    log = opened()
    log.append(b"".join(log_of([1, 1, 2, 2])))
    log.note_high_watermark(3)
    log.note_high_watermark(1)
    log.keep_state()
    assert log.truncate(2, 3) == 3
    log = opened()
    assert log.high_watermark == 3
    with pytest.raises(Diverged, match=r"log differs from offset 2 on, and records up to offset 3 were committed"):
        log.truncate(1, 100)
    assert log.end_offset == 3


def test_a_high_watermark_beyond_the_copy_promises_only_what_is_there(opened: Callable[[], FollowedLog]) -> None:
    log = opened()
    log.append(batch(0))
    log.note_high_watermark(50)
    assert log.high_watermark == 1


def test_the_copy_begins_anew_behind_a_snapshot(opened: Callable[[], FollowedLog]) -> None:
    log = opened()
    log.append(b"".join(log_of([1, 1])))
    snapshot = snapshot_in(log.folder, 10, 3)
    log.begin_anew(snapshot)
    assert (log.start_offset, log.end_offset, log.last_epoch, log.high_watermark) == (10, 10, 3, 10)
    assert sorted(one.name for one in log.folder.iterdir()) == [snapshot.path.name]
    log.append(batch(10, 3))
    log = opened()
    assert (log.start_offset, log.end_offset, log.last_epoch) == (10, 11, 3)


def test_a_damaged_snapshot_counts_as_none(opened: Callable[[], FollowedLog]) -> None:
    log = opened()
    snapshot_path(log.folder, 10, 3).write_bytes(b"no snapshot")
    log = opened()
    assert (log.end_offset, log.last_epoch) == (0, 0)


def test_a_directory_is_of_one_cluster_and_of_one_follower(tmp_path: Path, opened: Callable[[], FollowedLog]) -> None:
    log = opened()
    identity = log.identity
    assert identity is not None
    assert identity.replica_id >= FIRST_REPLICA_ID
    with pytest.raises(LogError, match=r"is a copy of cluster AAAAAAAAAAAAAAAAAAAAAQ, and this is cluster other"):
        log.name("other")
    with pytest.raises(LogError, match="is in use by another Klamm"):
        FollowedLog(tmp_path / "copy")
    assert opened().identity == identity


CONTROLLERS_PROPERTIES = "version=1\nnode.id=3000\ncluster.id=x\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"


@pytest.mark.parametrize("content", [CONTROLLERS_PROPERTIES, "x"])
def test_the_directory_of_a_controller_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "meta.properties").write_text(content)
    (tmp_path / LOG_FOLDER).mkdir()
    with pytest.raises(LogError, match="of klamm follow"):
        FollowedLog(tmp_path)


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(LogError, match="is no data directory"):
        FollowedLog(tmp_path)


def test_a_directory_in_which_nothing_was_copied_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for data_dir in (tmp_path / "empty", tmp_path / "new" / "copy"):
        log = FollowedLog(data_dir)
        assert (data_dir / LOG_FOLDER).is_dir()
        log.keep_state()
        log.close()
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


def test_a_clone_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(f"version=1\nnode.id=-1\ncluster.id={CLUSTER_ID}\n")
    with pytest.raises(LogError, match="is a copy that klamm clone wrote, which klamm follow cannot continue"):
        FollowedLog(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["meta.properties"]


def test_a_controller_does_not_start_on_a_copy(opened: Callable[[], FollowedLog]) -> None:
    data_dir = opened().data_dir
    with pytest.raises(LogError, match="is a copy that klamm follow keeps: klamm serve --twin begins with it"):
        load_identity(data_dir, Identity(CLUSTER_ID, uuid_of(1)))
