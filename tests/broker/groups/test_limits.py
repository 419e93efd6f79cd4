"""Limits of all groups together: what exceeds them is refused, who is there goes on, and there is room again later."""

import pytest

from klamm.broker.coordinator import budget
from klamm.broker.groups import groups, offset_protocol
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.groups.delete_groups import DeleteGroupsRequest
from klamm.protocol.messages.groups.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.groups.join_group import JoinGroupRequest
from klamm.protocol.messages.groups.leave_group import LeaveGroupRequest, MemberIdentity
from klamm.protocol.messages.offsets.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from klamm.protocol.messages.transactions.init_producer_id import InitProducerIdRequest
from tests.broker.groups.conversation import CONFIGS, SESSION_MS, Conversation
from tests.controller.handlers.cluster import DrivenCluster

FULL = ErrorCode.COORDINATOR_NOT_AVAILABLE


def live_bytes(group: Conversation) -> int:
    return group.cluster.brokers.coordinators.budget.live_bytes


def test_records_beyond_the_limit_of_all_are_refused_until_some_are_deleted(
    group: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert group.commit(1) == 0
    monkeypatch.setattr(budget, "MAX_LIVE_BYTES", live_bytes(group) + 1_000)
    other = Conversation(group.cluster, "other")
    assert other.commit(1, metadata="m" * 2_000) == 0
    third = Conversation(group.cluster, "third")
    assert third.commit(1) == FULL
    assert third.committed() == -1
    assert group.commit(2) == 0, "an offset that is known needs no room"
    assert group.commit(3, metadata="m" * 2_000) == FULL
    assert group.committed() == 2
    assert third.join().response.error_code == FULL
    assert other.ask(DeleteGroupsRequest(groups_names=["other"])).results[0].error_code == 0
    assert third.commit(1) == 0


def test_the_bytes_of_a_coordinator_move_with_it(group: Conversation) -> None:
    group.commit(1, metadata="m" * 500)
    before = live_bytes(group)
    assert before > 500
    group.cluster.shut_down(group.coordinator_id)
    moved = Conversation(group.cluster)
    assert moved.committed() == 1
    assert live_bytes(moved) == before


def test_members_of_classic_groups_are_refused_beyond_the_limit_of_all(
    group: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "MAX_JOINED_BYTES", 20_000)
    (member_id,), _ = group.stable(metadata=b"m" * 9_000)
    large = b"m" * 12_000
    assert group.join(metadata=large).response.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.join(member_id, metadata=large).response.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    again = group.join(member_id, metadata=b"m" * 9_000)
    group.pass_time(1_000)
    assert again.response.error_code == 0
    group.ask(LeaveGroupRequest(group_id=group.group_id, members=[MemberIdentity(member_id=member_id)]))
    group.pass_time(1_000)
    assert group.join(metadata=large).response.error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_member_ids_that_are_not_used_count(group: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MAX_JOINED_BYTES", 3_000)
    codes = [group.join().response.error_code for _ in range(10)]
    assert set(codes) == {ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.GROUP_MAX_SIZE_REACHED}
    group.pass_time(SESSION_MS + 1_000)
    assert group.join().response.error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_offsets_of_open_transactions_are_limited(group: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_protocol, "MAX_PENDING_OFFSETS", 2)
    cluster = group.cluster
    finds = FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
    cluster.ask(finds)
    at = cluster.ask(finds).coordinators[0].node_id
    begins = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=10_000)
    begun = cluster.ask(begins, broker_id=at)
    assert begun.error_code == 0

    def commit(offset: int) -> int:
        partition = TxnOffsetCommitRequestPartition(committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id=group.group_id,
            producer_id=begun.producer_id,
            producer_epoch=begun.producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
        )
        code: int = group.ask(request, 5).topics[0].partitions[0].error_code
        return code

    assert [commit(1), commit(2), commit(3)] == [0, 0, FULL]


def test_group_max_size_bounds_a_classic_group(group: Conversation) -> None:
    group.stable(int(CONFIGS["group.max.size"]))
    assert group.join().response.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_ids_of_members_change_nothing_that_the_seed_decides() -> None:
    """Member ids are drawn from a generator of their own."""
    ids = []
    for joins in (0, 5):
        cluster = DrivenCluster(profile="kafka", configs=CONFIGS)
        group = Conversation(cluster)
        for _ in range(joins):
            assert group.submit(JoinGroupRequest(group_id="g", session_timeout_ms=SESSION_MS)).response is not None
            group.new_member_id()
        cluster.create("t", 3, 3)
        ids.append(cluster.log.log_bytes())
    assert ids[0] == ids[1]
