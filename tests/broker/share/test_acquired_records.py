"""What one attempt to acquire records does to a share partition: which records, their batches, locks and counts."""

import pytest

from klamm.broker.share_partitions.share_partition import Phase
from tests.broker.share.fetching import ACCEPT, RELEASE
from tests.broker.share.room import LOCK_MS, Room

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


def batches(room: Room) -> list[tuple[int, int]]:
    return [(batch.first_offset, batch.last_offset) for batch in room.partition.batches]


# -- when nothing is acquired ------------------------------------------------------------------------------------------


def test_nothing_is_acquired_without_wish_or_records() -> None:
    room = Room()
    assert room.fetch("a", (0, 1), most=0) == []
    assert room.fetch("a", (0, 1), most=-1) == []
    assert room.fetch("a") == []
    room.partition.phase = Phase.LOADING
    assert room.fetch("a", (0, 1)) == []
    assert (room.offsets, room.count, len(room.locks)) == ((0, 0, 0, 0), 0, 0)


def test_a_log_that_ends_before_the_start_offset_has_nothing() -> None:
    room = Room(start=4)
    assert room.fetch("a", (0, 1), (2, 3)) == []
    assert room.fetch("a", (2, 4)) == [(4, 4, 1)], "a batch that reaches it is not acquired before it"
    assert room.offsets == (4, 4, 5, 0)
    assert room.shown == "a1"
    room.check()


# -- new records -------------------------------------------------------------------------------------------------------


def test_new_records_are_one_batch_up_to_the_batch_size() -> None:
    room = Room()
    assert room.fetch("a", (0, 1), (2, 3), (4, 5), size=6) == [(0, 5, 1)]
    assert (batches(room), room.count, room.offsets) == ([(0, 5)], 6, (0, 5, 6, 0))
    assert len(room.locks) == 1
    room.check()


@pytest.mark.parametrize(
    ("size", "found"),
    [
        (1, [(0, 1, 1), (2, 3, 1), (4, 7, 1), (8, 8, 1)]),
        (2, [(0, 1, 1), (2, 3, 1), (4, 7, 1), (8, 8, 1)]),
        (3, [(0, 3, 1), (4, 7, 1), (8, 8, 1)]),
        (4, [(0, 3, 1), (4, 7, 1), (8, 8, 1)]),
        (5, [(0, 7, 1), (8, 8, 1)]),
        (8, [(0, 7, 1), (8, 8, 1)]),
        (9, [(0, 8, 1)]),
    ],
)
def test_entries_end_where_a_batch_of_the_log_does_when_they_have_the_batch_size(
    size: int, found: list[tuple[int, int, int]]
) -> None:
    room = Room()
    assert room.fetch("a", (0, 1), (2, 3), (4, 7), (8, 8), size=size) == found
    assert batches(room) == [(first, last) for first, last, _ in found]
    assert room.count == 9
    room.check()


@pytest.mark.parametrize(
    ("most", "found"), [(1, (0, 1, 1)), (2, (0, 1, 1)), (3, (0, 3, 1)), (4, (0, 3, 1)), (5, (0, 7, 1)), (9, (0, 7, 1))]
)
def test_a_batch_of_the_log_is_acquired_whole_even_beyond_the_most_records(
    most: int, found: tuple[int, int, int]
) -> None:
    room = Room()
    assert room.fetch("a", (0, 1), (2, 3), (4, 7), most=most) == [found]
    assert room.count == found[1] + 1
    assert room.partition.end_offset == found[1]


def test_offsets_without_a_batch_of_the_log_are_acquired_up_to_the_most_records() -> None:
    """The last batch that was read, and a hole before it: the records there were compacted away."""
    room = Room()
    assert room.fetch("a", (0, 0), (4, 6), most=3) == [(0, 2, 1)]
    assert room.offsets == (0, 2, 3, 0)
    assert room.fetch("a", (4, 6), most=3) == [(4, 6, 1)]


