"""One log compared with a plain list of batches, after any sequence of operations."""

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.broker.data.partition_log import FoundOffset, PartitionLog
from klamm.broker.data.record_batches import ProducedBatch, read_produced
from klamm.broker.data.record_room import ENTRY_BYTES, RecordRoom
from tests.broker.data.batches import GZIP, LZ4, batch, record
from tests.broker.data.model_log import ModelLog
from tests.broker.data.rooms import room

ALL = 1 << 30


def produced(
    timestamps: list[int], value_bytes: int = 1, attributes: int = 0, base_timestamp_ms: int = 1000
) -> ProducedBatch:
    """A batch of records with these timestamps."""
    records = [
        record(index, timestamp_delta=timestamp - base_timestamp_ms, value=b"x" * value_bytes)
        for index, timestamp in enumerate(timestamps)
    ]
    data = batch(records, timestamp_ms=base_timestamp_ms, max_timestamp_ms=max(timestamps), attributes=attributes)
    found = read_produced(data, api_version=11, max_message_bytes=ALL)
    assert isinstance(found, ProducedBatch)
    return found


OFFSETS = st.integers(-3, 60)
STEPS = st.one_of(
    st.tuples(
        st.just("append"),
        st.lists(st.integers(990, 1010), min_size=1, max_size=4),
        st.integers(0, 80),
        st.sampled_from([0, GZIP]),
    ),
    st.tuples(st.just("truncate"), OFFSETS.filter(lambda offset: offset >= 0)),
    st.tuples(st.just("delete"), OFFSETS),
    st.tuples(st.just("epoch"), st.integers(1, 2)),
    st.tuples(st.just("room"), st.integers(0, 900)),
    st.tuples(st.just("spill"), st.integers(1, 500)),
    st.tuples(st.just("look"), OFFSETS, st.integers(0, 700), OFFSETS, st.booleans()),
)


@given(start=st.integers(0, 20), steps=st.lists(STEPS, max_size=40))
def test_a_log_is_a_list_of_batches(start: int, steps: list[Any]) -> None:
    shared, model, epoch = room(), ModelLog(start, start), 1
    log = PartitionLog(shared, start)
    for now_ms, (step, *arguments) in enumerate(steps, start=5000):
        if step == "append":
            reported = produced(arguments[0], arguments[1], arguments[2])
            model.write(reported.records, len(arguments[0]), epoch, now_ms, times=arguments[0])
            shared.make_room(len(reported.records))
            assert log.append(reported, epoch, now_ms) == model.end - len(arguments[0])
        elif step == "truncate":
            log.truncate_to(arguments[0])
            model.truncate(arguments[0])
        elif step == "delete":
            log.delete_before(min(arguments[0], log.log_end_offset))
            model.delete_before(min(arguments[0], model.end))
        elif step == "epoch":
            epoch += arguments[0]
            log.begin_leader_epoch(epoch)
            model.begin_epoch(epoch)
        elif step == "room":
            shared.memory_bytes = arguments[0]
        elif step == "spill":
            log.spill(arguments[0])
        else:
            offset, max_bytes, up_to, at_least_one = arguments
            found = log.read(offset, max_bytes, up_to, at_least_one=at_least_one)
            assert found == model.read(offset, max_bytes, up_to, at_least_one=at_least_one)
            assert log.appended_ms(offset) == model.appended_ms(offset)
            assert log.batch_start(offset) == model.batch_start(offset)
            assert log.batch_end(offset) == model.batch_end(offset)
            assert log.size_below(offset) == model.size_below(offset)
            assert log.find_offset(990 + max_bytes % 23) == model.find(990 + max_bytes % 23)
        assert (log.log_start_offset, log.log_end_offset) == (model.start, model.end)
        assert log.size_bytes == model.size_bytes == in_memory(shared, model) + shared.file.used_bytes
        assert log.read(model.start, ALL, model.end) == b"".join(each.data for each in model.batches)
        for requested in range(-1, epoch + 2):
            assert log.epoch_end_offset(requested) == model.end_of(requested)
        earliest, newest = log.find_offset(-2), log.find_offset(-3)
        assert earliest == FoundOffset(model.start, -1, model.epoch_at(model.start))
        assert log.find_offset(-1) == FoundOffset(model.end, -1, max(model.epochs, default=-1))
        times = [time for each in model.batches for time in each.times]
        if newest is not None:
            assert newest.timestamp_ms == max(times)
            assert newest == model.find(max(times))


