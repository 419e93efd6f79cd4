"""`scripts/crash`: a short run of it, and that it would notice what must not be."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from klamm.controller.core import Controller
from klamm.controller.metadata.replay import replay
from klamm.controller.settings import Settings
from klamm.protocol.record_batch import decode_batches
from klamm.protocol.records.topics import TopicRecord
from klamm.protocol.uuid import Uuid
from tests.controller.log.logs import (
    TIMESTAMP_MS,
    append_records,
    batch_starts,
    forget_recovery_point,
    open_log,
    segment_files,
    write_log,
)
from tools.hard_knocks.broker_changes import BrokerLedger
from tools.hard_knocks.clients import Tally
from tools.hard_knocks.facts import Ledger, Topic, Topics
from tools.hard_knocks.raw_log import BadLog, LogReader, topics_of
from tools.hard_knocks.rounds import Life, Plan, plan_round, play_round
from tools.hard_knocks.warm_start import WarmInterpreter

ROOT = Path(__file__).parents[3]
SECONDS = 600.0
SEED = 2
PLAN = Plan(
    seed=1,
    number=0,
    in_start=False,
    kill_after_seconds=0.2,
    control=False,
    segment_bytes=1 << 20,
    snapshot_records=None,
)


def test_nothing_is_lost_in_ten_rounds(tmp_path: Path) -> None:
    """Whatever the kills hit: among them are one in a start, and some with brokers that come and go."""
    plans = [plan_round(SEED, number) for number in range(10)]
    assert any(plan.in_start for plan in plans)
    assert any(plan.control and not plan.in_start for plan in plans)
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "tools.hard_knocks",
            "--times",
            "10",
            "--seed",
            str(SEED),
            "--keep",
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT)},
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    closing = done.stdout.splitlines()[-1]
    found = re.fullmatch(
        rf"crash: seed {SEED}, 10 kills, (\d+) changes acknowledged, .*; 10 rounds passed, 0 failed", closing
    )
    assert found, closing
    assert int(found[1]) > 0
    reader = LogReader(tmp_path / "data")
    assert reader.read_on() == 0
    assert reader.leader_epoch >= 9, "it is one log, which was gone on with"


async def test_a_change_that_is_lost_is_found(tmp_path: Path) -> None:
    """The last batch of the log is taken away between two rounds, as if its answer had come before its bytes."""
    with WarmInterpreter() as interpreter:
        life, tally = Life(tmp_path / "data", tmp_path / "stderr", interpreter), Tally()
        while not life.known():
            await play_round(PLAN, life, tally)
            assert tally.faults == []
        lose_the_last_topic(life)
        await play_round(PLAN, life, tally)
    assert any(re.match(r"server: client\d-\d+: known as .*, found as nothing", fault) for fault in tally.faults)
    assert any("has changed within" in fault for fault in tally.faults)


def lose_the_last_topic(life: Life) -> None:
    """Cut the log off before the last batch that makes a topic which is there. Where a topic is lost together with its
    deletion, no client misses anything."""
    (segment,) = segment_files(life.data_dir)
    data = segment.read_bytes()
    assert life.torn_bytes == 0
    changes = [
        start
        for start, batch in zip(batch_starts(data), decode_batches(data), strict=False)
        if not batch.is_control
        and any(isinstance(record, TopicRecord) and record.name in life.known() for record in batch.records)
    ]
    segment.write_bytes(data[: changes[-1]])
    forget_recovery_point(life.data_dir)  # or the next start refuses a log that has lost what was durable


async def test_snapshots_that_the_server_takes_by_itself_are_read(tmp_path: Path) -> None:
    with WarmInterpreter() as interpreter:
        life, tally = Life(tmp_path / "data", tmp_path / "stderr", interpreter), Tally()
        while not tally.snapshots:
            await play_round(replace(PLAN, snapshot_records=50), life, tally)
            assert tally.faults == []


def test_a_third_of_the_rounds_takes_snapshots() -> None:
    plans = [plan_round(SEED, number) for number in range(300)]
    assert 80 <= sum(plan.snapshot_records is not None for plan in plans) <= 120


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_neither_files_nor_processes_behind(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "tools.hard_knocks", "--times", "1000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        start_new_session=True,
    ) as process:
        deadline = time.monotonic() + SECONDS
        while not list(tmp_path.glob("klamm-crash-*/data/*")):
            assert process.poll() is None
            assert time.monotonic() < deadline
        assert process_ids_with(tmp_path) > {process.pid}
        os.killpg(process.pid, number)  # as a terminal has it, and timeout(1)
        said, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 128 + number
    assert re.fullmatch(r"(.* kills, .*\n)*crash: .* rounds passed, 0 failed\n", said), said
    assert list(tmp_path.iterdir()) == []
    assert process_ids_with(tmp_path) == set()


def process_ids_with(folder: Path) -> set[int]:
    """The processes whose temporary files are to be in this folder."""
    found = set()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it is not ours, or is gone
            if f"TMPDIR={folder}\0".encode() in environment.read_bytes():
                found.add(int(environment.parent.name))
    return found


def topic(topic_id: str | None, *targets: tuple[int, ...] | None, **configs: str) -> Topic:
    return Topic(topic_id, targets).with_configs(configs)


BEFORE = {"c-1": topic("A", (1, 2)), "c-2": topic(None, None)}
AFTER = {"c-1": topic("A", (1, 2), (3, 1)), "c-2": topic(None, None), "c-3": topic(None, (1,))}


@pytest.mark.parametrize(("found", "carried_out", "faults"), [
    ({"c-1": topic("A", (1, 2)), "c-2": topic("B", (3,))}, False, 0),
    ({"c-1": topic("A", (1, 2), (3, 1)), "c-2": topic("B", (3,)), "c-3": topic("C", (1,))}, True, 0),
    ({"c-1": topic("A", (1, 2), (3, 1)), "c-2": topic("B", (3,))}, None, 3),  # half of it
    ({"c-1": topic("X", (1, 2)), "c-2": topic("B", (3,))}, None, 4),  # another topic of that name
    ({"c-2": topic("B", (3,))}, None, 4),  # lost
    ({"c-1": topic("A", (1, 2)), "c-2": topic("B", (3,)), "c-9": topic("D", (1,))}, None, 5),  # nobody's
])  # fmt: skip
def test_after_a_crash_a_request_is_carried_out_whole_or_not_at_all(
    found: Topics, carried_out: bool | None, faults: int
) -> None:
    ledger = Ledger("c")
    ledger.acknowledge(BEFORE)
    ledger.ask("some", AFTER)
    verdict, reported = ledger.settle(found)
    assert (verdict, len(reported)) == (carried_out, faults), reported
    assert ledger.known == found


def test_without_a_request_under_way_everything_is_as_it_was() -> None:
    ledger = Ledger("c")
    ledger.acknowledge(BEFORE)
    assert ledger.settle({"c-1": topic("A", (1, 2)), "c-2": topic("B", (3,))}) == (None, [])
    verdict, reported = ledger.settle({"c-1": topic("A", (1, 2)), "c-2": topic("B", (2,))})
    assert (verdict, len(reported)) == (None, 1), "what was seen once has to stay"


@pytest.mark.parametrize(("found", "verdict", "faults"), [({4}, False, 0), ({4, 5}, True, 0), ({5}, None, 1)])
def test_brokers_are_there_or_not(found: set[int], verdict: bool | None, faults: int) -> None:
    ledger = BrokerLedger(frozenset({4}))
    ledger.ask(frozenset({4, 5}))
    settled, reported = ledger.settle(frozenset(found))
    assert (settled, len(reported)) == (verdict, faults)


def new_topic(number: int) -> list[TopicRecord]:
    return [TopicRecord(name=f"topic-{number}", topic_id=Uuid(number.to_bytes(16, "big")))]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log in three segments, each of two batches."""
    write_log(tmp_path, [new_topic(number) for number in range(1, 6)], segment_bytes=200)
    assert len(segment_files(tmp_path)) == 3
    return tmp_path


