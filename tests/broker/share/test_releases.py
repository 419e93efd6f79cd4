"""How records become available again or are archived: a session ends, a lock expires, records are deleted."""

import pytest

from klamm.broker.share_partitions.in_flight import InFlight, RecordState
from klamm.protocol.errors import ApiError, ErrorCode
from tests.broker.share.fetching import ACCEPT, RELEASE, RENEW
from tests.broker.share.room import FAILED, LOCK_MS, Room

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
INVALID = ErrorCode.INVALID_RECORD_STATE


# -- a session ends ----------------------------------------------------------------------------------------------------


def test_a_member_that_goes_leaves_what_it_had_and_nothing_else() -> None:
    room = Room(delivery_limit=3)
    room.fetch("a", (0, 1), (2, 5), size=2)
    room.fetch("b", (6, 7))
    assert room.ack("a", (2, 2, [ACCEPT]), (3, 3, [RELEASE])) == 0
    room.fetch("b", (2, 5))
    assert room.shown == "a1 a1 +1 b2 a1 a1 b1 b1"
    room.release("a")
    assert room.answer() == [(0, 1, AVAILABLE, 1), (4, 4, AVAILABLE, 1), (5, 5, AVAILABLE, 1)]
    assert room.shown == ".1 .1 +1 b2 .1 .1 b1 b1"
    assert room.offsets == (0, 7, 0, 1)
    assert room.codes[-1] == 0
    room.check()


def test_at_the_delivery_limit_a_member_that_goes_leaves_archived_records() -> None:
    room = Room((0, 1, AVAILABLE, 1), (2, 2, AVAILABLE, 0), delivery_limit=2)
    room.fetch("a", (0, 1), (2, 2))
    room.release("a")
    assert room.answer() == [(0, 1, ARCHIVED, 2), (2, 2, AVAILABLE, 1)]
    assert room.offsets == (2, 2, 2, 0)
    assert room.shown == ".1"
    room.check()


def test_records_before_the_start_offset_are_archived_when_their_member_goes() -> None:
    room = Room()
    room.fetch("a", (0, 1), (2, 5), size=2)
    room.delete_records(4)
    room.release("a")
    assert room.answer() == [
        (0, 1, ARCHIVED, 1),
        (2, 2, ARCHIVED, 1),
        (3, 3, ARCHIVED, 1),
        (4, 4, AVAILABLE, 1),
        (5, 5, AVAILABLE, 1),
    ]
    assert room.shown == ".1 .1"
    assert room.offsets == (4, 5, 4, 0)
    room.check()


def test_a_member_that_goes_during_a_write_leaves_that_to_the_write() -> None:
    """Its records are acquired again if the write fails, until their lock expires."""
    room = Room()
    room.fetch("a", (0, 1), (2, 3), size=2)
    room.begin("a", (0, 1, [ACCEPT]))
    room.release("a")
    room.answer(FAILED)
    assert room.answer() == [(2, 3, AVAILABLE, 1)]
    assert room.shown == "a1 a1 .1 .1"


def test_a_member_without_records_writes_nothing() -> None:
    room = Room()
    room.fetch("a", (0, 1))
    room.release("b")
    assert (room.writes, room.codes, room.shown) == ([], [0], "a1 a1")


def test_a_release_that_cannot_be_written_leaves_the_records_to_their_locks() -> None:
    room = Room()
    room.fetch("a", (0, 1))
    room.release("a")
    room.answer(FAILED)
    assert room.shown == "a1 a1"
    room.pass_time(LOCK_MS)
    assert room.shown == ".1 .1"
    assert room.answer() == [(0, 1, AVAILABLE, 1)]


# -- a lock expires ----------------------------------------------------------------------------------------------------


def test_an_expired_lock_frees_its_records_at_once_and_is_written() -> None:
    room = Room()
    room.fetch("a", (0, 1), (2, 5), size=2)
    room.pass_time(100)
    room.fetch("b", (6, 7))
    room.pass_time(LOCK_MS - 100)
    assert room.shown == ".1 .1 .1 .1 .1 .1 b1 b1"
    assert room.wakes == 2
    assert room.offsets == (0, 7, 0, 0)
    assert [room.answer(), room.answer()] == [[(0, 1, AVAILABLE, 1)], [(2, 5, AVAILABLE, 1)]]
    assert room.wakes == 2, "nothing moved"
    room.check()


