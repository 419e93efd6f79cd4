"""One share partition by itself: what is loaded, where the next fetch begins, and how its offsets move."""

import pytest

from klamm.broker.share_partitions.in_flight import InFlight, InFlightBatch, RecordState
from klamm.broker.share_partitions.share_partition import Phase, ShareConfigs
from klamm.protocol.errors import ErrorCode
from tests.broker.share.fetching import ACCEPT, GAP, REJECT, RELEASE, RENEW
from tests.broker.share.room import EPOCH, LOCK_MS, Room

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


# -- what is loaded ----------------------------------------------------------------------------------------------------


def test_without_batches_both_offsets_are_those_of_the_group() -> None:
    room = Room(start=9)
    assert room.offsets == (9, 9, 9, 0)
    assert (room.partition.phase, room.partition.state_epoch, room.partition.gap) == (Phase.ACTIVE, EPOCH, None)
    assert (room.partition.in_flight_count, room.partition.can_acquire()) == (0, True)


def test_batches_are_loaded_with_their_states_and_counts() -> None:
    room = Room((5, 6, AVAILABLE, 2), (7, 7, ACKNOWLEDGED, 1), (8, 9, ARCHIVED, 3), (10, 10, AVAILABLE, 1), start=5)
    assert room.shown == ".2 .2 +1 x3 x3 .1"
    assert room.offsets == (5, 10, 5, 3)
    assert room.partition.gap is None
    assert room.partition.in_flight_count == 6
    room.check()


@pytest.mark.parametrize(
    ("batches", "loads"),
    [
        (((4, 6, AVAILABLE, 1),), False),
        (((5, 6, AVAILABLE, 1),), True),
        (((6, 5, AVAILABLE, 1),), False),
        (((6, 6, AVAILABLE, 1),), True),
        (((5, 5, AVAILABLE, 1), (8, 7, AVAILABLE, 1)), False),
    ],
)
def test_batches_before_the_start_offset_or_without_records_are_impossible(
    batches: tuple[tuple[int, int, int, int], ...], loads: bool
) -> None:
    Room(*batches, start=5, loads=loads)


def test_what_is_complete_at_the_beginning_is_passed_over_when_it_is_loaded() -> None:
    room = Room((0, 1, ACKNOWLEDGED, 1), (2, 3, ARCHIVED, 1), (4, 5, AVAILABLE, 1), (6, 6, ACKNOWLEDGED, 1))
    assert room.offsets == (4, 6, 4, 1)
    assert room.shown == ".1 .1 +1"
    assert Room((0, 1, ACKNOWLEDGED, 1), (2, 3, ARCHIVED, 1)).offsets == (4, 4, 4, 0), "nothing is left"


def test_all_that_was_acquired_when_it_was_written_is_available() -> None:
    room = Room((0, 1, AVAILABLE, 2))
    assert room.fetch("b", (0, 1)) == [(0, 1, 3)]


# -- gaps --------------------------------------------------------------------------------------------------------------


def test_offsets_between_loaded_batches_are_fetched_where_they_are() -> None:
    """What the share coordinator knows nothing of was acquired, and not acknowledged, before the leader changed."""
    room = Room((2, 3, AVAILABLE, 1), (6, 7, ACKNOWLEDGED, 1), (9, 9, AVAILABLE, 2))
    assert room.offsets == (0, 9, 0, 2)
    assert room.partition.gap is not None
    assert (room.partition.gap.start_offset, room.partition.gap.end_offset) == (0, 9)
    assert room.fetch("a", (0, 1), (2, 3), (4, 5), (6, 7), (8, 8), (9, 9), most=2) == [(0, 1, 1)]
    assert room.offsets == (0, 9, 2, 2)
    assert room.fetch("a", (2, 3), (4, 5), (6, 7), (8, 8), (9, 9), most=3) == [(2, 3, 2), (4, 5, 1)]
    assert room.partition.gap.start_offset == 6
    assert room.offsets == (0, 9, 8, 2)
    assert room.fetch("a", (8, 8), (9, 9)) == [(8, 8, 1), (9, 9, 3)]
    assert room.offsets == (0, 9, 10, 2)
    assert room.shown == "a1 a1 a2 a2 a1 a1 +1 +1 a1 a3"
    room.check()


