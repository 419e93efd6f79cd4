"""The power may fail at any moment, and the disk may have stored any part of the unsynced data: a start succeeds, and
finds everything that was durable. Each story is recorded once. Then the power fails before each of its operations and
after the last one, with every fate of `tools.power_loss.fates`."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.controller.log.logs import TIMESTAMP_MS, append_records, open_log, segment_files
from tests.controller.log.stories import Facts, Story, lacking, new_story, topic
from tools.power_loss.disk import Killed
from tools.power_loss.fates import every_fate
from tools.power_loss.history import DiskState


def first_start(story: Story) -> None:
    story.start()


def appends(story: Story) -> None:
    """In one segment, some synced singly, some together, the last ones not at all."""
    story.start()
    for batches in (1, 3, 2):
        story.append(batches)
        story.sync()
    story.append(2)


def rolling_segments(story: Story) -> None:
    """The log rolls after what is durable, and several times between two syncs."""
    story.start(segment_bytes=300)
    for batches in (1, 1, 5, 1):
        story.append(batches)
        story.sync()
    story.append(4)


def a_segment_for_each_batch(story: Story) -> None:
    story.start(segment_bytes=1)
    for batches in (1, 2):
        story.append(batches)
        story.sync()
    story.append(2)


def appends_during_syncs(story: Story) -> None:
    """As when the event loop appends while a thread syncs: the sync does not promise these records."""
    story.start(segment_bytes=300)
    for _ in range(3):
        story.append()
        story.disk.on_sync = during = DuringSync(story)
        story.sync()
        assert during.was_called


class DuringSync:
    """Appends records during the first sync."""

    def __init__(self, story: Story) -> None:
        self.was_called = False
        self._story = story

    def __call__(self) -> None:
        if not self.was_called:
            self.was_called = True
            self._story.append(3)


def restarts(story: Story) -> None:
    """After a clean stop, and after a kill with all writes in the page cache."""
    for batches in (3, 0):
        story.start(segment_bytes=300)
        story.append(batches)
        story.sync()
        story.append(batches)
        story.kill()
    story.start(segment_bytes=300)


def restarts_that_roll_at_once(story: Story) -> None:
    """What the killed process left in its last segment is synced before a new segment begins."""
    for _ in range(2):
        story.start(segment_bytes=1)
        story.append()
        story.kill()
    story.start(segment_bytes=1)


def snapshots(story: Story) -> None:
    """Each one in a log that has rolled: older snapshots, and segments below them, are removed."""
    story.start(segment_bytes=300)
    for _ in range(3):
        story.append(3)
        story.sync()
        story.snapshot()
    story.append()
    story.sync()


def snapshots_of_a_log_that_does_not_roll(story: Story) -> None:
    for _ in range(3):
        story.start()
        story.append()
        story.sync()
        story.snapshot(roll=False)
        story.kill()


def a_torn_tail(story: Story) -> None:
    """A process was killed during a write. The next start cuts off what it wrote, and continues in the same segment or
    in a new one."""
    story.start()
    for segment_bytes in (1 << 30, 1):
        story.append()
        story.kill()
        with segment_files(story.data_dir)[-1].open("ab") as file:
            file.write(bytes(70))
        story.start(segment_bytes)


def a_segment_that_was_never_written(story: Story) -> None:
    """A process was killed when it had created a segment. The next start removes the file, and the log rolls
    elsewhere."""
    story.start(segment_bytes=1)
    story.append(3)
    story.kill()
    last = segment_files(story.data_dir)[-1]
    last.with_name(f"{int(last.stem) + 1:020}.log").touch()
    story.start(segment_bytes=400)
    story.append(5)
    story.sync()


def cut_below_a_snapshot(data_dir: Path) -> None:
    log = open_log(data_dir)
    append_records(log, [topic(0), topic(1)], TIMESTAMP_MS)
    append_records(log, [topic(2)], TIMESTAMP_MS)
    log.sync()
    log.begin_snapshot(roll=False).write([[topic(0), topic(1), topic(2)]], TIMESTAMP_MS)
    log.close()
    (segment,) = segment_files(data_dir)
    os.truncate(segment, segment.stat().st_size - 1)


def a_log_that_ends_below_its_snapshot(story: Story) -> None:
    """It begins anew at the end of the snapshot."""
    story.start(segment_bytes=300)
    story.append(5)
    story.sync()


def format_as_kafka_does(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "meta.properties").write_text("version=1\nnode.id=3000\ncluster.id=abc\n")


def a_directory_without_an_id(story: Story) -> None:
    """A start adds one."""
    story.start()


def kept_log_ends(story: Story) -> None:
    """Also after a process was killed."""
    for first in (5, 205):
        story.start()
        for offset in (first, first + 2, first + 95, first + 97):
            story.keep_log_end(offset)
        story.kill()


def a_bit_of_everything(story: Story) -> None:
    story.start(segment_bytes=300)
    for _ in range(2):
        story.append(2)
        story.sync()
        story.snapshot()
        story.keep_log_end(story.written)


STORIES: dict[Callable[[Story], None], Callable[[Path], None] | None] = {
    first_start: None,
    appends: None,
    rolling_segments: None,
    a_segment_for_each_batch: None,
    appends_during_syncs: None,
    restarts: None,
    restarts_that_roll_at_once: None,
    snapshots: None,
    snapshots_of_a_log_that_does_not_roll: None,
    a_torn_tail: None,
    a_segment_that_was_never_written: None,
    a_log_that_ends_below_its_snapshot: cut_below_a_snapshot,
    a_directory_without_an_id: format_as_kafka_does,
    kept_log_ends: None,
}
"""With the content of the data directory before the story begins."""


Found = dict[tuple[tuple[str, bytes | None], ...], Facts]
"""What a start finds in each state of the disk; equal states are started from once."""


def expect_promises_kept(story: Story, state: DiskState, promised: Facts, found: Found) -> None:
    """Let the power fail in this state, with every fate."""
    for fate in every_fate(state):
        picture = state.picture(fate)
        key = tuple(picture.items())
        if key not in found:
            found[key] = story.find_after(picture)
        lacks = lacking(found[key], promised)
        assert not lacks, f"{fate} of {state.pending}: {lacks}"


@pytest.mark.parametrize("told", STORIES, ids=lambda told: told.__name__)
def test_a_start_finds_all_that_was_durable_wherever_the_power_is_lost(told: Callable[[Story], None]) -> None:
    with new_story(prepare=STORIES[told]) as story:
        told(story)
    found: Found = {}
    for point, state in story.disk.states():
        expect_promises_kept(story, state, story.promised_at(point), found)
    assert len(found) > len(story.disk.operations) / 2, "most operations leave something to lose"


def test_what_a_start_finds_after_a_kill_at_any_step_is_durable() -> None:
    """A start promises what it finds, and the process before it may have died between a change and its fsync."""
    step, is_over = 0, False
    found: Found = {}
    while not is_over:
        with new_story("not/yet/there") as story:
            story.disk.kill_before(step)
            with suppress(Killed):
                a_bit_of_everything(story)
                is_over = True
            story.kill()
            story.disk.revive()
            story.start()
            expect_promises_kept(story, story.disk.state, story.promised, found)
        step += 1
    assert step > 30