def test_an_expired_lock_at_the_delivery_limit_archives_and_the_start_offset_moves_when_it_is_written() -> None:
    room = Room((0, 1, AVAILABLE, 1), delivery_limit=2)
    room.fetch("a", (0, 1), (2, 3))
    room.pass_time(LOCK_MS)
    assert room.shown == "x2 x2 .1 .1"
    assert room.offsets == (0, 3, 2, 2)
    wakes = room.wakes
    room.answer()
    assert room.offsets == (2, 3, 2, 0)
    assert room.wakes == wakes + 1
    room.answer_all()
    room.check()


def test_the_lock_of_one_record_frees_this_record() -> None:
    room = Room()
    room.fetch("a", (0, 2))
    room.pass_time(500)
    assert room.ack("a", (0, 0, [RENEW]), (2, 2, [RENEW])) == 0
    room.pass_time(500)
    assert room.shown == "a1 .1 a1"
    assert room.answer() == [(1, 1, AVAILABLE, 1)]
    room.fetch("b", (0, 2))
    room.pass_time(500)
    assert room.shown == ".1 b2 .1"
    room.answer_all()
    room.check()


def test_expired_records_before_the_start_offset_are_archived() -> None:
    room = Room()
    room.fetch("a", (0, 3))
    room.delete_records(2)
    room.pass_time(LOCK_MS)
    assert sorted(one for _ in range(len(room.writes)) for one in room.answer()) == [
        (0, 0, ARCHIVED, 1),
        (1, 1, ARCHIVED, 1),
        (2, 2, AVAILABLE, 1),
        (3, 3, AVAILABLE, 1),
    ]
    assert room.shown == ".1 .1"
    assert room.offsets == (2, 3, 2, 0)
    room.check()


def test_a_lock_of_records_that_are_forgotten_does_nothing() -> None:
    room = Room()
    room.fetch("a", (4, 5), at=4)
    (lock,) = room.locks._by_serial.values()
    lock.first_offset = 3
    room.pass_time(LOCK_MS)
    assert room.writes == []


# -- records are deleted from the log ----------------------------------------------------------------------------------


def test_the_offsets_follow_the_log_start_offset_when_nothing_is_in_flight() -> None:
    room = Room(start=3)
    room.partition.delivery_complete_count = 1
    room.delete_records(3)
    assert room.partition.delivery_complete_count == 1, "it has not moved"
    room.delete_records(2)
    assert room.offsets[0] == 3
    room.delete_records(8)
    assert room.offsets == (8, 8, 8, 0)


def test_available_records_that_were_deleted_are_archived_and_others_keep_their_member() -> None:
    room = Room()
    room.fetch("a", (0, 1), (2, 5), (6, 7), size=2)
    assert room.ack("a", (0, 1, [RELEASE]), (3, 4, [RELEASE, ACCEPT])) == 0
    room.partition.find_next_fetch_offset = False
    room.delete_records(5)
    assert room.partition.find_next_fetch_offset
    assert room.offsets == (5, 7, 8, 0)
    assert room.shown == "a1 a1 a1"
    words = [
        (first, last, state.state.name) for batch in room.partition.batches for first, last, state in batch.states()
    ]
    assert words == [
        (0, 1, "ARCHIVED"),
        (2, 2, "ACQUIRED"),
        (3, 3, "ARCHIVED"),
        (4, 4, "ACKNOWLEDGED"),
        (5, 5, "ACQUIRED"),
        (6, 7, "ACQUIRED"),
    ]
    room.check()


def test_a_batch_that_is_deleted_in_part_is_archived_in_part() -> None:
    room = Room((0, 3, AVAILABLE, 1), (4, 5, ACKNOWLEDGED, 1), (6, 6, AVAILABLE, 1))
    room.delete_records(2)
    assert room.shown == ".1 .1 +1 +1 .1"
    assert room.offsets == (2, 6, 2, 2)
    room.delete_records(5)
    assert room.shown == "+1 .1"
    assert room.offsets == (5, 6, 6, 1)
    room.check()