def test_records_before_the_end_offset_are_not_acquired_anew_when_nothing_is_in_flight() -> None:
    room = Room()
    room.fetch("a", (0, 5))
    assert room.ack("a", (0, 5, [ACCEPT])) == 0
    assert room.offsets == (6, 6, 6, 0)
    room.partition.start_offset = 2
    assert room.fetch("b", (0, 7), at=6) == [(6, 7, 1)]
    assert room.offsets == (6, 7, 8, 0)


def test_a_batch_of_the_log_that_is_in_flight_in_part_gives_the_rest() -> None:
    room = Room()
    room.fetch("a", (0, 7), most=3, strict=True)
    assert room.shown == "a1 a1 a1 .0 .0 .0 .0 .0"
    assert room.fetch("b", (0, 7), (8, 9)) == [(3, 7, 1), (8, 9, 1)]
    assert room.count == 7
    room.check()


def test_the_base_is_the_batch_in_flight_around_it() -> None:
    """Batches that were acquired together are in flight together, wherever the next read begins."""
    room = Room()
    room.fetch("a", (0, 3), (4, 5), size=6)
    assert room.ack("a", (0, 5, [RELEASE])) == 0
    assert room.fetch("b", (4, 5), at=0) == [(4, 5, 2)], "what the log does not have from 0 to 3 is archived"
    assert room.shown == "x1 x1 x1 x1 b2 b2"
    assert room.offsets == (0, 5, 6, 4)
    room.check()


def test_known_and_new_records_come_in_one_answer_within_the_most_records() -> None:
    room = Room()
    room.fetch("a", (0, 1), (2, 3), size=2)
    assert room.ack("a", (0, 3, [RELEASE])) == 0
    assert room.fetch("b", (0, 1), (2, 3), (4, 5), (6, 7), most=5, size=2) == [(0, 1, 2), (2, 3, 2), (4, 5, 1)]
    assert room.count == 6
    assert room.offsets == (0, 5, 6, 0)


@pytest.mark.parametrize(("most", "count"), [(1, 2), (2, 2), (3, 4), (4, 4), (5, 6)])
def test_whole_batches_in_flight_are_acquired_until_there_are_enough(most: int, count: int) -> None:
    room = Room()
    room.fetch("a", (0, 1), (2, 3), (4, 5), size=2)
    assert room.ack("a", (0, 5, [RELEASE])) == 0
    room.fetch("b", (0, 1), (2, 3), (4, 5), most=most)
    assert room.count == count


def test_enough_known_records_leave_new_ones_alone() -> None:
    room = Room()
    room.fetch("a", (0, 1))
    assert room.ack("a", (0, 1, [RELEASE])) == 0
    assert room.fetch("b", (0, 1), (2, 3), most=2) == [(0, 1, 2)]
    assert room.offsets == (0, 1, 2, 0)


def test_the_end_of_the_log_limits_what_is_acquired_of_a_batch_in_flight() -> None:
    """The batch in flight has offsets beyond the log's batches that were read."""
    room = Room()
    room.fetch("a", (0, 1), (2, 5), size=6)
    assert room.ack("a", (0, 5, [RELEASE])) == 0
    assert room.fetch("b", (0, 1)) == [(0, 1, 2)]
    assert room.shown == "b2 b2 .1 .1 .1 .1"
    assert room.offsets == (0, 5, 2, 0)
    assert room.fetch("c", (2, 5)) == [(2, 5, 2)]
    room.check()


def test_a_batch_whose_transition_is_not_complete_is_passed_over() -> None:
    room = Room()
    room.fetch("a", (0, 1), (2, 3), size=2)
    room.begin("a", (0, 1, [RELEASE]))
    assert room.ack_later("a", (2, 3, [RELEASE])) == 0
    assert room.fetch("b", (0, 1), (2, 3), most=2) == [(2, 3, 2)]
    room.answer_all()
    assert room.shown == ".1 .1 b2 b2"


