"""Tables of what a group accepts and answers: commits, epochs of members, expiry, refusals, members that join again."""

import random
from itertools import product

import pytest

from klamm.broker.coordinator import shard as shards
from klamm.broker.groups.consumer.group import Member
from klamm.broker.groups.consumer.joining import fenced_epoch
from klamm.controller.authorizer import AclOperation, AclResourceType
from klamm.protocol.codec.messages import encode_message
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.groups.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.messages.groups.leave_group import LeaveGroupResponse, MemberIdentity
from klamm.protocol.messages.offsets.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from klamm.protocol.records.data import ConsumerProtocolSubscription
from klamm.protocol.uuid import Uuid
from tests.broker.groups.consumer_host import ConsumerHost
from tests.broker.groups.conversation import CONFIGS, GROUP, Conversation
from tests.broker.groups.test_mixed_groups import SETTINGS, join, join_classic, subscription
from tests.controller.handlers.cluster import DrivenCluster
from tests.controller.handlers.guarded_cluster import GuardedCluster, entry

WEEK_MS = 7 * 24 * 60 * 60 * 1000
TOPIC_ID = Uuid(bytes(15) + b"\1")


@pytest.fixture
def host() -> ConsumerHost:
    made = ConsumerHost(SETTINGS)
    made.topics.create("orders", 4)
    return made


def test_a_commit_is_accepted_from_the_member_of_the_generation_alone(group: Conversation) -> None:
    """GroupMetadata.validateOffsetCommit: whoever names a member or an instance is a member of a generation."""
    (member_id,), generation_id = group.stable()
    none, known, unknown = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, "stranger"
    table = [
        (generation_id, member_id, None, none),
        (generation_id, unknown, None, known),
        (generation_id, "", None, known),
        (generation_id, member_id, "i", known),
        (generation_id + 1, member_id, None, ErrorCode.ILLEGAL_GENERATION),
        (-1, member_id, None, ErrorCode.ILLEGAL_GENERATION),
        (-1, unknown, None, known),
        (-1, "", "i", known),
        (-1, "", None, known),
    ]
    for generation, member, instance_id, code in table:
        fields = {"generation_id_or_member_epoch": generation, "member_id": member, "group_instance_id": instance_id}
        assert group.commit(1, **fields) == code, fields


@pytest.mark.parametrize("seed", range(5))
def test_a_member_has_its_own_epoch_or_the_one_before_if_it_owns_nothing_more(seed: int) -> None:
    """KIP-848: the answer with the new epoch may have been lost."""
    rng = random.Random(seed)
    previous, epoch = sorted(rng.sample(range(1, 6), 2))
    member = Member("m", member_epoch=epoch, previous_member_epoch=previous, assigned={TOPIC_ID: frozenset({0, 1})})
    owns: list[tuple[dict[Uuid, frozenset[int]] | None, bool]] = [
        (None, False),
        ({}, True),
        ({TOPIC_ID: frozenset({1})}, True),
        ({TOPIC_ID: frozenset({1, 2})}, False),
        ({Uuid(bytes(16)): frozenset({0})}, False),
    ]
    for told, (owned, is_subset) in product(range(7), owns):
        accepted = told in (0, epoch) or (told == previous and is_subset)
        assert (fenced_epoch(member, told, owned) is None) is accepted, (told, owned)


def of_topics(*names: str) -> bytes:
    message = ConsumerProtocolSubscription(topics=list(names))
    return (1).to_bytes(2) + encode_message(message, 1, flexible=False)


def test_offsets_of_a_living_group_expire_where_no_member_is_subscribed() -> None:
    """KIP-211: the offsets of subscribed topics stay, those of others expire a week after their commit."""
    cluster = DrivenCluster(1, profile="kafka", configs={**CONFIGS, "group.max.session.timeout.ms": str(2 * WEEK_MS)})
    for topic in ("t", "left"):
        cluster.create(topic, 1, 1)
    group = Conversation(cluster)
    metadata = of_topics("t")
    (member_id,), generation_id = group.stable(metadata=metadata, session_timeout_ms=2 * WEEK_MS)
    for topic in ("t", "left"):
        fields = {"generation_id_or_member_epoch": generation_id, "member_id": member_id}
        assert group.commit(1, topic=topic, **fields) == 0
    group.pass_time(WEEK_MS + 1_200_000)
    assert (group.committed("t"), group.committed("left")) == (1, -1)


