"""Acknowledgements of one member: begun, written, complete or taken back, and which ranges are refused."""

import pytest

from klamm.protocol.errors import ErrorCode
from tests.broker.share.fetching import ACCEPT, GAP, REJECT, RELEASE, RENEW
from tests.broker.share.room import FAILED, LOCK_MS, Room

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
INVALID = ErrorCode.INVALID_RECORD_STATE


# -- acknowledgements are written, then complete -----------------------------------------------------------------------


def test_an_acknowledgement_is_complete_when_it_is_written() -> None:
    room = Room()
    room.fetch("a", (0, 1), (2, 5), size=2)
    room.begin("a", (0, 1, [ACCEPT]), (2, 4, [RELEASE, REJECT, GAP]))
    assert (room.codes, room.wakes) == ([], 0)
    assert room.offsets == (0, 5, 6, 4)
    assert room.answer() == [(0, 1, ACKNOWLEDGED, 1), (2, 2, AVAILABLE, 1), (3, 3, ARCHIVED, 1), (4, 4, ARCHIVED, 1)]
    assert (room.codes, room.wakes) == ([0], 1)
    assert room.shown == ".1 x1 x1 a1"
    assert room.offsets == (2, 5, 2, 2)
    room.check()


def test_acknowledgements_that_fail_leave_the_records_to_their_member() -> None:
    room = Room()
    room.fetch("a", (0, 1), (2, 5), size=2)
    room.begin("a", (0, 1, [ACCEPT]), (2, 3, [RELEASE, REJECT]))
    room.answer(FAILED)
    assert (room.codes, room.wakes) == ([FAILED.code], 1)
    assert room.shown == "a1 a1 a1 a1 a1 a1"
    assert room.offsets == (0, 5, 6, 0)
    room.check()
    assert room.ack("a", (0, 5, [ACCEPT])) == 0
    assert room.offsets == (6, 6, 6, 0)


def test_a_lock_that_expires_during_a_write_that_fails_frees_the_records() -> None:
    room = Room(delivery_limit=2)
    room.fetch("a", (0, 1), (2, 3), size=2)
    room.begin("a", (0, 1, [ACCEPT]))
    room.pass_time(LOCK_MS)
    assert room.shown == "+1 +1 .1 .1", "what is being written does not change"
    room.answer(FAILED)
    assert room.shown == ".1 .1 .1 .1"
    assert room.offsets == (0, 3, 0, 0)
    room.answer_all()
    room.check()


def test_a_lock_that_expires_during_a_write_that_succeeds_changes_nothing() -> None:
    room = Room()
    room.fetch("a", (0, 1), (2, 3), size=2)
    room.begin("a", (0, 1, [ACCEPT]))
    room.pass_time(LOCK_MS)
    room.answer_all()
    assert room.offsets == (2, 3, 2, 0)
    assert room.shown == ".1 .1"
    room.check()


def test_at_the_delivery_limit_a_lock_that_expires_during_a_failing_write_archives() -> None:
    room = Room(delivery_limit=1)
    room.fetch("a", (0, 1), (2, 3), size=2)
    room.begin("a", (2, 3, [ACCEPT]))
    room.pass_time(LOCK_MS)
    room.answer(FAILED)
    assert room.shown == "x1 x1 x1 x1"


def test_the_locks_of_complete_records_end_and_others_go_on() -> None:
    room = Room()
    room.fetch("a", (0, 3))
    assert room.ack("a", (1, 2, [ACCEPT])) == 0
    assert [lock[0] for lock in room.ends] == [0, 3]
    room.check()


# -- all acknowledgements of a request, or none ------------------------------------------------------------------------


def test_one_wrong_range_takes_back_the_others() -> None:
    room = Room()
    room.fetch("a", (0, 3))
    room.fetch("b", (4, 5))
    assert room.ack("a", (0, 0, [ACCEPT]), (2, 2, [RELEASE]), (4, 5, [ACCEPT])) == INVALID
    assert room.writes == []
    assert room.shown == "a1 a1 a1 a1 b1 b1"
    assert room.offsets == (0, 5, 6, 0)
    room.check()


def test_what_is_taken_back_and_available_is_found_by_the_next_fetch() -> None:
    """A release of a record whose lock has expired meanwhile cannot be taken back to its member."""
    room = Room()
    room.fetch("a", (0, 1))
    room.begin("a", (0, 1, [REJECT]))
    room.pass_time(LOCK_MS)
    assert room.partition.next_fetch_offset() == 2
    room.answer(FAILED)
    assert room.partition.find_next_fetch_offset
    assert room.partition.next_fetch_offset() == 0
    assert room.partition.delivery_complete_count == 0