# -- single records ----------------------------------------------------------------------------------------------------


def test_runs_of_one_delivery_count_are_one_entry() -> None:
    room = Room((0, 1, AVAILABLE, 1), (2, 2, AVAILABLE, 2), (3, 3, ACKNOWLEDGED, 1), (4, 5, AVAILABLE, 2))
    for batch in room.partition.batches:
        room.partition.split(batch)
    assert room.fetch("a", (0, 5)) == [(0, 1, 2), (2, 2, 3), (4, 5, 3)]
    room.check()


def test_neighbours_of_one_batch_with_other_counts_or_a_hole_are_entries_of_their_own() -> None:
    room = Room(delivery_limit=9)
    room.fetch("a", (0, 4))
    assert room.ack("a", (0, 0, [RELEASE]), (1, 1, [RELEASE])) == 0
    room.fetch("a", (0, 4), most=1, strict=True)
    assert room.ack("a", (0, 0, [RELEASE]), (3, 4, [RELEASE])) == 0
    assert room.shown == ".2 .1 a1 .1 .1"
    assert room.fetch("b", (0, 4)) == [(0, 0, 3), (1, 1, 2), (3, 4, 2)]
    assert room.count == 4
    room.check()


def test_the_mode_record_limit_cuts_new_records_exactly() -> None:
    room = Room()
    assert room.fetch("a", (0, 2), (3, 5), most=4, strict=True) == [(0, 3, 1)]
    assert room.count == 4
    assert batches(room) == [(0, 5)]
    assert room.shown == "a1 a1 a1 a1 .0 .0"
    assert room.offsets == (0, 5, 4, 0)
    assert [left_ms for _, _, left_ms in room.ends] == [LOCK_MS] * 4
    room.check()
    assert room.fetch("b", (3, 5), (6, 7), most=2, strict=True) == [(4, 5, 1)]
    assert room.fetch("b", (6, 7), most=2, strict=True) == [(6, 7, 1)]
    assert (room.count, batches(room)) == (2, [(0, 5), (6, 7)])
    room.check()


def test_the_mode_record_limit_makes_one_entry_whatever_the_batch_size() -> None:
    room = Room()
    assert room.fetch("a", (0, 1), (2, 3), most=9, size=1, strict=True) == [(0, 3, 1)]
    assert batches(room) == [(0, 3)]


def test_the_mode_record_limit_cuts_batches_in_flight() -> None:
    room = Room()
    room.fetch("a", (0, 2), (3, 5), size=3)
    assert room.ack("a", (0, 5, [RELEASE])) == 0
    assert room.fetch("b", (0, 2), (3, 5), most=3, strict=True) == [(0, 2, 2)]
    assert room.fetch("c", (3, 5), most=2, strict=True) == [(3, 4, 2)]
    assert room.shown == "b2 b2 b2 c2 c2 .1"
    assert room.offsets[2] == 5
    room.check()


def test_the_mode_record_limit_takes_single_records_up_to_the_most() -> None:
    room = Room()
    room.fetch("a", (0, 4))
    assert room.ack("a", (0, 1, [RELEASE]), (3, 4, [RELEASE])) == 0
    assert room.fetch("b", (0, 4), most=3, strict=True) == [(0, 1, 2), (3, 3, 2)]
    assert room.count == 3
    assert room.fetch("c", (0, 4), most=5) == [(4, 4, 2)]


def test_single_records_outside_of_what_was_read_are_left() -> None:
    room = Room()
    room.fetch("a", (0, 1), (2, 3), (4, 5), size=6)
    assert room.ack("a", (0, 0, [RELEASE]), (2, 3, [RELEASE]), (5, 5, [RELEASE])) == 0
    assert room.fetch("b", (2, 3), at=2) == [(2, 3, 2)]
    assert room.shown == ".1 a1 b2 b2 a1 .1"
    assert room.fetch("b", (4, 5), at=4) == [(5, 5, 2)]