def test_records_are_deleted_beyond_what_is_in_flight() -> None:
    room = Room()
    room.fetch("a", (0, 3))
    assert room.ack("a", (0, 3, [RELEASE])) == 0
    room.delete_records(3)
    assert room.offsets == (3, 3, 3, 0)
    room.delete_records(9)
    assert room.offsets == (9, 9, 9, 0)
    assert room.fetch("a", (9, 10)) == [(9, 10, 1)]
    assert room.offsets == (9, 10, 11, 0)


def test_nothing_is_found_anew_when_no_available_record_was_deleted() -> None:
    room = Room()
    room.fetch("a", (0, 3))
    room.delete_records(2)
    assert not room.partition.find_next_fetch_offset


def test_a_deleted_record_whose_write_fails_stays_archived() -> None:
    room = Room((0, 1, AVAILABLE, 1))
    room.fetch("a", (0, 1))
    room.begin("a", (0, 1, [RELEASE]))
    room.delete_records(2)
    room.answer(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    states = [state for batch in room.partition.batches for _, _, state in batch.states()]
    assert [state.state.name for state in states] == ["ARCHIVED"] * len(states)


def test_batches_behind_what_was_deleted_keep_one_state() -> None:
    room = Room((0, 1, AVAILABLE, 1), (2, 5, AVAILABLE, 1), (6, 9, AVAILABLE, 1))
    room.delete_records(4)
    assert [batch.whole is None for batch in room.partition.batches] == [False, True, False]
    assert room.shown == ".1 .1 .1 .1 .1 .1"


def test_an_acquired_batch_that_is_deleted_in_part_stays_one_batch() -> None:
    room = Room()
    room.fetch("a", (0, 3))
    room.delete_records(2)
    assert [batch.whole is not None for batch in room.partition.batches] == [True]
    assert room.shown == "a1 a1"


def test_available_records_that_the_log_does_not_have_are_complete_deliveries() -> None:
    """They were compacted away: a fetch from offset 0 finds a batch at 4."""
    room = Room((0, 1, AVAILABLE, 1), (2, 3, ACKNOWLEDGED, 1), (4, 5, AVAILABLE, 1))
    assert room.partition.delivery_complete_count == 2
    assert room.fetch("a", (4, 5), at=0) == [(4, 5, 2)]
    assert room.shown == "x1 x1 +1 +1 a2 a2"
    assert room.partition.delivery_complete_count == 4
    room.check()
    assert room.ack("a", (4, 5, [ACCEPT])) == 0
    assert room.offsets == (6, 6, 6, 0)


def test_an_acceptance_that_fails_after_its_lock_at_the_delivery_limit_is_a_complete_delivery() -> None:
    room = Room(delivery_limit=1)
    room.fetch("a", (0, 0), (1, 1), (2, 2), size=1)
    room.begin("a", (1, 1, [ACCEPT]))
    assert room.partition.delivery_complete_count == 1
    room.pass_time(LOCK_MS)
    assert room.partition.delivery_complete_count == 3
    room.answer(FAILED)
    assert room.shown == "x1 x1 x1"
    assert room.partition.delivery_complete_count == 3
    room.answer_all()
    assert room.offsets == (3, 3, 3, 0)
    room.check()


# -- one state ---------------------------------------------------------------------------------------------------------


def test_a_transition_that_is_not_complete_lets_no_other_begin() -> None:
    state = InFlight(RecordState.ACQUIRED, 1, "a")
    assert state.begin(RecordState.AVAILABLE, 5)
    assert (state.is_changing, state.is_free) == (True, False)
    assert not state.move(RecordState.ACQUIRED, 5, "b")
    assert not state.begin(RecordState.ARCHIVED, 5)
    assert (state.state, state.delivery_count) == (RecordState.AVAILABLE, 1)
    state.complete(commit=True)
    assert state.move(RecordState.ACQUIRED, 5, "b")
    assert (state.member_id, state.delivery_count) == ("b", 2)


@pytest.mark.parametrize("state", [RecordState.ACKNOWLEDGED, RecordState.ARCHIVED])
def test_nothing_follows_a_complete_delivery(state: RecordState) -> None:
    one = InFlight(state, 1)
    assert not any(one.move(to, 5) or one.begin(to, 5) for to in RecordState)
    assert (one.state, one.is_changing) == (state, False)