def test_a_coordinator_is_found_at_the_address_that_its_broker_has(group: Conversation) -> None:
    for index in range(8):
        found = group.cluster.ask(FindCoordinatorRequest(coordinator_keys=[f"g{index}"])).coordinators[0]
        broker = group.cluster.image.brokers[found.node_id]
        assert (found.host, found.port) == (broker.end_points[0].host, broker.end_points[0].port)
        assert found.key == f"g{index}"


def test_offsets_of_a_group_that_one_may_not_describe_are_refused() -> None:
    cluster = GuardedCluster(1, configs=CONFIGS)
    cluster.create("t", 1, 1)
    group = Conversation(cluster)
    with cluster.asking(None):
        assert group.commit(4) == 0
    cluster.grant(entry(AclOperation.READ, "t"), entry(AclOperation.DESCRIBE, "other", AclResourceType.GROUP))
    with cluster.asking():
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
        answered = cluster.ask(request, version=9).groups[0]
    assert (answered.group_id, answered.error_code) == (GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert not answered.topics


def test_a_group_that_is_loaded_in_steps_is_whole(monkeypatch: pytest.MonkeyPatch, group: Conversation) -> None:
    """The new coordinator replays a few records at a time, and refuses requests until it has all of them."""
    monkeypatch.setattr(shards, "LOAD_RECORDS_AT_ONCE", 2)
    for offset in range(9):
        group.commit(offset)
    group.cluster.shut_down(group.coordinator_id)
    moved = Conversation(group.cluster)
    codes = set()
    for _ in range(12):
        codes.add(moved.heartbeat("nobody", 1))
        moved.pass_time(1)
    assert ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in codes
    assert moved.committed() == 8


def test_a_member_that_was_never_in_a_generation_is_removed_while_it_waits(group: Conversation) -> None:
    """A member of a generation that waits for the others is not: it can send no heartbeat then."""
    (old,), _ = group.stable(rebalance_timeout_ms=10 * 60_000, session_timeout_ms=10 * 60_000)
    joined = group.join(group.new_member_id(), rebalance_timeout_ms=10 * 60_000)
    assert joined.is_waiting
    for _ in range(6):
        group.pass_time(60_000)
    assert not joined.is_waiting
    assert joined.response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat(old, 1) in (0, ErrorCode.REBALANCE_IN_PROGRESS)


def test_a_leave_group_answers_each_member_by_both_of_its_ids(host: ConsumerHost) -> None:
    join(host, "a", instance_id="i")
    join_classic(host, "k")
    identities = [
        MemberIdentity(member_id="k"),
        MemberIdentity(member_id="x"),
        MemberIdentity(member_id="", group_instance_id="i"),
    ]
    response = host.classic_leave(GROUP, identities)
    assert isinstance(response, LeaveGroupResponse)
    assert [(one.member_id, one.group_instance_id, one.error_code) for one in response.members] == [
        ("k", None, 0),
        ("x", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", "i", 0),
    ]


def test_a_classic_member_that_joins_again_has_what_its_last_join_says(host: ConsumerHost) -> None:
    """-1 and an instance id left out keep what was there."""
    host.topics.create("more", 1)
    join(host, "a")
    member_id = join_classic(host, "", instance_id="i").member_id

    def told() -> tuple[object, ...]:
        member = host.groups[GROUP].members[member_id]
        assert member.classic is not None
        timeouts = member.rebalance_timeout_ms, member.classic.session_timeout_ms
        offered = [one.name for one in member.classic.supported_protocols]
        return member.instance_id, *timeouts, set(member.subscribed_topic_names), offered

    assert told() == ("i", 4_000, 6_000, {"orders"}, ["range"])
    for rebalance_timeout_ms, kept in ((-1, 4_000), (7_000, 7_000)):
        request = JoinGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            session_timeout_ms=9_000,
            rebalance_timeout_ms=rebalance_timeout_ms,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name="own", metadata=of_topics("more")),
                JoinGroupRequestProtocol(name="range", metadata=subscription()),
            ],
        )
        host.classic_request(GROUP, request)
        assert told() == ("i", kept, 9_000, {"more"}, ["own", "range"])


def test_of_several_classic_members_each_keeps_its_own_when_one_replaces_the_last_consumer(host: ConsumerHost) -> None:
    join(host, "a", instance_id="i")
    join_classic(host, "k")
    joined = join_classic(host, "", instance_id="i")
    (outcome,) = host.downgrades
    assert outcome.downgrade is not None
    assert set(outcome.downgrade.protocols) == {"k", joined.member_id}
    value = outcome.records[-1].value
    assert {one.member_id: one.group_instance_id for one in value.members} == {"k": None, joined.member_id: "i"}  # type: ignore[union-attr]
