"""When snapshots are taken, moment by moment, and what happens if one cannot be written."""

import io
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio
from trio.testing import MockClock

from klamm.controller.core import Controller
from klamm.controller.log import MemoryLog, SegmentLog
from klamm.controller.metadata.snapshot import BATCH_RECORDS_ALONE
from klamm.controller.metadata_log import SnapshotFailed
from klamm.controller.settings import Settings
from klamm.protocol.records.configs import ConfigRecord
from klamm.server.event_log import EventLog
from klamm.server.flusher import Flusher
from klamm.server.snapshot_keeper import (
    LOOK_SECONDS,
    PATIENCE_SECONDS,
    SWITCH_SECONDS,
    SnapshotKeeper,
)
from tests.controller.log.controllers import FOLDER, files, snapshot_files
from tests.controller.log.logs import CLUSTER_ID, DIRECTORY_ID, TIMESTAMP_MS, open_log
from tests.server.harness import make_memory_log

IDLE_SECONDS = 0.02
"""If nothing happens for this long, the test's clock jumps, also while a thread writes. Tests therefore wait for
results of that thread on the test's clock, which may have jumped far ahead."""
EVERY = 20


class Kept:
    """A keeper, and the objects it works with."""

    def __init__(self, log: SegmentLog | MemoryLog, every_records: int) -> None:
        self.log = log
        self.controller = Controller(Settings(seed=1), log, lambda: TIMESTAMP_MS)
        self.stderr = io.StringIO()
        self.flusher = Flusher(log)
        events = EventLog("console", self.stderr)
        self.keeper = SnapshotKeeper(self.controller, log, self.flusher, events, every_records)
        self.written = 0

    def write(self, records: int) -> None:
        """Append this many records in one batch; the image gets the same number of configs."""
        self.controller._commit(
            [
                ConfigRecord(resource_type=4, resource_name="1", name=f"c{self.written + n}", value="v")
                for n in range(records)
            ]
        )
        self.written += records
        self.flusher.notice()

    @property
    def ends(self) -> int:
        """The end offset of the newest snapshot; -1 without one."""
        return self.log.snapshot.end_offset if self.log.snapshot else -1


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(10_000):
        while not condition():  # noqa: ASYNC110 - on the mock clock
            await trio.sleep(LOOK_SECONDS)


@asynccontextmanager
async def kept(data_dir: Path | MemoryLog, every_records: int = EVERY) -> AsyncIterator[Kept]:
    log = open_log(data_dir) if isinstance(data_dir, Path) else data_dir
    try:
        kept = Kept(log, every_records)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kept.flusher.flush_forever)
            nursery.start_soon(kept.keeper.keep_forever)
            yield kept
            nursery.cancel_scope.cancel()
    finally:
        log.close()


@pytest.fixture
def clock(mock_clock: MockClock) -> MockClock:
    mock_clock.autojump_threshold = IDLE_SECONDS
    return mock_clock


async def test_after_so_many_records_once_the_log_rests(clock: MockClock, tmp_path: Path) -> None:
    async with kept(tmp_path) as one:
        one.write(EVERY - one.log.end_offset - 1)
        await trio.sleep(5 * LOOK_SECONDS)
        assert one.ends == -1
        one.write(1)
        await until(lambda: one.ends == EVERY)
        first = one.log.snapshot
        await trio.sleep(5 * LOOK_SECONDS)
        assert one.log.snapshot == first


async def test_a_snapshot_that_is_due_at_the_start_is_taken_at_the_second_look(
    clock: MockClock, tmp_path: Path
) -> None:
    """The first check cannot know whether the log is idle, because the brokers are about to register."""
    log = open_log(tmp_path)
    Kept(log, 0).write(EVERY)
    log.sync()
    log.close()
    async with kept(tmp_path) as one:
        await trio.testing.wait_all_tasks_blocked()
        assert one.ends == -1
        one.write(1)
        await trio.sleep(1.5 * LOOK_SECONDS)
        assert one.ends == -1, "it has grown since the first look"
        await until(lambda: one.ends == one.log.end_offset)


async def test_on_demand_the_newest_one_is_enough_if_nothing_came_since(clock: MockClock, tmp_path: Path) -> None:
    async with kept(tmp_path, every_records=0) as one:
        one.write(3)
        first = await one.keeper.take()
        (written,) = snapshot_files(tmp_path)
        inode, segments = written.path.stat().st_ino, files(tmp_path)
        assert await one.keeper.take() == first
        assert written.path.stat().st_ino == inode
        assert files(tmp_path) == segments
        one.write(1)
        second = await one.keeper.take()
        assert second.end_offset == first.end_offset + 1


async def test_never_sooner_than_after_as_many_records_as_the_last_one_has(clock: MockClock, tmp_path: Path) -> None:
    async with kept(tmp_path) as one:
        one.write(10 * EVERY)
        await until(lambda: one.ends == one.log.end_offset)
        first = one.log.snapshot
        assert first is not None
        assert first.record_count > 10 * EVERY
        one.write(first.record_count - 1)
        await trio.sleep(3.5 * LOOK_SECONDS)
        assert one.log.snapshot == first
        one.write(1)
        await until(lambda: one.ends == one.log.end_offset)


async def test_while_records_come_it_waits_for_a_while_each_time(clock: MockClock, tmp_path: Path) -> None:
    async with kept(tmp_path) as one:
        for _ in range(3):
            newest, before = one.log.snapshot, one.ends
            one.write(max(EVERY, newest.record_count if newest else 0))
            began = trio.current_time()
            with trio.fail_after(100 * PATIENCE_SECONDS):
                while one.ends == before:
                    one.write(1)
                    await trio.sleep(LOOK_SECONDS / 2)
            assert trio.current_time() - began > PATIENCE_SECONDS - 2 * LOOK_SECONDS


