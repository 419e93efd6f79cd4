"""When segments begin, and which of them retention deletes: the cases of Kafka's UnifiedLog."""

from dataclasses import replace
from typing import Any

import pytest

from klamm.broker.data.retention import retained_start
from klamm.controller.configs import CleanupRules
from tests.broker.data.cleanup_cases import ALL, DAY_MS, DELETES, NOW, Log, produced

SIZE = len(produced((b"k", b"v")).records)


def begins(log: Log) -> list[int]:
    return [begin for begin, _ in log.log.segments.bounds(log.log.log_end_offset)]


def start_of(log: Log, now_ms: int = NOW, high_watermark: int | None = None, **rules: Any) -> int:
    committed = log.log.log_end_offset if high_watermark is None else high_watermark
    return retained_start(log.log, replace(log.rules, **rules), committed, now_ms)


def filled(segments: int = 4, rules: CleanupRules = DELETES) -> Log:
    """Segments of two batches, a minute apart; the last one is active."""
    log = Log(replace(rules, segment_bytes=2 * SIZE))
    for index in range(2 * segments):
        log.put((b"k", b"v"), timestamp_ms=NOW + index // 2 * 60_000)
    assert begins(log) == list(range(0, 2 * segments, 2))
    return log


def test_a_segment_ends_when_the_next_batch_does_not_fit() -> None:
    log = Log(replace(DELETES, segment_bytes=3 * SIZE))
    for _ in range(7):
        log.put((b"k", b"v"))
    assert begins(log) == [0, 3, 6]


def test_a_segment_ends_by_the_timestamps_of_its_first_batch_and_the_next() -> None:
    log = Log(replace(DELETES, segment_ms=1000))
    for offset_ms in (0, 1000, 1001, 500, 2001, 2002):
        log.put((b"k", b"v"), timestamp_ms=NOW + offset_ms, now_ms=NOW)
    assert begins(log) == [0, 2, 5]


def test_without_timestamps_the_clock_counts() -> None:
    log = Log(replace(DELETES, segment_ms=1000))
    for offset_ms in (0, 1000, 1001, 2001, 2002):
        log.put((b"k", b"v"), timestamp_ms=-1, now_ms=NOW + offset_ms)
    assert begins(log) == [0, 2, 4]


def test_segments_of_a_compacted_topic_are_no_older_than_its_largest_lag() -> None:
    log = Log(replace(DELETES, compacts=True, max_compaction_lag_ms=10))
    for offset_ms in (0, 10, 11):
        log.put((b"k", b"v"), timestamp_ms=NOW + offset_ms)
    assert begins(log) == [0, 2]


def test_old_segments_go_by_their_latest_record() -> None:
    log = filled()
    assert [start_of(log, NOW + age_ms, retention_ms=30_000) for age_ms in (30_000, 30_001, 90_000, 90_001)] == [
        0, 2, 2, 4,
    ]  # fmt: skip
    assert start_of(log, NOW + 10 * DAY_MS, retention_ms=-1) == 0
    assert start_of(log, NOW + 10 * DAY_MS, retention_ms=0) == 8, "the active segment, too"


def test_a_segment_without_timestamps_goes_by_the_clock() -> None:
    log = Log(replace(DELETES, segment_bytes=SIZE))
    for offset_ms in (0, 100, 200):
        log.put((b"k", b"v"), timestamp_ms=-1, now_ms=NOW + offset_ms)
    assert [start_of(log, NOW + age_ms, retention_ms=50) for age_ms in (50, 51, 150, 151)] == [0, 1, 1, 2]


def test_segments_go_as_long_as_enough_bytes_stay() -> None:
    log = filled()
    kept = [8 * SIZE, 6 * SIZE + 1, 6 * SIZE, 4 * SIZE + 1, 4 * SIZE, 1, 0, -1]
    assert [start_of(log, retention_bytes=size) for size in kept] == [0, 0, 2, 2, 4, 6, 8, 0]


def test_the_age_counts_for_segments_after_those_that_go_by_size() -> None:
    log = filled()
    assert start_of(log, NOW + 90_001, retention_ms=30_000, retention_bytes=6 * SIZE) == 4
    assert start_of(log, NOW + 30_001, retention_ms=30_000, retention_bytes=4 * SIZE) == 4


@pytest.mark.parametrize(("high_watermark", "expected"), [(8, 8), (7, 6), (2, 2), (1, 0)])
def test_records_that_are_not_committed_stay(high_watermark: int, expected: int) -> None:
    assert start_of(filled(), NOW + DAY_MS, high_watermark, retention_ms=0) == expected


def test_only_topics_that_delete_lose_records() -> None:
    log = filled(rules=replace(DELETES, deletes=False, compacts=True))
    assert start_of(log, NOW + DAY_MS, retention_ms=0, retention_bytes=0) == 0


def test_records_that_a_client_deleted_do_not_count() -> None:
    log = filled()
    log.log.delete_before(3)
    assert begins(log) == [2, 4, 6]
    assert start_of(log, retention_bytes=5 * SIZE) == 3
    assert start_of(log, retention_bytes=4 * SIZE) == 4
    assert start_of(log, NOW, retention_ms=-1) == 3
    log.log.delete_before(8)
    assert begins(log) == [6]
    assert start_of(log, NOW + DAY_MS, retention_ms=0) == 8


def test_segments_end_where_the_log_was_cut_off() -> None:
    log = filled()
    log.log.truncate_to(5)
    assert begins(log) == [0, 2, 4]
    log.log.truncate_to(4)
    assert begins(log) == [0, 2, 4]
    log.put((b"k", b"v"), timestamp_ms=NOW + 2 * DAY_MS)
    assert begins(log) == [0, 2, 4]
    log.log.delete_before(3)
    log.log.truncate_to(1)
    assert begins(log) == [1]
    log.log.begin_at(9)
    assert (begins(log), start_of(log, ALL * DAY_MS, retention_ms=0)) == ([9], 9)
