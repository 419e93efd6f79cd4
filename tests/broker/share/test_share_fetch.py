"""What members acquire and acknowledge, and what survives: beside the recorded scenarios of tests/behaviour."""

import pytest

from klamm.broker.data.partition_log import FoundBatches, PartitionLog
from klamm.broker.handlers.share import reading
from klamm.broker.share_partitions import sessions
from klamm.controller.delayed_answer import DelayedAnswer
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from klamm.protocol.messages.groups.delete_groups import DeleteGroupsRequest
from tests.broker.groups.conversation import Conversation
from tests.broker.share.fetching import ACCEPT, REJECT, RELEASE, RENEW, Fetcher, begin, produce
from tests.broker.share.members import LOCK_MS, beat, new_conversation, set_config, state_coordinator, state_of


@pytest.fixture
def group() -> Conversation:
    return new_conversation()


def test_an_accepted_record_never_comes_again_and_a_released_one_does(group: Conversation) -> None:
    member = begin(group, 4)
    assert member.fetch() == [(0, 3, 1)]
    assert member.acknowledge((0, 0, [ACCEPT]), (1, 1, [RELEASE]), (2, 2, [REJECT])) == 0
    assert member.fetch() == [(1, 1, 2)]
    assert member.acknowledge((1, 1, [ACCEPT]), (3, 3, [ACCEPT])) == 0
    assert member.fetch() == []
    assert state_of(group).start_offset == 1, "as of the last write; the next one says 4"
    produce(group, 1)
    assert member.fetch() == [(4, 4, 1)]
    assert member.acknowledge((4, 4, [ACCEPT])) == 0
    assert state_of(group).start_offset == 4


def test_a_waiting_fetch_is_answered_when_records_come(group: Conversation) -> None:
    member = begin(group)
    asked = member.submit(member.fetch_request(max_wait_ms=1_000))
    assert asked.is_waiting
    assert isinstance(asked.answer.response, DelayedAnswer)
    assert set(asked.answer.response.keys) == {(member.topic_id, 0)}
    produce(group, 2)
    found = asked.response
    assert [(one.first_offset, one.last_offset) for one in found.responses[0].partitions[0].acquired_records] == [
        (0, 1)
    ]


def test_a_waiting_fetch_is_answered_when_a_lock_expires_or_its_time_is_over(group: Conversation) -> None:
    member, other = begin(group, 2), Fetcher(group, "b")
    assert member.fetch() == [(0, 1, 1)]
    asked = other.submit(other.fetch_request(max_wait_ms=LOCK_MS + 1_000))
    assert asked.is_waiting
    assert isinstance(asked.answer.response, DelayedAnswer)
    assert asked.answer.response.retry_at_ms == group.cluster.clock.now_ms + LOCK_MS
    group.pass_time(LOCK_MS)
    assert [one.delivery_count for one in asked.response.responses[0].partitions[0].acquired_records] == [2]
    late = member.submit(member.fetch_request(max_wait_ms=500))
    assert late.is_waiting
    group.pass_time(500)
    assert not late.is_waiting