async def test_zero_is_never_but_on_demand(clock: MockClock, tmp_path: Path) -> None:
    async with kept(tmp_path, every_records=0) as one:
        one.write(10 * EVERY)
        await trio.sleep(2 * PATIENCE_SECONDS)
        assert one.ends == -1
        one.keeper.take_now()
        assert one.ends == -1
        assert (await one.keeper.take()).end_offset == one.log.end_offset


async def test_while_a_thread_writes_it_takes_short_turns_and_rests(
    clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float] = []
    monkeypatch.setattr("klamm.server.snapshot_keeper.WORK_SECONDS", 0.0)
    # Only the keeper's own clock: other threads of this process may sleep, too.
    own = SimpleNamespace(thread_time=time.thread_time, sleep=lambda _seconds: seen.append(sys.getswitchinterval()))
    monkeypatch.setattr("klamm.server.snapshot_keeper.time", own)
    before = sys.getswitchinterval()
    try:
        sys.setswitchinterval(10 * SWITCH_SECONDS)
        async with kept(tmp_path, every_records=0) as one:
            one.write(4 * BATCH_RECORDS_ALONE)
            await one.keeper.take()
        assert len(seen) > 3, "after each piece"
        assert seen == [pytest.approx(SWITCH_SECONDS)] * len(seen)
        assert sys.getswitchinterval() == pytest.approx(10 * SWITCH_SECONDS)
    finally:
        sys.setswitchinterval(before)


async def test_on_demand_it_stands_for_all_that_was_appended(clock: MockClock, tmp_path: Path) -> None:
    async with kept(tmp_path) as one:
        one.write(3)
        end_offset = one.log.end_offset
        taken = await one.keeper.take()
        assert taken.end_offset == end_offset == one.ends
        assert await one.keeper.take() == taken, "there is nothing new to say"
        assert len(snapshot_files(tmp_path)) == 1
        one.write(1)
        assert (await one.keeper.take()).end_offset == end_offset + 1
        older, newer = end_offset, end_offset + 1
        assert files(tmp_path) == [f"{older}.checkpoint", f"{older}.log", f"{newer}.checkpoint"]


async def test_who_asks_at_once_is_served_one_after_the_other(clock: MockClock, tmp_path: Path) -> None:
    async with kept(tmp_path) as one:
        ends: list[int] = []

        async def ask() -> None:
            one.write(1)
            ends.append((await one.keeper.take()).end_offset)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ask)
        # The first may have begun before the others wrote; each snapshot has what was written before its call.
        assert ends[-1] == one.log.end_offset == one.ends
        assert len(snapshot_files(tmp_path)) <= 2


async def test_a_log_in_memory_is_shortened_and_gets_none_at_the_end(clock: MockClock) -> None:
    async with kept(make_memory_log()) as one:
        for _ in range(5):
            one.write(EVERY)
        await until(lambda: one.ends == one.log.end_offset)
        one.write(1)
        assert [batch.base_offset for batch in one.log.read()] == [one.ends]
        one.keeper.take_now()
        assert one.ends == one.log.end_offset - 1
        assert one.stderr.getvalue() == ""


async def test_a_log_in_memory_that_nears_its_limit_does_not_wait_for_rest(clock: MockClock) -> None:
    """It does not wait for a number of records either, because few records may have many bytes."""
    log = MemoryLog(CLUSTER_ID, DIRECTORY_ID, TIMESTAMP_MS, max_log_bytes=100_000)
    async with kept(log, every_records=1_000_000) as one:
        written = 0
        while written < 200_000:
            before = len(log.log_bytes())
            one.write(100)
            written += max(0, len(log.log_bytes()) - before)
            assert len(log.log_bytes()) < 50_000
            await trio.sleep(LOOK_SECONDS)
        assert one.log.snapshot is not None


async def test_one_that_cannot_be_written_is_a_warning_and_tried_again(clock: MockClock, tmp_path: Path) -> None:
    async with kept(tmp_path) as one:
        one.write(EVERY)
        end_offset = one.log.end_offset
        in_the_way = tmp_path / FOLDER / f"{end_offset:020}-0000000001.checkpoint"
        in_the_way.mkdir()
        await until(lambda: "no snapshot was written" in one.stderr.getvalue())
        with pytest.raises(SnapshotFailed, match="cannot write"):
            await one.keeper.take()
        reported = one.stderr.getvalue().count("no snapshot was written")
        one.keeper.take_now()
        assert one.stderr.getvalue().count("no snapshot was written") == reported + 1
        in_the_way.rmdir()
        assert one.ends == -1
        await until(lambda: one.ends == end_offset)


async def test_at_the_end_if_there_is_something_to_say(clock: MockClock, tmp_path: Path) -> None:
    async with kept(tmp_path) as one:
        one.write(1)
        one.log.sync()
        one.keeper.take_now()
        end_offset = one.log.end_offset
        assert one.ends == end_offset
        one.keeper.take_now()
        assert len(snapshot_files(tmp_path)) == 1
    async with kept(tmp_path) as one:
        assert one.log.end_offset == end_offset + 1
        one.keeper.take_now()
        assert one.ends == end_offset, "a start alone is nothing to say"
        one.write(1)
        one.log.sync()
        one.keeper.take_now()
        assert one.ends == end_offset + 2
        one.write(1)
        assert [name for name in files(tmp_path) if name.endswith(".log")] == ["0.log"], "it does not roll the log"
    assert "0.log" in files(tmp_path), "the log keeps its history"
