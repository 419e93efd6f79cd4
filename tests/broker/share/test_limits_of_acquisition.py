"""What limits an attempt to acquire records: earlier deliveries, records in flight, aborted transactions, gaps."""

import pytest

from klamm.broker.share_partitions.in_flight import RecordState
from tests.broker.share.fetching import RELEASE
from tests.broker.share.room import LOCK_MS, Room

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


# -- records that were delivered often ---------------------------------------------------------------------------------


def deliver(room: Room, last_offset: int, times: int) -> None:
    """All records were delivered so often, and released."""
    for _ in range(times):
        room.fetch("z", (0, last_offset))
        assert room.ack("z", (0, last_offset, [RELEASE])) == 0


def test_records_that_were_delivered_often_come_in_halves_then_one_by_one() -> None:
    room = Room(delivery_limit=6)
    deliver(room, 7, 3)
    assert room.fetch("a", (0, 7)) == [(0, 3, 4)], "half of eight"
    assert room.fetch("a", (0, 7)) == [(4, 7, 4)]
    assert room.ack("a", (0, 7, [RELEASE])) == 0
    assert room.fetch("a", (0, 7)) == [(0, 1, 5)], "a quarter"
    assert room.ack("a", (0, 1, [RELEASE])) == 0
    assert room.fetch("a", (0, 7)) == [(0, 0, 6)], "the last delivery is of one record"
    assert room.fetch("a", (0, 7)) == [(1, 1, 6)]
    assert room.fetch("a", (0, 7)) == [(2, 3, 5)]
    room.check()


def test_a_batch_of_one_record_comes_whole_however_often() -> None:
    room = Room(delivery_limit=6)
    deliver(room, 0, 5)
    assert room.fetch("a", (0, 0)) == [(0, 0, 6)]


def test_below_the_throttle_limit_all_records_come() -> None:
    room = Room(delivery_limit=6)
    deliver(room, 7, 2)
    assert room.fetch("a", (0, 7)) == [(0, 7, 3)]


def test_the_last_delivery_of_a_record_ends_what_came_before_it() -> None:
    """Its neighbours that were delivered less often come without it."""
    room = Room((0, 2, AVAILABLE, 1), delivery_limit=3)
    (batch,) = room.partition.batches
    room.partition.split(batch)
    batch.offsets[1].delivery_count = 2
    assert room.fetch("a", (0, 2)) == [(0, 0, 2)]
    assert room.fetch("a", (0, 2)) == [(1, 1, 3)]
    assert room.fetch("a", (0, 2)) == [(2, 2, 2)]


def test_with_a_delivery_limit_of_two_the_last_delivery_is_not_of_one_record_alone() -> None:
    room = Room((0, 3, AVAILABLE, 1), delivery_limit=2)
    assert room.fetch("a", (0, 3)) == [(0, 3, 2)]


def test_a_share_partition_stops_at_records_that_come_a_few_at_a_time() -> None:
    room = Room((0, 1, AVAILABLE, 1), (2, 5, AVAILABLE, 2), (6, 7, AVAILABLE, 1), delivery_limit=4)
    log = (0, 1), (2, 5), (6, 7), (8, 9)
    assert room.fetch("a", *log) == [(0, 1, 2)], "they come alone"
    assert room.fetch("a", *log[1:]) == [(2, 3, 3)], "and nothing behind them in the same answer"
    assert room.fetch("a", *log[1:]) == [(4, 5, 3)]
    assert room.fetch("a", *log[1:]) == [(6, 7, 2), (8, 9, 1)]
    room.check()


def test_a_whole_batch_that_was_delivered_often_counts_even_where_the_log_was_not_read() -> None:
    room = Room((0, 3, AVAILABLE, 2), delivery_limit=4)
    assert room.fetch("a", (0, 1)) == [(0, 1, 3)]
    room = Room((0, 3, AVAILABLE, 1), delivery_limit=4)
    (batch,) = room.partition.batches
    room.partition.split(batch)
    batch.offsets[3].delivery_count = 2
    assert room.fetch("a", (0, 1)) == [(0, 1, 2)]
    assert room.fetch("a", (2, 3)) == [(2, 2, 2), (3, 3, 3)]


# -- the limit of records in flight ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("max_locks", "found"), [(4, []), (5, [(4, 5, 1)]), (6, [(4, 5, 1)]), (7, [(4, 7, 1)])])
def test_new_records_are_acquired_up_to_the_limit_in_flight(max_locks: int, found: list[tuple[int, int, int]]) -> None:
    room = Room(max_locks=max_locks)
    room.fetch("a", (0, 3))
    assert room.fetch("a", (4, 5), (6, 7)) == found


def test_at_the_limit_only_what_is_in_flight_already_is_acquired() -> None:
    room = Room(max_locks=4)
    room.fetch("a", (0, 1), (2, 3), size=2)
    assert room.ack("a", (2, 3, [RELEASE])) == 0
    assert room.fetch("b", (2, 3), (4, 5)) == [(2, 3, 2)]
    assert room.offsets == (0, 3, 4, 0)
    assert room.fetch("b", (4, 5)) == []


def test_at_the_limit_no_more_is_acquired_than_is_in_flight_from_the_fetch_offset_on() -> None:
    room = Room(max_locks=4)
    room.fetch("a", (0, 3))
    assert room.ack("a", (1, 1, [RELEASE]), (3, 3, [RELEASE])) == 0
    assert room.fetch("b", (0, 3), at=3, strict=True) == [(1, 1, 2)], "one record: 3 is the last in flight"
    assert room.fetch("b", (0, 3), at=1, most=1, strict=True) == [(3, 3, 2)]