def test_a_log_is_read_on_where_it_was_left(log: Path) -> None:
    reader = LogReader(log)
    assert reader.read_on() == 0
    assert (reader.end_offset, reader.leader_epoch) == (6, 1)
    again = open_log(log, segment_bytes=200)
    append_records(again, new_topic(7), TIMESTAMP_MS)
    again.close()
    with segment_files(log)[-1].open("ab") as file:
        file.write(bytes(5))
    assert reader.read_on() == 5
    assert (reader.end_offset, reader.leader_epoch) == (8, 2)
    assert sorted(topics_of(reader.image)) == [f"topic-{number}" for number in (1, 2, 3, 4, 5, 7)]


@pytest.mark.parametrize(("number", "damage", "said"), [
    (0, lambda data: data[:-1], "has changed within"),
    (1, lambda data: data[:70] + b"x" + data[71:], "has changed within"),
    (1, None, "is not there any more"),
    (1, lambda data: data + b"x", "ends with half a batch, and another segment follows"),
    (2, lambda data: data + data, "offset 4 where 6 belongs"),
    (2, lambda data: data + b"\xff" * 200, "segment 4, byte"),
])  # fmt: skip
def test_what_a_crash_cannot_leave_is_found(log: Path, number: int, damage: object, said: str) -> None:
    reader = LogReader(log)
    reader.read_on()
    segment = segment_files(log)[number]
    if callable(damage):
        segment.write_bytes(damage(segment.read_bytes()))
    else:
        segment.unlink()
    with pytest.raises(BadLog, match=said):
        reader.read_on()


