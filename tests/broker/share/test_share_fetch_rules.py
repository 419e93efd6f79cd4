"""ShareFetch: what is refused and in which order, partitions that cannot be read, and how much a request gets."""

from typing import Any

import pytest

from klamm.broker.handlers.delayed_fetch import MAX_WAIT_MS
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.shares import share_acknowledge, share_fetch
from tests.broker.groups.conversation import Conversation
from tests.broker.share.fetching import ACCEPT, RENEW
from tests.broker.share.members import CONFIGS, new_conversation
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
from tests.controller.handlers.guarded_cluster import ALICE, GuardedCluster, entry

E = ErrorCode


@pytest.fixture
def group() -> Conversation:
    return with_topic_both()


# -- what is refused as a whole ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": None}, E.INVALID_REQUEST),
        ({"group_id": None, "member_id": ""}, E.INVALID_REQUEST),
        ({"member_id": None}, E.INVALID_REQUEST),
        ({"member_id": ""}, E.INVALID_REQUEST),
        ({"member_id": "m" * 37}, E.INVALID_REQUEST),
        ({"member_id": "m" * 36}, E.NONE),
        ({"share_session_epoch": 1}, E.SHARE_SESSION_NOT_FOUND),
        ({"share_session_epoch": -1}, E.SHARE_SESSION_NOT_FOUND),
        ({"share_session_epoch": -2}, E.SHARE_SESSION_NOT_FOUND),
    ],
)
def test_requests_that_are_refused_before_they_have_a_session(
    group: Conversation, fields: dict[str, Any], code: ErrorCode
) -> None:
    member = subscribe(group, "both")
    answer = member.submit(member.request(**fields)).response
    assert answer.error_code == code
    assert answer.responses == ()
    assert len(group.cluster.brokers.shares.leaders.sessions(1)) == (0 if code else 1)


def test_without_share_groups_everything_else_is_not_examined(group: Conversation) -> None:
    member = subscribe(group, "both")
    group.cluster.image.features["share.version"] = 0
    assert member.submit(member.request(group_id=None)).response.error_code == E.UNSUPPORTED_VERSION
    request = share_acknowledge.ShareAcknowledgeRequest(group_id=None)
    assert member.submit(request).response.error_code == E.UNSUPPORTED_VERSION


@pytest.mark.parametrize("wanted", ["max_bytes", "min_bytes", "max_records", "max_wait_ms"])
def test_a_renewal_that_asks_for_records_is_refused(group: Conversation, wanted: str) -> None:
    member = subscribe(group, "both")
    member.fetch(partitions(member.id_of("both"), 0))
    nothing = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "max_wait_ms": 0}
    answer = member.fetch(is_renew_ack=True, **{**nothing, wanted: 1})
    assert answer.error_code == E.INVALID_REQUEST
    assert member.fetch(is_renew_ack=True, **nothing).error_code == 0, "the session goes on"


def test_a_renewal_has_no_records(group: Conversation) -> None:
    member = subscribe(group, "both")
    write(group, "both", 0, 2)
    member.fetch(partitions(member.id_of("both"), 0))
    write(group, "both", 0, 2)
    acks = partitions(member.id_of("both"), 0, acks=[(0, 1, [RENEW])])
    answer = member.fetch(acks, is_renew_ack=True, max_bytes=0, min_bytes=0, max_records=0)
    assert (shown(answer), acks_of(answer)) == ([(0, 0, 0)], [(0, 0)])
    assert shown(member.fetch()) == [(0, 0, 2)]


def test_a_renewal_examines_no_partition_and_no_mode(group: Conversation) -> None:
    member = subscribe(group, "both")
    member.fetch(partitions(member.id_of("both"), 0, 9))
    renewal = {"is_renew_ack": True, "max_bytes": 0, "min_bytes": 0, "max_records": 0}
    answer = member.fetch(share_acquire_mode=7, **renewal)
    assert (answer.error_code, answer.responses) == (0, ())
    assert shown(member.fetch()) == [(9, E.UNKNOWN_TOPIC_OR_PARTITION, 0)]


# -- rights ------------------------------------------------------------------------------------------------------------


