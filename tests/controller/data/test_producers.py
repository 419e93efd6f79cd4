"""Idempotent producers: what is next, what was written before, what is refused, and what is forgotten."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from controller.data.producers import MAX_PRODUCERS, REMEMBERED_BATCHES, ProducerStates, WrittenBatch
from controller.data.record_batches import ProducedBatch, read_produced
from protocol.errors import ApiError, ErrorCode
from tests.controller.data.batches import batch

LAST = 2**31 - 1


def numbered(
    base_sequence: int, record_count: int = 1, *, producer_id: int = 7, producer_epoch: int = 0
) -> ProducedBatch:
    found = read_produced(
        batch(record_count, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence),
        api_version=11,
        max_message_bytes=1 << 20,
    )
    assert isinstance(found, ProducedBatch)
    return found


@given(
    first=st.sampled_from([0, 5, LAST - 6, LAST]),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=12),
    again=st.lists(st.integers(0, 11), max_size=6),
)
def test_each_batch_is_written_once_in_order(first: int, sizes: list[int], again: list[int]) -> None:
    """Repetitions of the last five are told where they are, older ones and gaps are refused; also over the end of the
    sequence numbers."""
    producers, offset, sequence = ProducerStates(), 100, first
    written: list[tuple[int, int, int]] = []
    for size in sizes:
        told = numbered(sequence, size)
        assert producers.check(told) is None
        producers.append(told, offset, 5)
        written.append((sequence, size, offset))
        offset += size
        sequence = (sequence + size) % 2**31
        for index in again:
            if index < len(written):
                repeated_sequence, repeated_size, repeated_offset = written[index]
                judged = producers.check(numbered(repeated_sequence, repeated_size))
                if index >= len(written) - REMEMBERED_BATCHES:
                    assert isinstance(judged, WrittenBatch)
                    assert (judged.base_offset, judged.last_offset) == (
                        repeated_offset,
                        repeated_offset + repeated_size - 1,
                    )
                else:
                    assert isinstance(judged, ApiError)
        gap = producers.check(numbered((sequence + 1) % 2**31))
        assert isinstance(gap, ApiError)
        assert gap.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_checking_remembers_nothing() -> None:
    producers = ProducerStates()
    assert producers.check(numbered(3)) is None
    assert producers.check(numbered(9)) is None
    assert len(producers) == 0
    producers.append(numbered(3), 0, 5)
    assert producers.check(numbered(0, producer_epoch=1)) is None
    assert isinstance(producers.check(numbered(3)), WrittenBatch)


def test_batches_without_a_producer_are_none_of_its_business() -> None:
    producers = ProducerStates()
    plain = read_produced(batch(2), api_version=11, max_message_bytes=1 << 20)
    assert isinstance(plain, ProducedBatch)
    for offset in (0, 2):
        assert producers.check(plain) is None
        producers.append(plain, offset, 5)
    assert len(producers) == 0


def test_the_one_that_has_not_written_for_longest_is_forgotten() -> None:
    producers = ProducerStates()
    for producer_id in range(MAX_PRODUCERS):
        producers.append(numbered(0, producer_id=producer_id), producer_id, 5)
    producers.append(numbered(1, producer_id=0), MAX_PRODUCERS, 6)
    producers.append(numbered(0, producer_id=MAX_PRODUCERS), MAX_PRODUCERS + 1, 7)
    assert len(producers) == MAX_PRODUCERS
    assert isinstance(producers.check(numbered(9, producer_id=0)), ApiError)
    assert producers.check(numbered(9, producer_id=1)) is None
    assert isinstance(producers.check(numbered(9, producer_id=2)), ApiError)


def test_truncation_takes_back_what_it_cut_off() -> None:
    producers = ProducerStates()
    for index, offset in enumerate(itertools.count(10, 2)):
        if index == 4:
            break
        producers.append(numbered(2 * index, 2), offset, 5)
    producers.append(numbered(0, producer_id=8), 18, 5)
    producers.truncate_to(19)
    assert len(producers) == 2
    producers.truncate_to(15)  # in the middle of the third batch, which goes as a whole
    assert len(producers) == 1
    assert isinstance(producers.check(numbered(2, 2)), WrittenBatch)
    assert producers.check(numbered(4, 2)) is None
    refused = producers.check(numbered(6, 2))
    assert isinstance(refused, ApiError)
    assert refused.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producers.truncate_to(0)
    assert producers.check(numbered(6, 2)) is None


def test_a_newer_epoch_begins_at_zero_and_shuts_the_older_out() -> None:
    producers = ProducerStates()
    producers.append(numbered(0, producer_epoch=3), 0, 5)
    for base_sequence, producer_epoch, code in (
        (1, 4, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (0, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
    ):
        refused = producers.check(numbered(base_sequence, producer_epoch=producer_epoch))
        assert isinstance(refused, ApiError)
        assert (refused.code, bool(refused.message)) == (code, True)
    assert producers.check(numbered(0, producer_epoch=4)) is None
    producers.append(numbered(0, producer_epoch=4), 1, 5)
    assert isinstance(producers.check(numbered(0, producer_epoch=3)), ApiError)