@pytest.mark.parametrize("size", [0, -5])
def test_a_batch_size_of_no_sense_begins_with_an_entry_without_records(size: int) -> None:
    """As Apache Kafka 4.3 does, and only for new records."""
    room = Room()
    log = (0, 1), (2, 3), (4, 5)
    assert room.fetch("a", *log, most=3, size=size) == [(0, -1, 1), (0, 1, 1), (2, 3, 1)]
    assert room.fetch("a", *log[2:], size=size) == [(4, 3, 1), (4, 5, 1)]
    assert room.ack("a", (0, 5, [RELEASE])) == 0
    assert room.fetch("a", *log, size=size) == [(0, 1, 2), (2, 3, 2), (4, 5, 2)]
    room.pass_time(LOCK_MS)
    assert len(room.locks) == 0
    assert room.shown == " ".join([".2"] * 6)


# -- aborted transactions ----------------------------------------------------------------------------------------------


def test_records_of_aborted_transactions_are_archived_and_not_given() -> None:
    room = Room()
    assert room.fetch("a", (0, 1), (2, 3), (4, 5), aborted=[(2, 3)]) == [(0, 1, 1), (4, 5, 1)]
    assert room.count == 4
    assert room.shown == "a1 a1 x1 x1 a1 a1"
    assert room.offsets == (0, 5, 6, 2)
    room.check()


@pytest.mark.parametrize(
    ("aborted", "found"),
    [
        ([(0, 1)], [(2, 5, 1)]),
        ([(4, 5)], [(0, 3, 1)]),
        ([(0, 5)], []),
        ([(0, 1), (4, 5)], [(2, 3, 1)]),
        ([(1, 1), (3, 3)], [(0, 0, 1), (2, 2, 1), (4, 5, 1)]),
        ([(6, 9)], [(0, 5, 1)]),
        ([(5, 8)], [(0, 4, 1)]),
    ],
)
def test_what_is_left_between_aborted_batches(
    aborted: list[tuple[int, int]], found: list[tuple[int, int, int]]
) -> None:
    room = Room()
    assert room.fetch("a", (0, 5), aborted=aborted) == found
    assert room.count == sum(last - first + 1 for first, last, _ in found)
    assert room.partition.delivery_complete_count == 6 - room.count
    room.check()


def test_only_records_that_were_acquired_are_archived() -> None:
    room = Room()
    room.fetch("a", (0, 3), most=2, strict=True)
    assert room.fetch("b", (0, 3), most=1, strict=True, aborted=[(0, 3)]) == []
    assert room.shown == "x1 x1 x1 .0"


# -- records that the log does not have any more -----------------------------------------------------------------------


def test_available_records_that_were_compacted_away_are_archived() -> None:
    room = Room()
    room.fetch("a", (0, 5))
    assert room.ack("a", (0, 5, [RELEASE])) == 0
    room.partition.find_next_fetch_offset = False
    assert room.fetch("b", (3, 5), at=1) == [(3, 5, 2)]
    assert room.shown == ".1 x1 x1 b2 b2 b2"
    assert room.offsets == (0, 5, 0, 2)
    assert room.partition.find_next_fetch_offset
    room.check()


def test_records_that_a_member_has_are_not_archived_when_the_log_loses_them() -> None:
    room = Room()
    room.fetch("a", (0, 3))
    assert room.ack("a", (3, 3, [RELEASE])) == 0
    assert room.fetch("b", (3, 3), at=0) == [(3, 3, 2)]
    assert room.shown == "a1 a1 a1 b2"
    assert room.partition.delivery_complete_count == 0


def test_nothing_is_stale_when_the_log_begins_at_the_fetch_offset() -> None:
    room = Room((0, 3, AVAILABLE, 1))
    assert room.fetch("b", (2, 3), at=2) == [(2, 3, 2)]
    assert room.shown == ".1 .1 b2 b2"


# -- gaps --------------------------------------------------------------------------------------------------------------


def test_a_gap_is_acquired_before_the_batch_behind_it_and_not_beyond_it() -> None:
    room = Room((4, 5, AVAILABLE, 1))
    assert room.fetch("a", (0, 9), most=2) == [(0, 3, 1)], "a batch of the log ends at the batch in flight"
    assert room.offsets == (0, 5, 4, 0)
    assert room.fetch("a", (0, 9), most=3) == [(4, 5, 2), (6, 9, 1)]
    assert room.offsets == (0, 9, 10, 0)
    room.check()


def test_a_gap_between_batches_that_members_have_is_acquired() -> None:
    room = Room((2, 3, AVAILABLE, 1), (6, 7, AVAILABLE, 1))
    room.fetch("a", (0, 1))
    room.fetch("a", (2, 3))
    assert room.fetch("b", (4, 5), (6, 7), most=2) == [(4, 5, 1)]
    assert room.fetch("b", (4, 5), (6, 7), most=2) == [(6, 7, 2)]
    assert room.shown == "a1 a1 a2 a2 b1 b1 b2 b2"


def test_a_loaded_batch_that_begins_at_the_start_offset_leaves_it_there() -> None:
    room = Room((2, 3, AVAILABLE, 1), start=0)
    room.fetch("a", (0, 1), (2, 3))
    assert room.partition.start_offset == 0
    assert next(iter(room.partition.batches)).whole is not None
    first = next(iter(room.partition.batches)).whole
    assert first is not None
    assert first.state is RecordState.ACQUIRED