def test_a_gap_that_begins_behind_loaded_batches_begins_there() -> None:
    room = Room((0, 1, AVAILABLE, 1), (4, 5, AVAILABLE, 1))
    assert room.partition.gap is not None
    assert room.partition.gap.start_offset == 2
    assert room.partition.next_fetch_offset() == 0
    assert room.fetch("a", (0, 1)) == [(0, 1, 2)]
    assert room.offsets == (0, 5, 2, 0)
    assert room.fetch("b", (2, 3)) == [(2, 3, 1)]
    assert room.offsets == (0, 5, 4, 0)


def test_a_gap_of_one_offset_is_a_gap_and_neighbours_have_none() -> None:
    assert Room((1, 1, AVAILABLE, 1)).partition.gap is not None
    assert Room((0, 0, AVAILABLE, 1), (2, 2, AVAILABLE, 1)).partition.gap is not None
    assert Room((0, 0, AVAILABLE, 1), (1, 2, AVAILABLE, 1)).partition.gap is None


def test_only_the_first_gap_is_noted() -> None:
    room = Room((1, 1, AVAILABLE, 1), (5, 5, AVAILABLE, 1))
    assert room.partition.gap is not None
    assert room.partition.gap.start_offset == 0


def test_a_gap_counts_as_long_as_nothing_behind_it_was_acquired() -> None:
    room = Room((2, 3, AVAILABLE, 1))
    assert room.gap_is_open()
    assert room.fetch("a", (0, 1), (2, 3), (4, 5)) == [(0, 1, 1), (2, 3, 2), (4, 5, 1)]
    assert (room.gap_is_open(), room.has_gap()) == (False, False)
    assert room.offsets == (0, 5, 6, 0)


def test_a_gap_remains_until_all_offsets_up_to_its_end_were_acquired() -> None:
    room = Room((1, 2, AVAILABLE, 1))
    room.partition.move_gap(2)
    assert room.partition.gap is not None
    assert room.partition.gap.start_offset == 2, "the end offset is in the gap's range"
    room.partition.move_gap(3)
    assert not room.has_gap()
    room.partition.move_gap(4)
    assert not room.has_gap()


def test_a_gap_that_is_not_open_any_more_is_forgotten_with_the_next_acquisition() -> None:
    room = Room((2, 3, AVAILABLE, 1))
    room.partition.end_offset = 5
    assert (room.gap_is_open(), room.has_gap()) == (False, True)
    room.partition.move_gap(1)
    assert not room.has_gap()


def test_the_start_offset_does_not_pass_a_gap() -> None:
    room = Room((0, 1, AVAILABLE, 1), (4, 5, AVAILABLE, 1))
    assert room.fetch("a", (0, 1)) == [(0, 1, 2)]
    assert room.ack("a", (0, 1, [ACCEPT])) == 0
    assert room.offsets == (2, 5, 2, 0), "not 4: 2 and 3 were never delivered"
    assert room.shown == "_ _ .1 .1"
    room.check()


def test_what_is_complete_behind_a_gap_remains() -> None:
    room = Room((0, 0, AVAILABLE, 1), (2, 3, ACKNOWLEDGED, 1), (4, 4, AVAILABLE, 1))
    assert room.fetch("a", (0, 0)) == [(0, 0, 2)]
    assert room.ack("a", (0, 0, [ACCEPT])) == 0
    assert room.offsets == (1, 4, 1, 2)
    assert room.fetch("a", (1, 1)) == [(1, 1, 1)]
    assert room.ack("a", (1, 1, [ACCEPT])) == 0
    assert room.offsets == (2, 4, 4, 2), "the gap may go on"
    assert room.fetch("a", (4, 4)) == [(4, 4, 2)]
    assert room.ack("a", (4, 4, [ACCEPT])) == 0
    assert room.offsets == (5, 5, 5, 0)
    room.check()


# -- where the next fetch begins ---------------------------------------------------------------------------------------


def test_the_next_fetch_begins_at_the_first_available_record_or_behind_all() -> None:
    room = Room()
    assert room.fetch("a", (0, 3)) == [(0, 3, 1)]
    assert room.partition.next_fetch_offset() == 4
    assert room.ack("a", (2, 2, [RELEASE])) == 0
    assert room.partition.next_fetch_offset() == 2
    assert room.partition.find_next_fetch_offset
    assert room.fetch("b", (0, 3)) == [(2, 2, 2)]
    assert room.partition.next_fetch_offset() == 4
    assert not room.partition.find_next_fetch_offset, "it is not searched for again"


