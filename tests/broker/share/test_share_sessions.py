"""Share sessions, and the acknowledgements of their requests: epochs, partitions, validity, and what remains."""

import pytest

from klamm.broker.handlers.share import share_fetch as handler
from klamm.broker.share_partitions import sessions
from klamm.controller.delayed_answer import DelayedAnswer
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.shares import share_fetch
from tests.broker.groups.conversation import Conversation
from tests.broker.share.fetching import ACCEPT, REJECT, RELEASE, RENEW, Fetcher, begin
from tests.broker.share.members import LOCK_MS, set_config, state_of
from tests.broker.share.session_member import (
    BOTH,
    UNKNOWN,
    Member,
    acks_of,
    partitions,
    shown,
    subscribe,
    with_topic_both,
    write,
)

E = ErrorCode


@pytest.fixture
def group() -> Conversation:
    return with_topic_both()


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_each_request_of_a_session_begins_with_another_partition(group: Conversation) -> None:
    member = subscribe(group, "both")
    member.fetch(partitions(member.id_of("both"), *BOTH))
    order = []
    for _ in range(3):
        for index in BOTH:
            write(group, "both", index, 1)
        order.append([index for index, _, _ in shown(member.fetch(max_records=1))])
        member.fetch()
    assert order == [[1], [0], [1]]


def test_a_request_names_partitions_once_and_they_stay_in_the_session(group: Conversation) -> None:
    member = subscribe(group, "both")
    answer = member.fetch(partitions(member.id_of("both"), 0, 0, 1), partitions(member.id_of("both"), 1))
    assert shown(answer) == [(0, 0, 0), (1, 0, 0)], "a first answer shows all"
    assert shown(member.fetch()) == [], "later ones what is new"
    write(group, "both", 1, 1)
    assert shown(member.fetch()) == [(1, 0, 1)]


def test_a_new_session_begins_with_nothing_of_the_former_one(group: Conversation) -> None:
    member = subscribe(group, "both")
    for index in BOTH:
        write(group, "both", index, 1)
    assert shown(member.fetch(partitions(member.id_of("both"), 0))) == [(0, 0, 1)]
    member.epoch = 0
    assert shown(member.fetch(partitions(member.id_of("both"), 1))) == [(1, 0, 1)]
    assert shown(member.fetch()) == []
    assert len(group.cluster.brokers.shares.leaders.sessions(1)) == 1


def test_a_session_that_has_another_epoch_goes_on_with_the_right_one(group: Conversation) -> None:
    member = subscribe(group, "both")
    member.fetch(partitions(member.id_of("both"), 0))
    for wrong in (2, 7, -2):
        assert member.fetch(share_session_epoch=wrong).error_code == E.INVALID_SHARE_SESSION_EPOCH
    assert member.fetch().error_code == 0
    assert member.fetch(share_session_epoch=1).error_code == E.INVALID_SHARE_SESSION_EPOCH, "sent twice"


def test_the_last_request_of_a_session_acknowledges_fetches_nothing_and_frees_the_rest(group: Conversation) -> None:
    member = subscribe(group, "both")
    write(group, "both", 0, 3)
    member.fetch(partitions(member.id_of("both"), 0))
    write(group, "both", 0, 2)
    acks = partitions(member.id_of("both"), 0, acks=[(0, 1, [ACCEPT])])
    answer = member.fetch(acks, share_session_epoch=-1, max_wait_ms=1_000)
    assert (shown(answer), acks_of(answer)) == ([(0, 0, 0)], [(0, 0)])
    assert member.fetch().error_code == E.SHARE_SESSION_NOT_FOUND
    other = Member(group, "b", connection_id=2)
    found = other.fetch(partitions(member.id_of("both"), 0)).responses[0].partitions[0].acquired_records
    assert [(one.first_offset, one.last_offset, one.delivery_count) for one in found] == [(2, 2, 2), (3, 4, 1)]


def test_an_answer_says_how_long_locks_last(group: Conversation) -> None:
    member = subscribe(group, "both")
    assert member.fetch(partitions(member.id_of("both"), 0)).acquisition_lock_timeout_ms == LOCK_MS
    set_config(group, "share.record.lock.duration.ms", "1500")
    assert member.fetch().acquisition_lock_timeout_ms == 1_500


def test_sessions_of_members_and_groups_are_apart(group: Conversation) -> None:
    member = subscribe(group, "both")
    write(group, "both", 0, 1)
    assert shown(member.fetch(partitions(member.id_of("both"), 0))) == [(0, 0, 1)]
    other = Member(group, "b", connection_id=2)
    assert other.fetch(share_session_epoch=1).error_code == E.SHARE_SESSION_NOT_FOUND
    second = Conversation(group.cluster, "h")
    in_second = subscribe(second, "both")
    assert shown(in_second.fetch(partitions(member.id_of("both"), 0))) == [(0, 0, 1)], "each group gets each record"
    assert member.fetch().error_code == 0


