"""Members of both protocols in one group, and the conversion of groups, without a server."""

from dataclasses import replace

import pytest

from klamm.broker.groups.consumer.conversion import ClassicMemberView, ClassicView, choose_protocol
from klamm.broker.groups.consumer.group import ConsumerGroup
from klamm.broker.groups.consumer.outcome import GroupSettings, MigrationPolicy
from klamm.broker.groups.consumer.replay import replay
from klamm.broker.groups.consumer_protocol import decode_assignment, encode_assignment
from klamm.protocol.codec.messages import encode_message
from klamm.protocol.errors import ApiError, ErrorCode
from klamm.protocol.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from klamm.protocol.messages.groups.heartbeat import HeartbeatRequest, HeartbeatResponse
from klamm.protocol.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from klamm.protocol.messages.groups.leave_group import MemberIdentity
from klamm.protocol.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse
from klamm.protocol.records.coordinator.consumer_groups import ClassicProtocol
from klamm.protocol.records.coordinator.groups import GroupMetadataValue
from klamm.protocol.records.data import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from tests.broker.groups.consumer_host import ConsumerHost, same

GROUP = "g"
SETTINGS = GroupSettings(session_timeout_ms=3_000, assignment_interval_ms=0)
NO_UPGRADES = replace(SETTINGS, migration_policy=MigrationPolicy.DOWNGRADE)
VERSION = 3


def subscription(*owned: int, user_data: bytes | None = None) -> bytes:
    """Of the topic orders, with these partitions owned."""
    partitions = [TopicPartition(topic="orders", partitions=list(owned))] if owned else []
    message = ConsumerProtocolSubscription(topics=["orders"], owned_partitions=partitions, user_data=user_data)
    return VERSION.to_bytes(2) + encode_message(message, VERSION, flexible=False)


def assignment(*partitions: int, user_data: bytes | None = None) -> bytes:
    orders = ConsumerProtocolAssignmentTopicPartition(topic="orders", partitions=list(partitions))
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=[orders], user_data=user_data), VERSION)


def classic_group(*members: ClassicMemberView) -> ClassicView:
    return ClassicView(GROUP, 5, "consumer", "range", members)


def classic_member(member_id: str, assigned: bytes, metadata: bytes | None = None) -> ClassicMemberView:
    offered = [ClassicProtocol(name="range", metadata=subscription() if metadata is None else metadata)]
    return ClassicMemberView(member_id, None, "c", "/127.0.0.1", 4_000, 6_000, offered, assigned)


@pytest.fixture
def host() -> ConsumerHost:
    made = ConsumerHost(SETTINGS)
    made.topics.create("orders", 4)
    return made


def join(host: ConsumerHost, member_id: str, instance_id: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return host.heartbeat(
        ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            instance_id=instance_id,
            rebalance_timeout_ms=4_000,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        )
    )


def join_classic(host: ConsumerHost, member_id: str, *owned: int, instance_id: str | None = None) -> JoinGroupResponse:
    request = JoinGroupRequest(
        group_id=GROUP,
        member_id=member_id,
        group_instance_id=instance_id,
        session_timeout_ms=6_000,
        rebalance_timeout_ms=4_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription(*owned))],
    )
    response = host.classic_request(GROUP, request)
    assert isinstance(response, JoinGroupResponse)
    return response


def synced(host: ConsumerHost, member_id: str, generation: int) -> list[int]:
    response = host.classic_request(
        GROUP, SyncGroupRequest(group_id=GROUP, member_id=member_id, generation_id=generation)
    )
    assert isinstance(response, SyncGroupResponse)
    decoded = decode_assignment(response.assignment)
    return [partition for topic in decoded.assigned_partitions for partition in topic.partitions]


def beat_classic(host: ConsumerHost, member_id: str, generation: int) -> int:
    request = HeartbeatRequest(group_id=GROUP, member_id=member_id, generation_id=generation)
    response = host.classic_request(GROUP, request)
    assert isinstance(response, HeartbeatResponse | ApiError)
    return int(response.code if isinstance(response, ApiError) else response.error_code)


def test_a_classic_member_joins_gets_what_the_consumer_gave_up_and_is_told_to_join_again(host: ConsumerHost) -> None:
    join(host, "a")
    joined = join_classic(host, "k")
    assert (joined.generation_id, joined.leader, list(joined.members)) == (3, "", [])
    assert synced(host, "k", 3) == []
    orders = host.topics.by_name["orders"].topic_id
    owned = [TopicPartitions(topic_id=orders, partitions=[0, 1])]
    host.heartbeat(ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="a", member_epoch=2))
    assert beat_classic(host, "k", 3) == 0
    host.heartbeat(ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="a", member_epoch=2, topic_partitions=owned))
    assert beat_classic(host, "k", 3) == ErrorCode.REBALANCE_IN_PROGRESS
    assert synced(host, "k", join_classic(host, "k").generation_id) == [2, 3]
    assert host.groups[GROUP].state == "Stable"