def test_a_record_whose_transition_is_not_complete_is_not_available() -> None:
    room = Room()
    room.fetch("a", (0, 1), (2, 3), size=2)
    room.begin("a", (0, 1, [RELEASE]))
    assert room.partition.next_fetch_offset() == 4
    assert room.fetch("b", (0, 1)) == []
    room.answer()
    assert room.partition.next_fetch_offset() == 0


def test_the_next_fetch_is_at_the_end_offset_when_nothing_is_in_flight() -> None:
    room = Room(start=4)
    room.fetch("a", (4, 5))
    assert room.ack("a", (4, 5, [ACCEPT])) == 0
    assert room.offsets == (6, 6, 6, 0)
    room.partition.find_next_fetch_offset = True
    assert room.partition.next_fetch_offset() == 6
    assert not room.partition.find_next_fetch_offset


def test_the_next_fetch_is_at_the_end_offset_when_the_start_offset_has_passed_all() -> None:
    room = Room()
    room.fetch("a", (0, 3))
    room.delete_records(6)
    assert room.offsets == (6, 6, 6, 0)
    room.partition.find_next_fetch_offset = True
    assert room.partition.next_fetch_offset() == 6
    assert not room.partition.find_next_fetch_offset


def test_a_start_offset_at_the_last_record_has_not_passed_it() -> None:
    room = Room()
    room.fetch("a", (0, 3))
    room.delete_records(3)
    assert room.offsets == (3, 3, 4, 0)


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("max_locks", "can_acquire"), [(4, False), (5, True)])
def test_new_records_can_be_acquired_below_the_limit_of_records_in_flight(max_locks: int, can_acquire: bool) -> None:
    room = Room(max_locks=max_locks)
    room.fetch("a", (0, 3))
    assert room.partition.in_flight_count == 4
    assert room.partition.can_acquire() is can_acquire
    assert room.ack("a", (3, 3, [RELEASE])) == 0
    assert room.partition.can_acquire(), "what is in flight may be acquired again"


@pytest.mark.parametrize(("delivery_limit", "throttle_limit"), [(1, 2), (2, 2), (4, 2), (5, 3), (6, 3), (7, 4)])
def test_from_half_of_the_deliveries_on_records_come_a_few_at_a_time(delivery_limit: int, throttle_limit: int) -> None:
    assert ShareConfigs(delivery_limit=delivery_limit).throttle_limit == throttle_limit


# -- how the start offset moves ----------------------------------------------------------------------------------------


def test_the_start_offset_passes_what_is_complete_and_no_more() -> None:
    room = Room()
    room.fetch("a", (0, 1), (2, 5), (6, 7), size=2)
    assert room.ack("a", (2, 3, [ACCEPT, REJECT])) == 0
    assert room.offsets == (0, 7, 8, 2)
    assert room.ack("a", (0, 1, [ACCEPT])) == 0
    assert room.offsets == (4, 7, 8, 0), "in the middle of a batch"
    assert room.shown == "a1 a1 a1 a1"
    assert [batch.first_offset for batch in room.partition.batches] == [2, 6]
    assert room.ack("a", (4, 5, [ACCEPT])) == 0
    assert room.offsets == (6, 7, 8, 0)
    assert [batch.first_offset for batch in room.partition.batches] == [6]
    assert room.ack("a", (6, 7, [GAP])) == 0
    assert room.offsets == (8, 8, 8, 0)
    assert not room.partition.batches
    room.check()


def test_the_start_offset_moves_to_the_next_batch_even_if_it_begins_later() -> None:
    room = Room()
    room.fetch("a", (0, 1))
    room.fetch("a", (4, 5), at=2)
    assert room.ack("a", (0, 1, [ACCEPT])) == 0
    assert room.offsets == (4, 5, 6, 0)


def test_the_start_offset_does_not_go_back() -> None:
    room = Room()
    room.fetch("a", (0, 3), (4, 5), size=2)
    assert room.ack("a", (0, 2, [ACCEPT])) == 0
    assert room.partition.start_offset == 3
    room.delete_records(5)
    assert room.ack("a", (3, 3, [ACCEPT])) == 0
    assert room.partition.start_offset == 5