def test_a_lock_lasts_its_time_and_renewal_begins_it_anew(group: Conversation) -> None:
    member, other = begin(group, 2), Fetcher(group, "b")
    member.fetch()
    group.pass_time(LOCK_MS - 1)
    assert other.fetch() == []
    assert member.acknowledge((0, 0, [RENEW]), renew=True) == 0
    group.pass_time(1)
    assert other.fetch() == [(1, 1, 2)]
    group.pass_time(LOCK_MS - 2)
    assert other.fetch() == []
    group.pass_time(1)
    assert other.fetch() == [(0, 0, 2)]
    assert member.acknowledge((0, 0, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE


def test_a_record_is_archived_at_the_delivery_limit(group: Conversation) -> None:
    set_config(group, "share.delivery.count.limit", "2")
    member = begin(group, 1, 1)
    assert member.fetch() == [(0, 1, 1)]
    assert member.acknowledge((0, 0, [RELEASE]), (1, 1, [ACCEPT])) == 0
    assert member.fetch() == [(0, 0, 2)]
    assert member.acknowledge((0, 0, [RELEASE])) == 0
    assert member.fetch() == []
    assert [batch.delivery_state for batch in state_of(group).batches] == [4, 2]


def test_the_state_survives_leaders_and_coordinators(group: Conversation) -> None:
    member = begin(group, 3, 3)
    assert member.fetch(batch_size=1) == [(0, 2, 1), (3, 5, 1)]
    assert member.acknowledge((0, 3, [ACCEPT, REJECT, RELEASE, ACCEPT])) == 0
    for broker_id in {member.leader, group.coordinator_id}:
        group.cluster.shut_down(broker_id)
        group.cluster.brokers.by_id[broker_id].is_up = False
        group.cluster.brokers.note_who_is_down()
    moved = Fetcher(Conversation(group.cluster), "a")
    assert moved.fetch() == [(2, 2, 2), (4, 5, 1)]


def test_the_old_leader_cannot_acknowledge(group: Conversation) -> None:
    member = begin(group, 2)
    member.fetch()
    old = member.leader
    group.cluster.shut_down(old)
    asked = member.submit(member.acknowledge_request([(0, 1, [ACCEPT])]), broker_id=old).response
    code = asked.error_code or asked.responses[0].partitions[0].error_code
    assert code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.SHARE_SESSION_NOT_FOUND)
    assert Fetcher(Conversation(group.cluster), "b").fetch() == [(0, 1, 1)], "the delivery was not written"


def test_records_wait_for_the_acknowledgements_of_their_request(group: Conversation) -> None:
    """Records are there, but the share coordinator is not: it is asked again after a second."""
    cluster = group.cluster
    found = (begin(Conversation(cluster, name)) for name in "hijklmn")
    member = next(one for one in found if state_coordinator(one.group) != one.leader)
    produce(group, 1)
    produce(group, 1)
    assert member.fetch(max_records=1, batch_size=1) == [(0, 0, 1)]
    cluster.set_down({state_coordinator(member.group)})
    asked = member.submit(member.fetch_request([(0, 0, [ACCEPT])]))
    assert asked.is_waiting
    assert isinstance(asked.answer.response, DelayedAnswer)
    assert asked.answer.response.retry_at_ms == cluster.clock.now_ms + 1_000
    group.pass_time(999)
    assert asked.is_waiting
    cluster.set_down(())
    group.pass_time(1)
    group.pass_time(1)
    [partition] = asked.response.responses[0].partitions
    assert [(one.first_offset, one.last_offset) for one in partition.acquired_records] == [(1, 1)]
    assert partition.acknowledge_error_code == 0
    written = state_of(member.group)
    assert [(one.first_offset, one.last_offset, one.delivery_state) for one in written.batches] == [(0, 0, 2)]


def test_a_closed_connection_frees_what_its_member_has(group: Conversation) -> None:
    begin(group, 3)
    member, other = Fetcher(group, "a", connection_id=7), Fetcher(group, "b", connection_id=8)
    assert member.fetch() == [(0, 2, 1)]
    assert member.acknowledge((0, 0, [ACCEPT])) == 0
    group.cluster.brokers.connection_closed(7)
    assert other.fetch() == [(1, 2, 2)]
    assert member.acknowledge((1, 1, [ACCEPT])) == ErrorCode.SHARE_SESSION_NOT_FOUND
    group.cluster.brokers.connection_closed(8)
    assert len(group.cluster.brokers.shares.leaders) == 0, "the group has no session any more"
    assert len(group.cluster.brokers.shares.leaders.locks) == 0


def test_a_deleted_group_begins_anew(group: Conversation) -> None:
    begin(group, 2)
    member = Fetcher(group, "a", connection_id=7)
    member.fetch()
    assert member.acknowledge((0, 1, [ACCEPT])) == 0
    member.close()
    group.cluster.brokers.connection_closed(7)
    beat(group, "a", -1)
    assert group.ask(DeleteGroupsRequest(groups_names=[group.group_id])).results[0].error_code == 0
    beat(group, "a", 0, ["t"])
    assert Fetcher(group, "a").fetch() == [(0, 1, 1)]


def test_deleted_records_are_passed_over(group: Conversation) -> None:
    member = begin(group, 2, 2)
    assert member.fetch(max_records=1) == [(0, 1, 1)]
    topic = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])
    asked = member.submit(DeleteRecordsRequest(topics=[topic], timeout_ms=1_000))
    group.pass_time(2)
    assert asked.response.topics[0].partitions[0].error_code == 0
    assert member.acknowledge((0, 1, [RELEASE])) == 0
    assert member.fetch() == []
    assert member.fetch() == [(2, 3, 1)]


