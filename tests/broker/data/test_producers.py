"""Idempotent producers: which batch is next, which was written before, which is refused, and what is forgotten."""

import itertools
from typing import Any, NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from klamm.broker.data.producers import MAX_PRODUCERS, REMEMBERED_BATCHES, ProducerStates, WrittenBatch
from klamm.broker.data.record_batches import ProducedBatch, read_produced
from klamm.protocol.errors import ApiError, ErrorCode
from tests.broker.data.batches import batch

LAST, LAST_EPOCH = 2**31 - 1, 2**15 - 1


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
    """A repetition of one of the last five batches gets its offset; older ones and gaps are refused; also across the
    end of the sequence numbers."""
    producers, offset, sequence = ProducerStates(), 100, first
    written: list[tuple[int, int, int]] = []
    for size in sizes:
        reported = numbered(sequence, size)
        assert producers.check(reported) is None
        producers.append(reported, offset, 5)
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


class Written(NamedTuple):
    epoch: int
    first: int
    last: int
    base_offset: int
    end_offset: int


def model_judge(remembered: list[Written], epoch: int, first: int, last: int) -> Written | ErrorCode:
    """The last batch with the same numbers, or an error code; NONE for a batch that may be written."""
    if not remembered:
        return ErrorCode.NONE
    newest = remembered[-1]
    for one in remembered:
        if (one.epoch, one.first, one.last) == (epoch, first, last):
            return one
    if epoch < newest.epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    expected = (newest.last + 1) % 2**31 if epoch == newest.epoch else 0
    # A producer without an epoch may write in any order.
    return ErrorCode.NONE if first == expected or newest.epoch < 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


PRODUCER, COUNT = st.integers(7, 8), st.integers(1, 3)
ANY = st.tuples(
    st.just("any"),
    PRODUCER,
    st.sampled_from([-1, 0, 0, 1, LAST_EPOCH]),
    st.sampled_from([0, 1, 2, LAST - 1, LAST]),
    COUNT,
)
NEXT = st.tuples(st.just("next"), PRODUCER, st.sampled_from([0, 0, 0, 1]), COUNT)
"""The batch after the newest one, in its epoch or as the first of the next epoch."""
AGAIN = st.tuples(st.just("again"), PRODUCER, st.integers(1, 6))
CUT = st.tuples(st.just("cut"), st.integers(0, 12))


def chosen(step: str, arguments: list[int], remembered: list[Written]) -> tuple[int, int, int]:
    """The epoch, the first sequence number and the number of records of a batch."""
    if step == "any":
        epoch, first, count = arguments
        return epoch, first, count
    if not remembered:
        return 0, 0, arguments[-1]
    newest = remembered[-1]
    if step == "again":
        one = remembered[-min(arguments[0], len(remembered))]
        return one.epoch, one.first, one.end_offset - one.base_offset
    more, count = arguments
    goes_on = not more or newest.epoch == LAST_EPOCH
    return (newest.epoch, (newest.last + 1) % 2**31, count) if goes_on else (newest.epoch + 1, 0, count)


@given(st.lists(st.one_of(ANY, NEXT, NEXT, NEXT, AGAIN, CUT), max_size=40))
# An older epoch may have written another batch with the numbers of a batch of the newer one.
@example([("any", 7, 0, 0, 2), ("any", 7, 1, 0, 1), ("any", 7, 1, 1, 2), ("any", 7, 0, 0, 1), ("cut", 2)])
def test_whatever_producers_send_is_judged_by_what_each_wrote_last(steps: list[Any]) -> None:
    """Also after a new leader has cut off the end of the log."""
    producers, written, end = ProducerStates(), dict[int, list[Written]](), 100
    for step, *arguments in steps:
        if step == "cut":
            end = max(100, end - arguments[0])
            producers.truncate_to(end)
            kept = {key: [one for one in batches if one.end_offset <= end] for key, batches in written.items()}
            written = {key: batches for key, batches in kept.items() if batches}
            assert {(key, epoch, *newest[:3]) for key, epoch, newest in producers} == {
                (key, *batches[-1][:4]) for key, batches in written.items()
            }
            continue
        producer_id, *how = arguments
        remembered = written.get(producer_id, [])
        epoch, first, count = chosen(step, how, remembered)
        last = (first + count - 1) % 2**31
        reported = numbered(first, count, producer_id=producer_id, producer_epoch=epoch)
        expected, judged = model_judge(remembered, epoch, first, last), producers.check(reported)
        if isinstance(judged, WrittenBatch):
            assert isinstance(expected, Written)
            assert (judged.base_offset, judged.last_offset + 1) == (expected.base_offset, expected.end_offset)
            continue
        assert expected == (ErrorCode.NONE if judged is None else judged.code)
        if judged is None:
            producers.append(reported, end, 5)
            same_epoch = [one for one in remembered if one.epoch == epoch]
            written[producer_id] = [*same_epoch, Written(epoch, first, last, end, end + count)][-REMEMBERED_BATCHES:]
            end += count


def test_a_producer_with_an_open_transaction_does_not_expire() -> None:
    producers = ProducerStates()
    for producer_id in (1, 2):
        producers.append(numbered(0, producer_id=producer_id), producer_id, 1_000)
    producers.forget_expired(1_999, 1_000, lambda _: False)
    assert len(producers) == 2
    producers.forget_expired(2_000, 1_000, (2).__eq__)
    assert [found.producer_id for found in producers.entries()] == [2]
