"""Sessions that end with many records: these are released some at a time, and no request sees a difference."""

import pytest

from klamm.broker.share_partitions import left_records
from klamm.controller.delayed_answer import DelayedAnswer
from tests.broker.groups.conversation import Conversation
from tests.broker.share.fetching import ACCEPT
from tests.broker.share.members import LOCK_MS, new_conversation, state_of
from tests.broker.share.session_member import Member, partitions, shown, subscribe, write

PARTITIONS = range(4)
RECORDS = 3


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Conversation:
    """Member `a` has all records of four partitions, each by itself; one step releases those of one partition."""
    monkeypatch.setattr(left_records, "RELEASED_AT_ONCE", RECORDS)
    group = new_conversation()
    group.cluster.create_at("many", *[[1, 2, 3]] * len(PARTITIONS))
    return group


def holder(group: Conversation) -> Member:
    member = subscribe(group, "many")
    for index in PARTITIONS:
        write(group, "many", index, RECORDS)
    member.fetch(partitions(member.id_of("many"), *PARTITIONS), max_records=0)
    for _ in range(len(PARTITIONS) * RECORDS):
        member.fetch(max_records=1, share_acquire_mode=1)
    return member


def test_each_step_releases_some_partitions(group: Conversation) -> None:
    member, leaders = holder(group), group.cluster.brokers.shares.leaders
    assert len(leaders.locks) == len(PARTITIONS) * RECORDS
    member.fetch(share_session_epoch=-1)
    assert (len(leaders.left), len(leaders.locks)) == (3, 3 * RECORDS)
    for left in (2, 1, 0, 0):
        group.pass_time(1)
        assert (len(leaders.left), len(leaders.locks)) == (left, left * RECORDS)
    assert [batch.delivery_count for batch in state_of(group, "many", 3).batches] == [1]


def test_a_request_finds_nothing_that_a_member_has_left(group: Conversation) -> None:
    member, leaders = holder(group), group.cluster.brokers.shares.leaders
    member.fetch(share_session_epoch=-1)
    other = Member(group, "b", connection_id=2)
    found = other.fetch(partitions(member.id_of("many"), 3)).responses[0].partitions[0].acquired_records
    assert [(one.first_offset, one.last_offset, one.delivery_count) for one in found] == [(0, 2, 2)]
    assert len(leaders.left) in (1, 2)


def test_a_member_that_comes_back_keeps_what_it_acquires_anew(group: Conversation) -> None:
    member = holder(group)
    member.fetch(share_session_epoch=-1)
    member.epoch = 0
    assert shown(member.fetch(partitions(member.id_of("many"), 3))) == [(3, 0, RECORDS)]
    for _ in PARTITIONS:
        group.pass_time(1)
    assert shown(Member(group, "b", connection_id=2).fetch(partitions(member.id_of("many"), 3))) == [(3, 0, 0)]
    acks = partitions(member.id_of("many"), 3, acks=[(0, RECORDS - 1, [ACCEPT])])
    assert member.fetch(acks).responses[0].partitions[0].acknowledge_error_code == 0


def test_a_group_without_sessions_is_forgotten_when_all_is_released(group: Conversation) -> None:
    holder(group)
    leaders = group.cluster.brokers.shares.leaders
    group.cluster.brokers.connection_closed(1)
    assert (len(leaders), len(leaders.left)) == (3, 3)
    for left in (2, 1, 0):
        group.pass_time(1)
        assert (len(leaders), len(leaders.locks)) == (left, left * RECORDS)
    assert state_of(group, "many", 3).batches[0].delivery_count == 1, "the deliveries are written"


def test_a_group_that_has_a_session_again_is_not_forgotten(group: Conversation) -> None:
    member, leaders = holder(group), group.cluster.brokers.shares.leaders
    group.cluster.brokers.connection_closed(1)
    other = Member(group, "b", connection_id=2)
    assert shown(other.fetch(partitions(member.id_of("many"), 3))) == [(3, 0, RECORDS)]
    for _ in PARTITIONS:
        group.pass_time(1)
    assert (len(leaders), len(leaders.left)) == (3, 0), "the one that was forgotten at once is loaded when it is used"
    assert shown(other.fetch(partitions(member.id_of("many"), *PARTITIONS))) == [(0, 0, 3), (1, 0, 3), (2, 0, 3)]


def test_a_fetch_that_waits_is_tried_again_while_records_are_left(group: Conversation) -> None:
    member = holder(group)
    other = Member(group, "b", connection_id=2)
    waiting = other.submit(other.request(partitions(member.id_of("many"), *PARTITIONS), max_wait_ms=1_000))
    assert waiting.is_waiting
    member.fetch(share_session_epoch=-1)
    assert waiting.response is not None, "the first step has freed some"


def test_what_waits_is_due_at_once(group: Conversation) -> None:
    member, leaders = holder(group), group.cluster.brokers.shares.leaders
    assert leaders.next_due_ms == group.cluster.clock.now_ms + LOCK_MS
    member.fetch(share_session_epoch=-1)
    assert leaders.next_due_ms == group.cluster.clock.now_ms + 1
    group.cluster.create_at("other", [1])
    stranger = Member(Conversation(group.cluster, "h"), "s", connection_id=3)
    subscribe(stranger.group, "other")
    asked = stranger.submit(stranger.request(partitions(member.id_of("other"), 0), max_wait_ms=5_000))
    assert asked.is_waiting
    assert isinstance(asked.answer.response, DelayedAnswer)
    assert asked.answer.response.retry_at_ms <= group.cluster.clock.now_ms + LOCK_MS


def test_partitions_of_brokers_that_do_not_lead_any_more_are_passed_over(group: Conversation) -> None:
    member, leaders = holder(group), group.cluster.brokers.shares.leaders
    member.fetch(share_session_epoch=-1)
    group.cluster.set_down({1})
    assert len(leaders) == 0
    group.pass_time(1)
    assert (len(leaders.left), len(leaders.locks)) in ((0, 0), (2, 0), (1, 0))


def test_only_so_many_partitions_wait(group: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_records, "MAX_LEFT", 1)
    member, leaders = holder(group), group.cluster.brokers.shares.leaders
    member.fetch(share_session_epoch=-1)
    assert (len(leaders.left), len(leaders.locks)) == (1, RECORDS)