def in_memory(shared: RecordRoom, model: ModelLog) -> int:
    """The bytes of batches in memory: what is counted, without the entries of the index."""
    return shared.used_bytes - ENTRY_BYTES * len(model.batches)


@pytest.mark.parametrize("memory_bytes", [4_000, 1 << 20])
def test_a_log_that_turns_over_many_times_stays_small_and_right(memory_bytes: int) -> None:
    reported = [produced([1000 + index] * (1 + index % 3), value_bytes=index % 7) for index in range(100)]
    shared, model = room(memory_bytes), ModelLog()
    log = PartitionLog(shared)
    tracemalloc.start()
    try:
        for index in range(8_000):
            each = reported[index % 100]
            times = [1000 + index % 100] * each.record_count
            model.write(each.records, each.record_count, 3, index, times=times)
            assert shared.make_room(len(each.records))
            log.append(each, 3, index)
            log.delete_before(model.end - 40)
            model.delete_before(model.end - 40)
            if index % 97 == 0:
                middle = (model.start + model.end) // 2
                assert log.read(middle, 500, model.end) == model.read(middle, 500, model.end)
                assert log.find_offset(1050) == model.find(1050)
                assert log.appended_ms(middle) == model.appended_ms(middle)
                assert log.epoch_end_offset(3) == (3, model.end)
            assert log.size_bytes == model.size_bytes
            assert shared.used_bytes <= memory_bytes
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 200_000
    assert shared.file.used_bytes <= model.size_bytes
    log.remove()
    assert (shared.used_bytes, shared.file.used_bytes, log.size_bytes) == (0, 0, 0)


@pytest.mark.parametrize("offset", range(10))
def test_a_batch_that_holds_the_new_start_stays(offset: int) -> None:
    log = PartitionLog(room())
    for _ in range(3):
        log.append(produced([1000] * 3), 0, 1)
    whole = log.read(0, ALL, 9) or b""
    log.delete_before(offset)
    assert (log.log_start_offset, log.log_end_offset) == (offset, 9)
    assert log.size_bytes == len(whole) // 3 * (3 - offset // 3)
    assert log.read(offset, ALL, 9) == whole[len(whole) - log.size_bytes :]
    if offset:
        assert log.read(offset - 1, ALL, 9) is None
    log.delete_before(0)
    assert log.log_start_offset == offset


def test_batches_from_the_file_have_a_limit_of_their_own() -> None:
    log, size = PartitionLog(room()), len(produced([1000]).records)
    for _ in range(6):
        log.append(produced([1000]), 0, 1)
    assert log.spill(2 * size)
    for most, filed, behind, is_cut in ((ALL, ALL, 6, False), (ALL, 0, 1, True), (ALL, size, 1, True)):
        found = log.find_batches(0, most, 6, max_filed_bytes=filed)
        assert found is not None
        assert (found.behind, found.size_bytes, found.is_cut) == (behind, behind * size, is_cut)
    found = log.find_batches(0, ALL, 6, at_least_one=False, max_filed_bytes=size - 1)
    assert found is not None
    assert (found.size_bytes, found.is_cut) == (0, True)
    beyond = log.find_batches(2, ALL, 6, max_filed_bytes=0)
    assert beyond is not None
    assert (beyond.size_bytes, beyond.filed_bytes, beyond.is_cut) == (4 * size, 0, False)