def test_locks_sessions_and_partitions_of_sessions_are_limited(
    group: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = begin(group, 2)
    monkeypatch.setattr(reading, "MAX_IN_FLIGHT", 0)
    assert member.fetch() == []
    monkeypatch.setattr(reading, "MAX_IN_FLIGHT", 1)
    assert member.fetch() == [(0, 1, 1)]
    monkeypatch.setattr(sessions, "MAX_PARTITIONS", 1)
    other = Fetcher(group, "b")
    asked = other.submit(other.fetch_request(max_wait_ms=300))
    assert asked.is_waiting
    group.pass_time(300)
    assert asked.response.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


def test_only_so_many_sessions_exist_on_a_broker() -> None:
    group = new_conversation(group_share_max_share_sessions="1")
    member = begin(group, 1)
    assert member.fetch() == [(0, 0, 1)]
    other = Fetcher(group, "b")
    refused = other.submit(other.fetch_request()).response
    assert refused.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    member.close()
    assert other.fetch() == [(0, 0, 2)]


@pytest.mark.parametrize("reset", ["latest", "earliest", "by_duration:PT1S", "by_duration:P1D"])
def test_where_a_group_begins(group: Conversation, reset: str) -> None:
    set_config(group, "share.auto.offset.reset", reset)
    beat(group, "a", 0, ["t"])
    beat(group, "a", 2)
    produce(group, 3)
    group.pass_time(5_000)
    member = Fetcher(group, "a")
    if reset == "by_duration:PT1S":
        answer = member.submit(member.fetch_request()).response
        assert answer.responses[0].partitions[0].error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        return
    assert member.fetch() == ([] if reset == "latest" else [(0, 2, 1)])


def test_only_batches_that_can_be_acquired_are_read(group: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch of few records from a long log."""
    member = begin(group, *[2] * 20)
    read: list[int] = []
    batches_of = PartitionLog.batches_of

    def noted(self: PartitionLog, found: FoundBatches) -> list[bytes]:
        read.append(found.behind - found.first)
        return batches_of(self, found)

    monkeypatch.setattr(PartitionLog, "batches_of", noted)
    assert member.fetch(max_records=4) == [(0, 3, 1)]
    assert member.fetch(max_records=3) == [(4, 7, 1)]
    assert read == [3, 2], "those that are acquired, and at most one more"
    assert member.acknowledge((2, 3, [RELEASE])) == 0
    assert member.fetch(max_records=100) == [(2, 3, 2), (8, 39, 1)]


def test_batches_up_to_an_offset(group: Conversation) -> None:
    begin(group, *[2] * 4)
    topic = group.cluster.image.topics_by_name["t"]
    replicated = group.cluster.brokers.data.find(topic.topic_id, 0)
    assert replicated is not None
    log = replicated.log
    found = log.find_batches(2, 10**6, log.log_end_offset)
    assert found is not None
    spans = {offset: log.spans(log.up_to(found, offset)) for offset in (0, 2, 3, 4, 6, 99)}
    assert [len(spans[offset]) for offset in (0, 2, 3, 4, 6, 99)] == [1, 1, 1, 2, 3, 3]
    assert spans[4] == [(2, 3), (4, 5)]
    nothing = log.find_batches(log.log_end_offset, 10**6, log.log_end_offset)
    assert nothing is not None
    assert log.up_to(nothing, 99) == nothing


def test_the_epoch_of_a_session_begins_again_at_one(group: Conversation) -> None:
    member = begin(group, 1)
    member.fetch()
    session = group.cluster.brokers.shares.leaders.sessions(member.leader).find((group.group_id, "a"))
    assert session is not None
    session.epoch = member.epoch = sessions.LAST_EPOCH
    assert member.fetch() == []
    assert session.epoch == 1
    member.epoch = 1
    produce(group, 1)
    assert member.fetch() == [(1, 1, 1)]