@pytest.mark.parametrize(
    ("acks", "code"),
    [
        ([(-5, -3, [ACCEPT])], 0),
        ([(1, 3, [ACCEPT])], 0),
        ([(2, 4, [ACCEPT])], 0),
        ([(4, 9, [ACCEPT])], 0),
        ([(4, 10, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(10, 10, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(9, 10, [ACCEPT])], ErrorCode.INVALID_REQUEST),
    ],
)
def test_ranges_before_the_start_offset_are_complete_and_those_behind_the_end_are_refused(
    acks: list[tuple[int, int, list[int]]], code: int
) -> None:
    room = Room(start=4)
    room.fetch("a", (4, 9))
    assert room.ack("a", *acks) == code
    room.check()


def test_a_range_before_all_batches_is_not_found() -> None:
    room = Room()
    room.fetch("a", (4, 5), at=4)
    room.partition.start_offset = 2
    assert room.ack("a", (2, 3, [ACCEPT])) == INVALID


def test_a_range_that_begins_before_the_start_offset_acknowledges_the_rest() -> None:
    room = Room()
    room.fetch("a", (0, 5))
    room.delete_records(2)
    assert room.ack("a", (0, 3, [ACCEPT])) == 0
    assert room.shown == "+1 +1 a1 a1"
    assert room.partition.delivery_complete_count == 2


def test_the_types_of_a_range_belong_to_its_offsets_in_order() -> None:
    room = Room()
    room.fetch("a", (0, 1), (2, 3), size=2)
    room.begin("a", (0, 3, [RELEASE, REJECT, ACCEPT, GAP]))
    assert room.answer() == [(0, 0, AVAILABLE, 1), (1, 1, ARCHIVED, 1), (2, 2, ACKNOWLEDGED, 1), (3, 3, ARCHIVED, 1)]
    assert room.shown == ".1 x1 +1 x1"


def test_only_the_member_that_has_records_acknowledges_them() -> None:
    room = Room()
    room.fetch("a", (0, 3))
    assert room.ack("b", (0, 3, [ACCEPT])) == INVALID
    assert room.ack("b", (1, 1, [ACCEPT])) == INVALID
    assert room.ack("a", (1, 1, [RELEASE])) == 0
    room.fetch("b", (0, 3))
    assert room.ack("a", (1, 1, [ACCEPT])) == INVALID
    assert room.ack("b", (0, 0, [ACCEPT])) == INVALID, "its batch has a state for each record"
    assert room.ack("b", (1, 1, [ACCEPT])) == 0
    assert room.shown == "a1 +2 a1 a1"


def test_records_whose_transition_is_not_complete_cannot_be_acknowledged() -> None:
    room = Room()
    room.fetch("a", (0, 1), (2, 3), size=2)
    assert room.ack("a", (2, 2, [RENEW])) == 0
    for number, (first, last) in enumerate(((0, 1), (2, 2))):
        room.begin("a", (first, last, [ACCEPT]))
        room.begin("a", (first, last, [RELEASE]))
        assert room.codes[-1] == INVALID
        assert len(room.writes) == number + 1
    room.answer_all()
    assert room.shown == "a1", "0 to 2 are accepted"


def test_what_is_available_or_complete_cannot_be_acknowledged() -> None:
    room = Room()
    room.fetch("a", (0, 3), (4, 5), (6, 7), size=2)
    assert room.ack("a", (1, 1, [ACCEPT]), (2, 2, [RELEASE]), (4, 5, [RELEASE]), (6, 7, [ACCEPT])) == 0
    for offsets in ((1, 1), (2, 2), (4, 5), (4, 4), (6, 7), (7, 7), (0, 3)):
        assert room.ack("a", (*offsets, [ACCEPT])) == INVALID, offsets
        assert room.shown == "a1 +1 .1 a1 .1 .1 +1 +1"


# -- renewal -----------------------------------------------------------------------------------------------------------


def test_renewal_begins_the_lock_anew_and_writes_nothing() -> None:
    room = Room()
    room.fetch("a", (0, 1), (2, 3), size=2)
    room.pass_time(600)
    assert room.ack("a", (0, 1, [RENEW]), (3, 3, [RENEW])) == 0
    assert room.writes == []
    assert sorted(
        (lock.first_offset, lock.last_offset, lock.due_ms - room.now) for lock in room.locks._by_serial.values()
    ) == [
        (0, 1, LOCK_MS),
        (2, 2, LOCK_MS - 600),
        (3, 3, LOCK_MS),
    ]
    room.pass_time(400)
    assert room.shown == "a1 a1 .1 a1"


def test_renewal_is_a_config_of_the_group() -> None:
    room = Room(renew_enabled=False)
    room.fetch("a", (0, 1))
    assert room.ack("a", (0, 1, [RENEW])) == INVALID
    assert room.ack("a", (0, 0, [RENEW])) == INVALID
    assert room.ack("a", (0, 1, [ACCEPT])) == 0