def test_rights_to_the_group_come_first_and_those_to_topics_are_of_each_partition() -> None:
    cluster = GuardedCluster(profile="kafka", configs=CONFIGS)
    for name in ("t", "u"):
        cluster.create_at(name, [1, 2, 3])
    group = Conversation(cluster)
    member = subscribe(group, "t", "u")
    write(group, "u", 0, 1)
    named = partitions(member.id_of("t"), 0), partitions(member.id_of("u"), 0)
    asked = member.submit(member.request(*named, member_id=""), principal=ALICE)
    assert asked.response.error_code == E.GROUP_AUTHORIZATION_FAILED
    acknowledgement = share_acknowledge.ShareAcknowledgeRequest(group_id=group.group_id, member_id="a")
    assert member.submit(acknowledgement, principal=ALICE).response.error_code == E.GROUP_AUTHORIZATION_FAILED
    cluster.grant(
        entry(AclOperation.READ, group.group_id, AclResourceType.GROUP), entry(AclOperation.READ, "u"), entry(8, "t")
    )
    answer = member.submit(member.request(*named), principal=ALICE).response
    assert sorted((one.error_code, len(one.acquired_records)) for t in answer.responses for one in t.partitions) == [
        (0, 1),
        (E.TOPIC_AUTHORIZATION_FAILED, 0),
    ]
    acks = [partitions(member.id_of(name), 0, acks=[(0, 0, [ACCEPT])]) for name in ("t", "u")]
    answer = member.submit(member.request(*acks, share_session_epoch=1), principal=ALICE).response
    assert sorted(code for _, code in acks_of(answer)) == [0, E.TOPIC_AUTHORIZATION_FAILED]
    answer = member.submit(member.request(share_session_epoch=2), principal=ALICE).response
    assert [code for _, code, _ in shown(answer)] == [E.TOPIC_AUTHORIZATION_FAILED], "also what is not named again"


# -- partitions that cannot be read ------------------------------------------------------------------------------------


def test_unknown_topics_and_partitions_are_told_each(group: Conversation) -> None:
    member = subscribe(group, "both")
    write(group, "both", 0, 1)
    answer = member.fetch(partitions(UNKNOWN, 3), partitions(member.id_of("both"), 0, 9, -1))
    assert sorted(shown(answer)) == [
        (-1, E.UNKNOWN_TOPIC_OR_PARTITION, 0),
        (0, 0, 1),
        (3, E.UNKNOWN_TOPIC_ID, 0),
        (9, E.UNKNOWN_TOPIC_OR_PARTITION, 0),
    ]
    assert answer.node_endpoints == ()


def test_errors_are_shown_again_until_their_partitions_are_forgotten(group: Conversation) -> None:
    member = subscribe(group, "both")
    answer = member.fetch(partitions(member.id_of("both"), 0, 9))
    assert sorted(shown(answer)) == [(0, 0, 0), (9, E.UNKNOWN_TOPIC_OR_PARTITION, 0)]
    assert shown(member.fetch()) == [(9, E.UNKNOWN_TOPIC_OR_PARTITION, 0)]
    forgotten = [share_fetch.ForgottenTopic(topic_id=member.id_of("both"), partitions=[9])]
    assert shown(member.fetch(forgotten_topics_data=forgotten)) == []
    assert shown(member.fetch()) == []


def test_a_broker_that_does_not_lead_names_the_leader(group: Conversation) -> None:
    group.cluster.create_at("elsewhere", [2, 3])
    member = subscribe(group, "elsewhere")
    answer = member.fetch(partitions(member.id_of("elsewhere"), 0))
    (one,) = answer.responses[0].partitions
    assert (one.error_code, one.records) == (E.NOT_LEADER_OR_FOLLOWER, b"")
    assert (one.current_leader.leader_id, one.current_leader.leader_epoch) == (2, 0)
    assert [(each.node_id, each.rack) for each in answer.node_endpoints] == [(2, "b")]
    group.cluster.shut_down(2)
    group.cluster.set_down({2})
    (one,) = member.fetch().responses[0].partitions
    assert (one.current_leader.leader_id, one.current_leader.leader_epoch) == (3, 1)


def test_other_errors_name_no_leader(group: Conversation) -> None:
    """Partition 0 has a leader; what is wrong is that the share coordinator does not know it."""
    group.cluster.create_at("other", [1])
    answer = subscribe(group, "both").fetch(partitions(group.cluster.image.topics_by_name["other"].topic_id, 0))
    (one,) = answer.responses[0].partitions
    assert (one.error_code, one.current_leader.leader_id) == (E.UNKNOWN_SERVER_ERROR, 0)
    assert answer.node_endpoints == ()


def test_a_fetch_whose_session_ends_is_answered(group: Conversation) -> None:
    member = subscribe(group, "both")
    member.fetch(partitions(member.id_of("both"), 0))
    asked = member.submit(member.request(max_wait_ms=1_000))
    assert asked.is_waiting
    group.cluster.brokers.connection_closed(member.connection_id)
    group.pass_time(1_000)
    assert (asked.response.error_code, shown(asked.response)) == (0, [])


def test_a_partition_without_a_group_that_knows_it_is_told(group: Conversation) -> None:
    """No member has subscribed to the topic, so the share coordinator has no state of it."""
    group.cluster.create_at("other", [1])
    member = subscribe(group, "both")
    assert shown(member.fetch(partitions(member.id_of("other"), 0))) == [(0, E.UNKNOWN_SERVER_ERROR, 0)]


