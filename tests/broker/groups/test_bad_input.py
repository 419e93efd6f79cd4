"""Requests about one group that are out of all proportion, late, or about what is not there any more. Requests of any
kind over sockets: `tests/server/test_hostile_groups.py`."""

import pytest

from klamm.broker.groups import groups
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.groups.join_group import JoinGroupRequestProtocol
from klamm.protocol.messages.groups.leave_group import LeaveGroupRequest, MemberIdentity
from klamm.protocol.messages.groups.list_groups import ListGroupsRequest
from klamm.protocol.messages.offsets.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.uuid import Uuid
from tests.broker.groups.conversation import CONFIGS, SESSION_MS, Conversation
from tests.controller.handlers.cluster import DrivenCluster

THOUSAND = 1_000


@pytest.fixture
def group() -> Conversation:
    cluster = DrivenCluster(profile="kafka", configs=CONFIGS)
    cluster.create("t", 2, 3)
    return Conversation(cluster)


def listed(group: Conversation) -> list[str]:
    return [one.group_id for one in group.ask(ListGroupsRequest()).groups]


def live_bytes(group: Conversation) -> int:
    return group.cluster.brokers.coordinators.budget.live_bytes


def leave(group: Conversation, member_id: str) -> int:
    request = LeaveGroupRequest(group_id=group.group_id, members=[MemberIdentity(member_id=member_id)])
    code: int = group.ask(request).members[0].error_code
    return code


def test_a_member_may_offer_very_many_protocols_as_long_as_they_have_room(
    group: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocols = [JoinGroupRequestProtocol(name=f"p{number}", metadata=b"m" * 20) for number in range(5 * THOUSAND)]
    member_id = group.join(protocols=protocols).response.member_id
    joined = group.join(member_id, protocols=protocols)
    for _ in range(3):
        group.pass_time(SESSION_MS // 10)
    assert (joined.response.error_code, joined.response.protocol_name) == (0, "p0")
    assert group.join(protocols=protocols[:THOUSAND]).response.error_code == ErrorCode.MEMBER_ID_REQUIRED
    monkeypatch.setattr(groups, "MAX_JOINED_BYTES", 200_000)
    assert group.join(protocols=protocols).response.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert leave(group, member_id) == 0


def test_heartbeats_and_leaves_of_members_never_seen_leave_nothing_behind(group: Conversation) -> None:
    before = live_bytes(group)
    strangers = [Conversation(group.cluster, f"unknown-{number}") for number in range(20)]
    for number in range(THOUSAND):
        stranger = strangers[number % len(strangers)]
        assert stranger.heartbeat(f"nobody-{number}", number) == ErrorCode.UNKNOWN_MEMBER_ID
        assert leave(stranger, f"nobody-{number}") == ErrorCode.UNKNOWN_MEMBER_ID
    assert listed(group) == []
    assert live_bytes(group) == before


def test_a_thousand_joins_and_leaves_leave_an_empty_group(group: Conversation) -> None:
    sizes = set()
    for _ in range(THOUSAND):
        member_id = group.new_member_id()
        group.join(member_id)
        assert leave(group, member_id) == 0
        sizes.add(live_bytes(group))
    assert max(sizes) < THOUSAND
    ids, generation_id = group.stable(2)
    assert [group.heartbeat(member_id, generation_id) for member_id in ids] == [0, 0]


def test_a_topic_that_was_made_anew_has_none_of_the_offsets_of_its_namesake(group: Conversation) -> None:
    """Commits that name the id of the former topic are refused (KIP-848)."""
    former = group.cluster.image.topics_by_name["t"].topic_id
    assert _commit_by_id(group, former) == 0
    assert group.committed() == 7
    group.cluster.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=THOUSAND))
    assert _commit_by_id(group, former) == ErrorCode.UNKNOWN_TOPIC_ID
    group.cluster.create("t", 2, 3)
    assert _commit_by_id(group, former) == ErrorCode.UNKNOWN_TOPIC_ID
    assert group.committed() == -1
    assert _commit_by_id(group, group.cluster.image.topics_by_name["t"].topic_id) == 0
    assert group.committed() == 7


def _commit_by_id(group: Conversation, topic_id: Uuid) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    topics = [OffsetCommitRequestTopic(topic_id=topic_id, partitions=[partition])]
    found = group.ask(OffsetCommitRequest(group_id=group.group_id, topics=topics), 10)
    code: int = found.topics[0].partitions[0].error_code
    return code
