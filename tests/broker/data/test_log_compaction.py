"""Compaction of one log: what stays, with which offsets, and when tombstones and markers go."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.broker.data import log_compaction
from klamm.broker.data.control_batches import EndMarker, encode_marker
from klamm.broker.data.filtered_batches import DELETE_HORIZON
from klamm.broker.data.log_compaction import LogCompaction
from klamm.broker.data.record_batches import ProducedBatch
from tests.broker.data.batches import GZIP, TRANSACTIONAL
from tests.broker.data.cleanup_cases import COMPACTS, DAY_MS, NOW, Log, Pair, produced
from tests.broker.data.rooms import room

A, B, C = (b"a", b"1"), (b"b", b"2"), (b"c", b"3")
NO_A: Pair = (b"a", None)


def closed(log: Log) -> Log:
    """Add an active segment with one record."""
    log.close_segment()
    log.put((b"active", b"x"))
    return log


def transactional(producer_id: int, sequence: int, *pairs: Pair) -> ProducedBatch:
    numbers = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
    return produced(*pairs, attributes=TRANSACTIONAL, **numbers)


def end(log: Log, producer_id: int, *, commits: bool) -> int:
    return log.append(encode_marker(producer_id, 0, EndMarker(commits, 0), NOW))


def test_the_newest_record_of_each_key_stays_at_its_offset() -> None:
    log = Log(COMPACTS)
    log.put(A, B, (b"a", b"new"))
    log.put((b"b", b"new"), C)
    closed(log).compact()
    assert log.pairs == {2: (b"a", b"new"), 3: (b"b", b"new"), 4: C, 5: (b"active", b"x")}
    first = log.batches[0]
    assert (first.base_offset, first.last_offset_delta, first.record_count) == (0, 2, 1)
    assert log.log.log_start_offset == 0
    assert log.log.read(0, 1, 6) == first.records


def test_the_active_segment_stays_and_its_keys_do_not_count() -> None:
    log = Log(COMPACTS)
    log.put(A)
    log.put(B)
    log.close_segment()
    log.put((b"a", b"later"), (b"a", b"last"))
    log.compact()
    assert list(log.pairs) == [0, 1, 2, 3]
    assert log.dirty() is None
    log.close_segment()
    log.put(C)
    log.compact()
    assert list(log.pairs) == [1, 3, 4]


def test_a_batch_without_records_goes_but_for_the_last_one() -> None:
    log = Log(COMPACTS)
    for _ in range(3):
        log.put(A)
    log.put((b"a", b"x"))
    log.put((None, b"no key"))
    closed(log).compact()
    assert [(one.base_offset, one.record_count) for one in log.batches] == [(3, 1), (4, 0), (5, 1)]
    assert log.log.find_offset(NOW) is not None
    assert log.log.find_offset(-3) == (3, NOW, 0)


def test_the_newest_batch_of_a_producer_stays_though_it_has_no_records() -> None:
    log = Log(COMPACTS)
    for sequence in range(2):
        log.put(A, producer_id=7, producer_epoch=0, base_sequence=sequence)
    log.put((b"a", b"other"))
    closed(log).compact()
    assert [(one.base_offset, one.record_count, one.base_sequence) for one in log.batches] == [
        (1, 0, 1), (2, 1, -1), (3, 1, -1),
    ]  # fmt: skip


def test_tombstones_go_when_their_time_is_over() -> None:
    log = Log(replace(COMPACTS, delete_retention_ms=1000))
    log.put(A, NO_A)
    closed(log).compact(NOW)
    (first, _) = log.batches
    assert log.pairs == {1: NO_A, 2: (b"active", b"x")}
    assert first.attributes & DELETE_HORIZON
    assert first.base_timestamp_ms == NOW + 1000
    assert log.records[0].timestamp_ms == NOW
    for now_ms, count in ((NOW + 999, 1), (NOW + 1000, 0)):
        log.close_segment()
        log.put(B)
        log.compact(now_ms)
        assert sum(one.value is None for one in log.records) == count
    assert log.batches[0].base_offset > 0


@pytest.mark.parametrize("attributes", [0, GZIP])
def test_batches_keep_their_form(attributes: int) -> None:
    log = Log(COMPACTS)
    log.put(A, B, A, C, attributes=attributes)
    closed(log).compact()
    first = log.batches[0]
    assert first.compression == attributes
    assert list(log.pairs.items())[:3] == [(1, B), (2, A), (3, C)]


def test_aborted_records_go_and_then_their_marker() -> None:
    log = Log(replace(COMPACTS, delete_retention_ms=1000))
    log.put((b"k", b"old"))
    log.append(transactional(7, 0, (b"k", b"aborted")))
    assert end(log, 7, commits=False) == 2
    log.append(transactional(7, 1, C))
    end(log, 7, commits=True)
    closed(log).compact()
    assert log.pairs == {0: (b"k", b"old"), 3: C, 5: (b"active", b"x")}
    assert [one.last_offset for one in log.found.transactions.aborted_between(0, 9)] == [2]
    log.close_segment()
    log.put(B)
    log.compact()
    markers = [one for one in log.batches if one.is_control]
    assert [(one.base_offset, one.base_timestamp_ms - NOW) for one in markers] == [(2, 1000), (4, 0)]
    assert log.found.transactions.aborted_between(0, 9) == []
    log.close_segment()
    log.put(B)
    log.compact(NOW + 1000)
    assert [one.base_offset for one in log.batches if one.is_control] == [4]


def test_open_transactions_and_what_follows_them_stay() -> None:
    log = Log(COMPACTS)
    log.put(A)
    log.put(A)
    log.close_segment()
    log.append(transactional(7, 0, A))
    closed(log).compact()
    assert list(log.pairs) == [1, 2, 3]
    assert log.dirty() is None
    end(log, 7, commits=True)
    log.compact()
    assert list(log.pairs) == [2, 3]


def test_the_dirty_share_decides_unless_a_record_has_waited_too_long() -> None:
    log = Log(replace(COMPACTS, min_cleanable_dirty_ratio=0.5, max_compaction_lag_ms=1000))
    log.put(A)
    assert log.dirty() is None, "all of it is active"
    closed(log)
    dirty = log.dirty()
    assert dirty is not None
    assert (dirty.begin, dirty.end, dirty.ratio, dirty.is_needed) == (0, 1, 1.0, False)
    log.compact()
    log.put(B)
    log.close_segment()
    assert log.dirty() is not None, "two of three"
    log.compact()
    log.put(C)
    log.close_segment()
    assert log.dirty(NOW + 1000) is None
    needed = log.dirty(NOW + 1001)
    assert needed is not None
    assert needed.is_needed


def test_records_wait_for_their_least_lag() -> None:
    log = Log(replace(COMPACTS, min_compaction_lag_ms=1000))
    log.put(A, timestamp_ms=NOW)
    log.close_segment()
    log.put(A, timestamp_ms=NOW + 500)
    log.close_segment()
    log.put(A)
    assert log.dirty(NOW + 999) is None
    for now_ms, expected in ((NOW + 1000, 1), (NOW + 1499, 1), (NOW + 1500, 2)):
        dirty = log.dirty(now_ms)
        assert dirty is not None
        assert dirty.end == expected


def test_small_segments_become_one() -> None:
    size = len(produced(A).records)
    log = Log(replace(COMPACTS, segment_bytes=3 * size))
    for index in range(5):
        log.put((b"%d" % index, b"1"))
        log.close_segment()
    log.put(B)
    log.compact()
    assert [begin for begin, _ in log.log.segments.bounds(log.log.log_end_offset)] == [0, 3, 5]


def test_a_log_that_was_cut_off_is_compacted_anew() -> None:
    log = Log(COMPACTS)
    log.put(A)
    log.close_segment()
    log.put(A)
    closed(log)
    dirty = log.dirty()
    assert dirty is not None
    compaction = LogCompaction(log.found, dirty, log.rules, NOW)
    states = [compaction.is_obsolete]
    log.log.truncate_to(1)
    assert [*states, compaction.is_obsolete] == [False, True]
    assert log.log.cleaned_offset == 0


def test_with_more_keys_than_are_noted_the_rest_is_compacted_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_compaction, "MAX_KEYS", 2)
    log = Log(COMPACTS)
    log.put(A, A, B, B, C, C)
    closed(log).compact()
    assert list(log.pairs) == [1, 3, 4, 5, 6]
    assert log.log.cleaned_offset == 4
    log.compact()
    assert list(log.pairs) == [1, 3, 5, 6]


def test_steps_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_compaction, "RECORDS_PER_STEP", 100)
    log = Log(COMPACTS)
    for _ in range(10):
        log.put(*[A] * 200)
    assert closed(log).compact() >= 40
    assert list(log.pairs) == [1999, 2000]


KEYS = [b"a", b"b", b"c", b"d"]
APPEND = st.tuples(
    st.just("append"),
    st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from([b"1", b"22", None])), min_size=1, max_size=4),
    st.sampled_from([0, GZIP]),
)
CHANGES = st.one_of(
    APPEND,
    APPEND,
    st.just(("close",)),
    st.tuples(st.just("compact"), st.integers(1, 30)),
    st.tuples(st.just("delete"), st.integers(0, 5)),
    st.tuples(st.just("spill"), st.integers(1, 400)),
    st.tuples(st.just("wait"), st.sampled_from([1, DAY_MS])),
)


class Story:
    """A log, what was written to it, and the compaction that is under way. Of each key the newest record must be there,
    unless it is a tombstone or a client has deleted it."""

    def __init__(self) -> None:
        self.shared = room(memory_bytes=100_000)
        self.log = Log(COMPACTS, self.shared)
        self.now_ms = NOW
        self.written: dict[int, Pair] = {}
        self.start = 0
        self.running: Iterator[None] | None = None

    def append(self, pairs: list[Pair], attributes: int) -> None:
        offset = self.log.put(*pairs, attributes=attributes, now_ms=self.now_ms)
        self.written |= dict(enumerate(pairs, offset))

    def close(self) -> None:
        if self.log.log.segments.active.base_offset < self.log.log.log_end_offset:
            self.log.close_segment(self.now_ms)

    def compact(self, steps: int) -> None:
        """Go on with the compaction, or begin one."""
        dirty = self.log.dirty(self.now_ms)
        if self.running is None and dirty is not None:
            self.running = LogCompaction(self.log.found, dirty, self.log.rules, self.now_ms).steps()
        for _ in range(steps):
            if self.running is not None and next(self.running, self) is self:
                self.running = None

    def delete(self, records: int) -> None:
        self.start = min(self.start + records, self.log.log.log_end_offset)
        self.log.log.delete_before(self.start)

    def spill(self, most_bytes: int) -> None:
        self.log.log.spill(most_bytes)

    def wait(self, milliseconds: int) -> None:
        self.now_ms += milliseconds

    def look(self) -> None:
        found = self.log.pairs
        newest = {pair[0]: offset for offset, pair in self.written.items()}.values()
        must_stay = {offset for offset in newest if offset >= self.start and self.written[offset][1] is not None}
        assert must_stay <= found.keys()
        assert found.items() <= self.written.items()
        assert list(found) == sorted(found)
        assert all(offset >= self.start for offset in found)
        assert self.log.log.size_bytes == sum(len(one.records) for one in self.log.batches)


@given(per_step=st.integers(1, 60), steps=st.lists(CHANGES, max_size=40))
def test_no_record_goes_that_is_the_newest_of_its_key(per_step: int, steps: list[Any]) -> None:
    """Beside a plain list of what was written; appends, deletions and the file come between the steps."""
    story = Story()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(log_compaction, "RECORDS_PER_STEP", per_step)
        for name, *arguments in steps:
            getattr(story, name)(*arguments)
            story.look()
        story.compact(1000)
        story.look()
    story.log.log.remove()
    assert (story.shared.used_bytes, story.shared.file.used_bytes) == (0, 0)


def test_very_many_segments_are_compacted_one_part_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_compaction, "MAX_SEGMENTS", 2)
    log = Log(COMPACTS)
    for _ in range(5):
        log.put(A)
        log.close_segment()
    log.put(B)
    ends = []
    while log.dirty() is not None:
        log.compact()
        ends.append(log.log.cleaned_offset)
    assert ends == [2, 4, 5]
    assert log.pairs == {4: A, 5: B}