def test_nothing_is_read_at_or_beyond_the_limit_unless_its_batch_is_below() -> None:
    log = PartitionLog(room())
    for _ in range(3):
        log.append(produced([1000] * 3), 0, 1)
    whole = log.read(0, ALL, 9) or b""
    size = len(whole) // 3
    for up_to in range(10):
        assert log.read(0, ALL, up_to) == whole[: up_to // 3 * size]
    assert log.read(4, ALL, 9) == whole[size:]
    assert log.read(4, 1, 9) == whole[size : 2 * size]
    assert log.read(4, 1, 9, at_least_one=False) == b""
    assert log.read(9, ALL, 9) == b""
    assert log.read(10, ALL, 9) is None
    assert log.read(-1, ALL, 9) is None


def test_truncation_inside_a_batch_leaves_a_gap_that_readers_pass() -> None:
    log = PartitionLog(room())
    log.append(produced([1000] * 3), 0, 1)
    log.append(produced([1000] * 3), 0, 2)
    log.truncate_to(4)
    assert log.log_end_offset == 4
    assert log.read(3, ALL, 4) == b""
    assert log.appended_ms(3) == 2
    assert log.append(produced([1001]), 1, 3) == 4
    assert log.read(3, ALL, 5) == log.read(4, ALL, 5) != b""
    log.truncate_to(9)
    assert log.log_end_offset == 5
    log.truncate_to(0)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (0, 0, 0)
    assert log.epoch_end_offset(0) == (-1, -1)


def test_log_append_time_is_the_time_of_all_records() -> None:
    log = PartitionLog(room())
    for now_ms in (7000, 6000, 7000):
        log.append(produced([1000, 9000, 1500], attributes=GZIP), 0, now_ms, log_append_time=True)
    assert log.find_offset(-3) == FoundOffset(0, 7000, 0)
    assert log.find_offset(6001) == FoundOffset(0, 7000, 0)
    assert log.find_offset(7001) is None
    log.delete_before(1)
    assert log.find_offset(5000) == FoundOffset(1, 7000, 0)


@pytest.mark.parametrize("timestamp_ms", [1000, 1005, 1010])
def test_of_a_batch_that_nobody_can_look_into_the_first_record_is_found(timestamp_ms: int) -> None:
    log = PartitionLog(room())
    log.append(produced([999]), 0, 1)
    log.append(produced([1000, 1005, 1010], attributes=LZ4), 0, 1)
    assert log.find_offset(timestamp_ms) == FoundOffset(1, 1010, 0)
    log.delete_before(2)
    assert log.find_offset(timestamp_ms) == FoundOffset(2, 1010, 0)


def test_what_is_deleted_is_not_found() -> None:
    log = PartitionLog(room())
    log.append(produced([1010, 1000]), 0, 1)
    log.append(produced([1005]), 0, 1)
    assert log.find_offset(1005) == FoundOffset(0, 1010, 0)
    log.delete_before(1)
    assert log.find_offset(1005) == FoundOffset(2, 1005, 0)
    assert log.find_offset(1006) is None
    assert log.find_offset(-4) == FoundOffset(1, -1, 0)
    for nothing_tiered in (-5, -6):
        assert log.find_offset(nothing_tiered) == FoundOffset(-1, -1, -1)


def test_epochs_that_wrote_nothing_give_their_place_to_the_next() -> None:
    log = PartitionLog(room(), 10)
    for epoch in range(100):
        log.begin_leader_epoch(epoch)
    assert log.epoch_end_offset(50) == (50, 10)
    log.append(produced([1000] * 5), 99, 1)
    log.begin_leader_epoch(105)
    log.append(produced([1000]), 105, 1)
    assert log.epoch_end_offset(99) == (99, 15)
    assert log.epoch_end_offset(102) == (99, 15)
    assert log.epoch_end_offset(105) == (105, 16)
    assert log.epoch_end_offset(106) == (-1, -1)
    assert log.epoch_end_offset(3) == (3, 10)


def test_batches_after_a_truncation_go_to_the_file_as_others_do() -> None:
    shared, size = room(), len(produced([1000]).records)
    log = PartitionLog(shared)
    for _ in range(4):
        log.append(produced([1000]), 0, 1)
    assert log.spill(ALL)
    assert not log.spill(ALL), "nothing is left"
    log.truncate_to(2)
    for _ in range(3):
        log.append(produced([1000]), 1, 1)
    newest = log.find_batches(2, ALL, 5, max_filed_bytes=0)
    assert newest is not None
    assert (newest.size_bytes, newest.filed_bytes) == (3 * size, 0)
    assert log.spill(ALL)
    assert (shared.used_bytes, shared.file.used_bytes) == (5 * ENTRY_BYTES, 5 * size)