def test_a_classic_member_that_does_not_sync_is_removed(host: ConsumerHost) -> None:
    join(host, "a")
    join_classic(host, "k")
    host.sleep(2_500)
    host.heartbeat(ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="a", member_epoch=2))
    host.sleep(2_000)
    assert "k" not in host.groups[GROUP].members


def test_when_the_last_consumer_leaves_the_group_is_a_classic_one_with_the_target_as_its_assignment(
    host: ConsumerHost,
) -> None:
    join(host, "a")
    join_classic(host, "k")
    host.classic_leave(GROUP, [MemberIdentity(member_id="a")])
    assert GROUP not in host.groups
    (outcome,) = host.downgrades
    assert outcome.downgrade is not None
    assert outcome.downgrade.rebalance
    value = outcome.records[-1].value
    assert isinstance(value, GroupMetadataValue)
    assert (value.generation, value.protocol, value.leader) == (3, "range", "k")
    (member,) = value.members
    decoded = decode_assignment(member.assignment).assigned_partitions
    assert [(topic.topic, list(topic.partitions)) for topic in decoded] == [("orders", [2, 3])]


def test_a_classic_member_that_takes_the_place_of_the_last_consumer_makes_the_group_classic(host: ConsumerHost) -> None:
    join(host, "a", instance_id="i1")
    joined = join_classic(host, "", instance_id="i1")
    assert (joined.error_code, joined.generation_id) == (0, 2)
    (outcome,) = host.downgrades
    assert outcome.downgrade is not None
    assert not outcome.downgrade.rebalance
    assert list(outcome.downgrade.protocols) == [joined.member_id]
    assert GROUP not in host.groups


@pytest.mark.parametrize("policy", [MigrationPolicy.UPGRADE, MigrationPolicy.DISABLED])
def test_without_the_policy_a_group_of_classic_members_stays_a_consumer_group(
    host: ConsumerHost, policy: MigrationPolicy
) -> None:
    host.settings = replace(SETTINGS, migration_policy=policy)
    join(host, "a")
    join_classic(host, "k")
    host.classic_leave(GROUP, [MemberIdentity(member_id="a")])
    assert host.groups[GROUP].members.keys() == {"k"}
    assert not host.downgrades


def test_a_consumer_that_joins_a_classic_group_makes_it_a_consumer_group_whose_members_keep_what_they_have(
    host: ConsumerHost,
) -> None:
    host.classic[GROUP] = classic_group(classic_member("k", assignment(0, 1, 2, 3)))
    response = join(host, "b")
    assert (response.error_code, response.member_epoch) == (0, 6)
    group = host.groups[GROUP]
    assert {member_id: member.member_epoch for member_id, member in group.members.items()} == {"k": 5, "b": 6}
    assert beat_classic(host, "k", 5) == ErrorCode.REBALANCE_IN_PROGRESS
    assert join_classic(host, "k", 0, 1, 2, 3).generation_id == 5
    assert sorted(synced(host, "k", 5)) == [0, 1]
    assert join_classic(host, "k", 0, 1).generation_id == 6
    replayed: dict[str, ConsumerGroup] = {}
    for record in host.log:
        replay(replayed, record.key, record.value)
    assert same(replayed[GROUP], group)


@pytest.mark.parametrize(
    ("view", "settings", "why"),
    [
        (
            classic_group(classic_member("k", b"")),
            replace(SETTINGS, migration_policy=MigrationPolicy.DOWNGRADE),
            "disabled",
        ),
        (replace(classic_group(classic_member("k", b"")), protocol_type="connect"), SETTINGS, "embedded protocol"),
        (classic_group(*(classic_member(name, b"") for name in "kl")), replace(SETTINGS, max_size=1), "maximum size"),
        (classic_group(classic_member("k", assignment(0, user_data=b"x"))), SETTINGS, "custom assignor"),
        (classic_group(classic_member("k", b"", metadata=b"\0\1")), SETTINGS, "malformed"),
    ],
    ids=["policy", "type", "size", "user data", "bytes"],
)
def test_groups_that_are_not_upgraded_stay_as_they_are(
    host: ConsumerHost, view: ClassicView, settings: GroupSettings, why: str
) -> None:
    host.settings = settings
    host.classic[GROUP] = view
    response = join(host, "b")
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert why in (response.error_message or "")
    assert host.classic[GROUP] is view
    assert not host.log


def test_the_protocol_of_a_downgraded_group_is_the_one_that_most_members_prefer() -> None:
    offered = {
        "a": [ClassicProtocol(name="range"), ClassicProtocol(name="roundrobin")],
        "b": [ClassicProtocol(name="roundrobin"), ClassicProtocol(name="range")],
        "c": [ClassicProtocol(name="own"), ClassicProtocol(name="roundrobin"), ClassicProtocol(name="range")],
    }
    assert choose_protocol(offered) == "roundrobin"