@pytest.mark.parametrize(("mode", "code"), [(0, 0), (1, 0), (2, E.UNKNOWN_SERVER_ERROR), (-1, E.UNKNOWN_SERVER_ERROR)])
def test_an_unknown_mode_is_refused_after_the_acknowledgements(group: Conversation, mode: int, code: int) -> None:
    member = subscribe(group, "both")
    write(group, "both", 0, 1)
    member.fetch(partitions(member.id_of("both"), 0))
    acks = partitions(member.id_of("both"), 0, acks=[(0, 0, [ACCEPT])])
    assert member.fetch(acks, share_acquire_mode=mode).error_code == code
    write(group, "both", 0, 1)
    other = Member(group, "b", connection_id=2)
    found = other.fetch(partitions(member.id_of("both"), 0))
    assert [one.first_offset for one in found.responses[0].partitions[0].acquired_records] == [1], "0 was accepted"


# -- how much a request gets -------------------------------------------------------------------------------------------


def test_max_records_are_shared_by_the_partitions_of_a_request(group: Conversation) -> None:
    member = subscribe(group, "both")
    for index in BOTH:
        write(group, "both", index, 4)
    assert shown(member.fetch(partitions(member.id_of("both"), *BOTH), max_records=4)) == [(0, 0, 4), (1, 0, 0)]
    assert shown(member.fetch(max_records=1)) == [(1, 0, 4)]


@pytest.mark.parametrize("limits", [{"max_records": 0}, {"max_bytes": 0}])
def test_who_wants_nothing_does_not_wait(group: Conversation, limits: dict[str, int]) -> None:
    member = subscribe(group, "both")
    write(group, "both", 0, 1)
    asked = member.submit(member.request(partitions(member.id_of("both"), 0), max_wait_ms=1_000, **limits))
    assert not asked.is_waiting
    assert shown(asked.response) == []
    member.epoch = 1
    assert shown(member.fetch()) == [(0, 0, 1)], "the share partition is loaded"


def test_a_negative_size_is_an_error_of_each_partition(group: Conversation) -> None:
    member = subscribe(group, "both")
    member.fetch(partitions(member.id_of("both"), 0))
    write(group, "both", 0, 1)
    assert shown(member.fetch(max_bytes=-1)) == [(0, E.UNKNOWN_SERVER_ERROR, 0)]
    assert shown(member.fetch()) == [(0, 0, 1)]


def test_the_broker_limits_the_bytes() -> None:
    group = new_conversation(fetch_max_bytes="1024")
    group.cluster.create_at("both", [1, 2, 3], [1, 2, 3])
    member = subscribe(group, "both")
    for _ in range(3):
        write(group, "both", 0, 80)
    (one,) = member.fetch(partitions(member.id_of("both"), 0)).responses[0].partitions
    assert (one.acquired_records[0].last_offset, len(one.records) < 1_024) == (79, True)


def test_the_least_bytes_are_at_most_the_most_bytes(group: Conversation) -> None:
    member = subscribe(group, "both")
    write(group, "both", 0, 2)
    asked = member.submit(
        member.request(partitions(member.id_of("both"), 0), min_bytes=10**6, max_bytes=60, max_wait_ms=1_000)
    )
    group.pass_time(1)
    assert shown(asked.response) == [(0, 0, 2)]


def test_a_fetch_waits_for_the_least_bytes_until_its_time_is_over(group: Conversation) -> None:
    member = subscribe(group, "both")
    member.fetch(partitions(member.id_of("both"), *BOTH))
    write(group, "both", 0, 2)
    asked = member.submit(member.request(min_bytes=200, max_wait_ms=500))
    assert asked.is_waiting
    group.pass_time(499)
    assert asked.is_waiting
    group.pass_time(1)
    assert shown(asked.response) == [(0, 0, 2)]
    member.epoch += 1
    asked = member.submit(member.request(min_bytes=140, max_wait_ms=500))
    write(group, "both", 0, 2)
    assert asked.is_waiting, "one batch is too few"
    write(group, "both", 1, 2)
    assert sorted(shown(asked.response)) == [(0, 0, 2), (1, 0, 2)]


@pytest.mark.parametrize(("wait_ms", "due_ms"), [(-5, 0), (0, 0), (700, 700), (MAX_WAIT_MS + 1, MAX_WAIT_MS)])
def test_how_long_a_fetch_may_wait(group: Conversation, wait_ms: int, due_ms: int) -> None:
    member = subscribe(group, "both")
    member.fetch(partitions(member.id_of("both"), 0))
    asked = member.submit(member.request(max_wait_ms=wait_ms))
    if due_ms:
        assert asked.is_waiting
        group.pass_time(due_ms - 1)
        assert asked.is_waiting
        group.pass_time(1)
    assert not asked.is_waiting
    assert asked.response.error_code == 0
