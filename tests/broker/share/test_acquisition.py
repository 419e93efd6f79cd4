"""Which records a fetch acquires: the facts of `share-own.jsonl.gz` (tests/golden/coordinators), without sockets."""

from typing import Any

import pytest

from klamm.protocol.errors import ErrorCode
from tests.broker.groups.conversation import Conversation
from tests.broker.share.fetching import ACCEPT, GAP, REJECT, RELEASE, RENEW, Fetcher, begin, produce
from tests.broker.share.members import LOCK_MS, new_conversation, set_config, state_of

STRICT: dict[str, Any] = {"share_acquire_mode": 1}


@pytest.fixture
def group() -> Conversation:
    return new_conversation()


def test_whole_batches_of_the_log_are_acquired(group: Conversation) -> None:
    member = begin(group, 4, 4, 4, 4)
    assert member.fetch(batch_size=2) == [(0, 3, 1), (4, 7, 1), (8, 11, 1), (12, 15, 1)]
    assert member.acknowledge((0, 15, [RELEASE])) == 0
    assert member.fetch(max_records=6) == [(0, 3, 2), (4, 7, 2)]
    assert member.fetch(max_records=1) == [(8, 11, 2)]
    assert member.acknowledge((0, 15, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
    produce(group, 3)
    assert member.fetch(max_records=2, batch_size=1) == [(12, 15, 2)]
    assert member.acknowledge((16, 16, [ACCEPT]), (17, 18, [RELEASE])) == ErrorCode.INVALID_REQUEST
    assert member.fetch(max_bytes=1) == [(16, 18, 1)]
    assert member.fetch([(17, 18, [ACCEPT, REJECT])]) == []


def test_records_that_were_delivered_often_come_a_few_at_a_time(group: Conversation) -> None:
    set_config(group, "share.delivery.count.limit", "4")
    member = begin(group, 8)
    for count in (1, 2):
        assert member.fetch() == [(0, 7, count)]
        assert member.acknowledge((0, 7, [RELEASE])) == 0
    assert [member.fetch() for _ in range(4)] == [[(0, 3, 3)], [(4, 7, 3)], [], []]
    group.pass_time(LOCK_MS)
    assert [member.fetch() for _ in range(5)] == [[(offset, offset, 4)] for offset in range(5)]
    group.pass_time(LOCK_MS)
    assert [member.fetch() for _ in range(4)] == [*([(offset, offset, 4)] for offset in (5, 6, 7)), []]
    produce(group, 2)
    assert member.fetch() == [(8, 9, 1)]


def test_a_batch_that_comes_a_few_at_a_time_comes_alone(group: Conversation) -> None:
    """What is free before it is acquired first, and nothing behind it."""
    set_config(group, "share.delivery.count.limit", "4")
    member = begin(group, 2, 4, 2)
    assert member.fetch(max_records=1) == [(0, 1, 1)]
    for count in (1, 2):
        assert member.fetch(max_records=4) == [(2, 5, count)]
        assert member.acknowledge((2, 5, [RELEASE])) == 0
    assert member.acknowledge((0, 1, [RELEASE])) == 0
    assert member.fetch() == [(0, 1, 2)]
    assert member.fetch() == [(2, 3, 3)]
    assert member.fetch() == [(4, 5, 3)]
    assert member.fetch() == [(6, 7, 1)]


def test_the_mode_record_limit_cuts_batches(group: Conversation) -> None:
    member = begin(group, 6, 4)
    assert [member.fetch(max_records=count, **STRICT) for count in (2, 3, 1)] == [[(0, 1, 1)], [(2, 4, 1)], [(5, 5, 1)]]
    assert member.acknowledge((0, 4, [RELEASE])) == 0
    assert member.fetch(max_records=4, **STRICT) == [(0, 3, 2)]
    assert member.fetch(max_records=4, **STRICT) == [(4, 4, 2), (6, 8, 1)]
    assert member.fetch(max_records=4) == [(9, 9, 1)]


def test_no_more_records_are_in_flight_than_the_limit(group: Conversation) -> None:
    set_config(group, "share.partition.max.record.locks", "100")
    member = begin(group, 40, 40, 40, 40)
    assert member.fetch(max_records=500, batch_size=50) == [(0, 79, 1), (80, 119, 1)]
    assert member.fetch(max_records=500) == []
    assert member.acknowledge((0, 39, [ACCEPT])) == 0
    assert member.fetch(max_records=500) == [(120, 159, 1)]
    assert member.acknowledge((60, 79, [RELEASE])) == 0
    assert member.fetch(max_records=500) == [(60, 79, 2)]


def test_a_member_gets_nothing_of_what_another_has(group: Conversation) -> None:
    member, other = begin(group, 4, 2), Fetcher(group, "b")
    assert member.fetch(max_records=3) == [(0, 3, 1)]
    assert other.fetch(max_records=1) == [(4, 5, 1)]
    assert other.acknowledge((0, 0, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
    assert member.acknowledge((1, 2, [RELEASE])) == 0
    assert other.fetch() == [(1, 2, 2)]
    assert other.acknowledge((0, 3, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
    assert member.acknowledge((0, 0, [ACCEPT]), (3, 3, [GAP])) == 0
    assert other.acknowledge((1, 2, [ACCEPT]), (4, 5, [ACCEPT])) == 0
    assert other.fetch() == []


def test_ranges_that_were_never_acquired_are_refused(group: Conversation) -> None:
    member = begin(group, 4)
    assert member.fetch() == [(0, 3, 1)]
    assert member.acknowledge((-5, -3, [ACCEPT])) == ErrorCode.INVALID_REQUEST
    assert member.acknowledge((7, 9, [ACCEPT])) == ErrorCode.INVALID_REQUEST
    assert member.acknowledge((3, 9, [ACCEPT])) == ErrorCode.INVALID_REQUEST
    assert member.acknowledge((0, 0, [ACCEPT]), (9, 9, [ACCEPT])) == ErrorCode.INVALID_REQUEST
    assert member.acknowledge((0, 3, [ACCEPT])) == ErrorCode.NONE, "nothing of the others was done"


def test_locks_are_renewed_only_where_the_group_allows_it(group: Conversation) -> None:
    member = begin(group, 2)
    assert member.fetch() == [(0, 1, 1)]
    assert member.acknowledge((0, 0, [RENEW]), renew=True) == 0
    set_config(group, "share.renew.acknowledge.enable", "false")
    assert member.acknowledge((1, 1, [RENEW]), renew=True) == ErrorCode.INVALID_RECORD_STATE
    assert member.acknowledge((0, 1, [ACCEPT]), renew=True) == 0


def test_a_session_that_ends_frees_what_its_member_has_and_nothing_else(group: Conversation) -> None:
    member, other, third = begin(group, 2, 2), Fetcher(group, "b"), Fetcher(group, "c")
    assert member.fetch(max_records=1) == [(0, 1, 1)]
    assert other.fetch(max_records=1) == [(2, 3, 1)]
    assert other.acknowledge((2, 2, [RELEASE])) == 0
    assert member.fetch() == [(2, 2, 2)]
    member.close()
    assert third.fetch() == [(0, 1, 2), (2, 2, 3)]
    assert other.acknowledge((3, 3, [ACCEPT])) == 0


def test_what_became_of_an_expired_lock_is_written(group: Conversation) -> None:
    set_config(group, "share.delivery.count.limit", "2")
    member = begin(group, 2)
    assert member.fetch() == [(0, 1, 1)]
    group.pass_time(LOCK_MS)
    assert [batch.fields for batch in state_of(group).batches] == [
        {"first_offset": 0, "last_offset": 1, "delivery_state": 0, "delivery_count": 1}
    ]
    produce(group, 1)
    assert member.fetch() == [(0, 1, 2), (2, 2, 1)]
    group.pass_time(LOCK_MS)
    assert member.fetch() == [(2, 2, 2)], "the others were delivered as often as the limit"
    assert member.acknowledge((2, 2, [ACCEPT])) == 0
    assert state_of(group).start_offset == 2


def test_a_first_request_of_a_session_acknowledges_nothing(group: Conversation) -> None:
    member = begin(group, 2)
    assert member.fetch() == [(0, 1, 1)]
    answer = member.submit(member.fetch_request([(0, 0, [ACCEPT])], epoch=0)).response
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert member.acknowledge((0, 0, [ACCEPT])) == 0, "the session goes on"