def test_a_record_before_the_start_offset_does_not_take_it_back() -> None:
    room = Room()
    room.fetch("a", (0, 5))
    assert room.ack("a", (0, 1, [ACCEPT])) == 0
    room.delete_records(3)
    assert room.ack("a", (3, 3, [ACCEPT])) == 0
    assert room.offsets == (3, 5, 6, 1), "2 has a member, so that nothing behind it counts"


def test_a_start_offset_between_batches_does_not_move() -> None:
    room = Room()
    room.fetch("a", (0, 1))
    room.fetch("a", (4, 5), at=2)
    assert room.ack("a", (0, 0, [ACCEPT])) == 0
    room.delete_records(3)
    assert room.ack("a", (4, 4, [ACCEPT])) == 0
    assert room.offsets == (3, 5, 6, 1)


def test_a_batch_that_ends_where_a_gap_may_go_on_is_not_passed() -> None:
    room = Room((0, 0, AVAILABLE, 1), (2, 2, ACKNOWLEDGED, 1), (4, 4, AVAILABLE, 1))
    room.fetch("a", (0, 0), (1, 1))
    assert room.ack("a", (0, 1, [ACCEPT])) == 0
    assert room.offsets == (2, 4, 3, 1)
    assert [batch.first_offset for batch in room.partition.batches] == [2, 4]


def test_nothing_moves_while_the_first_record_is_not_complete() -> None:
    room = Room()
    room.fetch("a", (0, 3))
    room.begin("a", (0, 0, [ACCEPT]))
    assert not room.partition.move_start_offset()
    assert room.offsets[:2] == (0, 3)
    room.answer()
    assert room.offsets == (1, 3, 4, 0)
    assert not room.partition.move_start_offset(), "nothing more to do"


def test_a_share_partition_that_is_closed_has_no_locks() -> None:
    room = Room()
    room.fetch("a", (0, 1), (2, 3), size=2)
    assert room.ack("a", (2, 2, [RELEASE])) == 0
    assert len(room.locks) == 2
    room.partition.close()
    assert len(room.locks) == 0
    assert room.partition.phase is Phase.GONE
    assert room.fetch("a", (0, 1), at=2) == []


def test_what_a_share_partition_forgets_has_no_locks() -> None:
    """Records that were deleted from the log while a member had them."""
    room = Room()
    room.fetch("a", (0, 1), (2, 3), size=2)
    room.delete_records(2)
    assert room.ack("a", (2, 2, [ACCEPT])) == 0
    assert room.offsets == (2, 3, 4, 1), "what is before has a member as long as its lock"
    room.pass_time(LOCK_MS - 1)
    assert room.ack("a", (3, 3, [RENEW])) == 0
    room.pass_time(1)
    room.answer_all()
    assert room.offsets == (3, 3, 4, 0)
    assert [lock[:2] for lock in room.ends] == [(3, 3)]
    room.check()


# -- batches and their states ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "begins_within"), [(0, False), (1, False), (2, True), (3, True), (4, False), (5, False)]
)
def test_a_share_partition_begins_within_a_batch(start: int, begins_within: bool) -> None:
    room = Room()
    room.partition.start_offset = start
    batch = InFlightBatch(1, 3, InFlight(RecordState.AVAILABLE, 1))
    assert room.partition.begins_within(batch) is begins_within


@pytest.mark.parametrize(("first", "last", "count"), [(0, 1, 0), (0, 2, 0), (0, 3, 1), (3, 3, 1), (4, 6, 3), (2, 4, 2)])
def test_only_offsets_from_the_start_offset_on_are_in_flight(first: int, last: int, count: int) -> None:
    assert Room(start=3).partition.count_in_flight(first, last) == count


def test_the_lock_of_a_batch_that_is_split_lasts_as_long_for_each_record() -> None:
    room = Room()
    room.fetch("a", (0, 2))
    room.pass_time(400)
    assert room.ack("a", (1, 1, [ACCEPT])) == 0
    assert [(first, left_ms) for first, _, left_ms in room.ends] == [
        (0, LOCK_MS - 400),
        (2, LOCK_MS - 400),
    ]
    room.pass_time(LOCK_MS - 401)
    assert room.shown == "a1 +1 a1"
    room.pass_time(1)
    assert room.shown == ".1 +1 .1"
    assert room.codes == [ErrorCode.NONE]