# -- acknowledgements --------------------------------------------------------------------------------------------------


def test_acknowledgements_of_several_partitions_are_answered_each(group: Conversation) -> None:
    member = subscribe(group, "both")
    for index in BOTH:
        write(group, "both", index, 2)
    member.fetch(partitions(member.id_of("both"), *BOTH))
    topics = [
        partitions(UNKNOWN, 0, acks=[(0, 0, [ACCEPT])]),
        partitions(member.id_of("both"), 0, acks=[(0, 1, [ACCEPT])]),
        partitions(member.id_of("both"), 1, acks=[(1, 0, [ACCEPT])]),
        partitions(member.id_of("both"), 7, acks=[(0, 0, [ACCEPT])]),
    ]
    answer = member.fetch(*topics)
    assert sorted(acks_of(answer)) == [
        (0, 0),
        (0, E.UNKNOWN_TOPIC_ID),
        (1, E.INVALID_REQUEST),
        (7, E.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    group.pass_time(LOCK_MS)
    assert (1, 0, 2) in shown(member.fetch()), "they were not acknowledged"


@pytest.mark.parametrize(
    ("batches", "code"),
    [
        ([(0, 1, [ACCEPT]), (1, 2, [ACCEPT])], E.INVALID_RECORD_STATE),
        ([(0, 1, [ACCEPT]), (0, 2, [ACCEPT])], E.INVALID_REQUEST),
        ([(2, 3, [ACCEPT]), (0, 1, [ACCEPT])], E.INVALID_REQUEST),
        ([(1, 0, [ACCEPT])], E.INVALID_REQUEST),
        ([(0, 1, [])], E.INVALID_REQUEST),
        ([(0, 1, [ACCEPT, ACCEPT, ACCEPT])], E.INVALID_REQUEST),
        ([(0, 2, [ACCEPT, ACCEPT])], E.INVALID_REQUEST),
        ([(0, 1, [5])], E.INVALID_REQUEST),
        ([(0, 1, [-1])], E.INVALID_REQUEST),
        ([(0, 1, [ACCEPT, 5])], E.INVALID_REQUEST),
        ([(0, 1, [RENEW])], E.INVALID_REQUEST),
        ([(-1, 1, [ACCEPT])], E.NONE),
        ([(0, 1, [RELEASE, REJECT]), (2, 3, [ACCEPT])], E.NONE),
        ([(0, 0, [ACCEPT]), (0, 0, [ACCEPT])], E.INVALID_RECORD_STATE),
    ],
)
def test_which_batches_are_valid(group: Conversation, batches: list[tuple[int, int, list[int]]], code: int) -> None:
    member = begin(group, 4)
    assert member.fetch() == [(0, 3, 1)]
    assert member.acknowledge(*batches) == code
    if code:
        assert member.acknowledge((0, 3, [ACCEPT])) == 0, "all or nothing"


def test_renewal_needs_its_version_and_the_flag_of_the_request(group: Conversation) -> None:
    member = begin(group, 2)
    member.fetch()
    request = member.acknowledge_request([(0, 1, [RENEW])], renew=False)
    answer = member.submit(request, version=1).response
    assert answer.responses[0].partitions[0].error_code == E.INVALID_REQUEST
    member.epoch += 1
    assert member.acknowledge((0, 1, [RENEW])) == E.INVALID_REQUEST
    assert member.acknowledge((0, 1, [RENEW]), renew=True) == 0


def test_a_request_acknowledges_within_its_session(group: Conversation) -> None:
    member = begin(group, 2)
    member.fetch()
    for epoch, code in ((0, E.INVALID_SHARE_SESSION_EPOCH), (7, E.INVALID_SHARE_SESSION_EPOCH)):
        request = member.acknowledge_request([(0, 1, [ACCEPT])])
        request.share_session_epoch = epoch
        assert member.submit(request).response.error_code == code
    stranger = Fetcher(group, "b")
    stranger.epoch = 1
    assert stranger.acknowledge((0, 1, [ACCEPT])) == E.SHARE_SESSION_NOT_FOUND
    assert member.acknowledge((0, 1, [ACCEPT])) == 0


def test_the_last_acknowledgement_of_a_session_frees_the_rest_when_it_is_written(group: Conversation) -> None:
    member = begin(group, 3)
    member.fetch()
    request = member.acknowledge_request([(0, 0, [ACCEPT])])
    request.share_session_epoch = sessions.FINAL_EPOCH
    asked = member.submit(request)
    if asked.is_waiting:
        assert len(group.cluster.brokers.shares.leaders.sessions(member.leader)) == 1
        group.pass_time(2)
    assert asked.response.responses[0].partitions[0].error_code == 0
    assert len(group.cluster.brokers.shares.leaders.sessions(member.leader)) == 0
    assert Fetcher(group, "b").fetch() == [(1, 2, 2)]


def test_an_acknowledgement_of_another_leader_s_partition_is_refused(group: Conversation) -> None:
    member = begin(group, 1)
    member.fetch()
    follower = next(one for one in (1, 2, 3) if one != member.leader)
    elsewhere = Member(group, "a")
    asked = elsewhere.submit(elsewhere.request(), broker_id=follower)
    assert asked.response.error_code == 0
    answer = member.submit(member.acknowledge_request([(0, 0, [ACCEPT])]), broker_id=follower).response
    assert answer.responses[0].partitions[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.responses[0].partitions[0].error_message == "This server does not host this topic-partition."
    assert member.acknowledge((0, 0, [ACCEPT])) == 0


def test_what_is_accepted_is_written_before_it_is_answered(group: Conversation) -> None:
    member = begin(group, 2)
    member.fetch()
    asked = member.submit(member.fetch_request([(0, 1, [ACCEPT])], max_wait_ms=0))
    assert acks_of(asked.response) == [(0, 0)]
    (batch_of_state,) = state_of(group).batches
    assert (batch_of_state.first_offset, batch_of_state.last_offset, batch_of_state.delivery_state) == (0, 1, 2)


# -- what a request may cost -------------------------------------------------------------------------------------------


def test_share_partitions_are_loaded_some_at_a_time(group: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "LOADED_AT_ONCE", 2)
    group.cluster.create_at("many", *[[1, 2, 3]] * 7)
    member, leaders = subscribe(group, "many"), group.cluster.brokers.shares.leaders
    for index in range(7):
        write(group, "many", index, 1)
    asked = member.submit(member.request(partitions(member.id_of("many"), *range(7)), max_wait_ms=0))
    assert (asked.is_waiting, len(leaders)) == (True, 6)
    assert isinstance(asked.answer.response, DelayedAnswer)
    assert asked.answer.response.retry_at_ms == group.cluster.clock.now_ms + 1
    assert asked.is_waiting
    assert [index for index, _, _ in shown(asked.response)] == list(range(7))
    member.epoch = 1
    none = member.submit(member.request(max_records=0))
    while none.is_waiting:
        pass
    assert shown(none.response) == []


@pytest.mark.parametrize(("most", "fits"), [(1, False), (2, True)])
def test_a_session_has_so_many_partitions(
    group: Conversation, monkeypatch: pytest.MonkeyPatch, most: int, fits: bool
) -> None:
    monkeypatch.setattr(sessions, "MAX_PARTITIONS_OF_SESSION", most)
    member = subscribe(group, "both")
    whole = member.submit(member.request(partitions(member.id_of("both"), *BOTH)))
    assert whole.response.error_code == (E.NONE if fits else E.SHARE_SESSION_LIMIT_REACHED)
    member.epoch = 0
    assert member.fetch(partitions(member.id_of("both"), 0)).error_code == 0
    added = member.fetch(partitions(member.id_of("both"), 1))
    assert added.error_code == (E.NONE if fits else E.SHARE_SESSION_LIMIT_REACHED)
    assert member.fetch(partitions(member.id_of("both"), 0)).error_code == 0, "the session goes on as it was"


def test_partitions_of_all_sessions_are_counted(group: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    known = group.cluster.brokers.shares.leaders.sessions(1)
    member, other = subscribe(group, "both"), Member(group, "b", connection_id=2)
    member.fetch(partitions(member.id_of("both"), *BOTH))
    monkeypatch.setattr(sessions, "MAX_PARTITIONS", 3)
    assert other.fetch(partitions(member.id_of("both"), *BOTH)).error_code == E.SHARE_SESSION_LIMIT_REACHED
    assert other.fetch(partitions(member.id_of("both"), 0)).error_code == 0
    assert known.partition_count == 3
    assert other.fetch(partitions(member.id_of("both"), 1)).error_code == E.SHARE_SESSION_LIMIT_REACHED
    forgotten = [share_fetch.ForgottenTopic(topic_id=member.id_of("both"), partitions=[0, 0, 7])]
    assert member.fetch(forgotten_topics_data=forgotten).error_code == 0
    assert known.partition_count == 2
    assert other.fetch(partitions(member.id_of("both"), 1)).error_code == 0
    group.cluster.brokers.connection_closed(2)
    assert known.partition_count == 1