def test_a_log_that_has_never_been_whole_is_found(log: Path) -> None:
    segment_files(log)[0].unlink()
    with pytest.raises(BadLog, match="offsets 0 to 1 are not there"):
        LogReader(log).read_on()


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """The snapshot of a log that goes on behind it."""
    log = open_log(tmp_path)
    try:
        controller = Controller(Settings(seed=1), log, lambda: TIMESTAMP_MS)
        for number in (1, 2):
            replay(controller.image, new_topic(number), append_records(log, new_topic(number), TIMESTAMP_MS)[0])
            pending = controller.begin_snapshot(roll=True) if number == 1 else None
            log.sync()
            if pending is not None:
                pending.write()
    finally:
        log.close()
    (path,) = (tmp_path / "__cluster_metadata-0").glob("*.checkpoint")
    return path


def test_a_snapshot_says_what_the_log_says(tmp_path: Path, snapshot: Path) -> None:
    reader = LogReader(tmp_path)
    assert reader.read_on() == 0
    assert (reader.snapshots, len(topics_of(reader.image))) == (1, 2)


def test_a_snapshot_stands_for_the_segments_that_are_gone(tmp_path: Path, snapshot: Path) -> None:
    segment_files(tmp_path)[0].unlink()
    reader = LogReader(tmp_path)
    reader.read_on()
    assert (reader.snapshots, len(topics_of(reader.image))) == (1, 2)
    snapshot.unlink()
    with pytest.raises(BadLog, match="are not there, and no snapshot is, either"):
        LogReader(tmp_path).read_on()


def test_a_snapshot_that_is_not_whole_or_not_true_is_found(tmp_path: Path, snapshot: Path) -> None:
    data = snapshot.read_bytes()
    starts = batch_starts(data)
    for cut, said in ((len(data) - 1, "batch"), (starts[-2], "is not between a header and a footer")):
        snapshot.write_bytes(data[:cut])
        with pytest.raises(BadLog, match=said):
            LogReader(tmp_path).read_on()
    snapshot.write_bytes(data)
    end_offset, epoch = snapshot.stem.split("-")
    later = snapshot.with_name(f"{int(end_offset) + 1:020}-{epoch}.checkpoint")
    snapshot.rename(later)
    with pytest.raises(BadLog, match=r"says otherwise than the log: topic-2: known as .*, found as nothing"):
        LogReader(tmp_path).read_on()
    later.rename(later.with_name(f"{int(end_offset) + 9:020}-{epoch}.checkpoint"))
    with pytest.raises(BadLog, match="ends where no batch does"):
        LogReader(tmp_path).read_on()
