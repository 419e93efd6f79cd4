"""Answers that would be much larger than their requests: what is named again has little room, the rest is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller import answer_room
from klamm.controller.answer_room import NO_ROOM, AnswerRoom, encoded_at_most
from klamm.controller.authorizer import AclOperation
from klamm.protocol import Api, Message, encode_message
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data.describe_producers import DescribeProducersRequest, TopicRequest
from klamm.protocol.messages.groups import consumer_group_describe, describe_groups
from klamm.protocol.messages.groups.consumer_group_describe import ConsumerGroupDescribeRequest
from klamm.protocol.messages.groups.describe_groups import DescribeGroupsRequest
from klamm.protocol.messages.groups.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.offsets import offset_fetch
from klamm.protocol.messages.offsets.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from klamm.protocol.messages.partitions.elect_leaders import ElectLeadersRequest, TopicPartitions
from klamm.protocol.messages.partitions.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from klamm.protocol.messages.security import delete_acls
from klamm.protocol.messages.security.delete_acls import DeleteAclsRequest
from klamm.protocol.messages.streams import streams_group_describe
from klamm.protocol.messages.streams.streams_group_describe import StreamsGroupDescribeRequest
from klamm.protocol.messages.transactions import describe_transactions
from klamm.protocol.messages.transactions.describe_transactions import DescribeTransactionsRequest
from klamm.protocol.messages.transactions.init_producer_id import InitProducerIdRequest
from tests.broker.data.batches import batch
from tests.broker.groups.conversation import CONFIGS, GROUP, Conversation
from tests.broker.handlers.data_requests import produce
from tests.controller.handlers.cluster import DrivenCluster
from tests.controller.handlers.guarded_cluster import GuardedCluster, codes, deletion, entry
from tests.controller.handlers.reassignment_requests import moved, reassign
from tests.protocol.strategies import messages

TIMES = 100
FEW_BYTES = 2_000
COUNTED = (
    consumer_group_describe.API,
    delete_acls.API,
    describe_groups.API,
    describe_transactions.API,
    offset_fetch.API,
    streams_group_describe.API,
)
"""The APIs whose messages are counted."""
REFUSED = ErrorCode.INVALID_REQUEST


@pytest.fixture(autouse=True)
def _little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_room, "MAX_REPEATED_BYTES", FEW_BYTES)


def assert_some_refused(found: list[int]) -> None:
    """The first answers are good, and the last ones are refused: the first one and a few repeated ones had room."""
    good = found.index(REFUSED)
    assert good >= 2
    assert found == [0] * good + [REFUSED] * (len(found) - good)


@pytest.fixture
def group() -> Conversation:
    cluster = DrivenCluster(profile="kafka", configs={**CONFIGS, "transaction.state.log.num.partitions": "1"})
    cluster.create("t", 2, 3)
    return Conversation(cluster)


def test_a_group_that_is_named_again_is_described_within_the_room(group: Conversation) -> None:
    group.stable()
    answer = group.ask(DescribeGroupsRequest(groups=[GROUP] * TIMES))
    assert_some_refused(codes(answer.groups))
    assert answer.groups[1] == answer.groups[0]
    assert answer.groups[-1].error_message == NO_ROOM.message
    answer = group.ask(DescribeGroupsRequest(groups=[GROUP] * TIMES), 5)
    assert_some_refused(codes(answer.groups))


def test_a_consumer_group_that_is_named_again_is_described_within_the_room(group: Conversation) -> None:
    answer = group.ask(ConsumerGroupDescribeRequest(group_ids=[GROUP] * TIMES))
    found = codes(answer.groups)
    assert found[:2] == [ErrorCode.GROUP_ID_NOT_FOUND] * 2
    assert found[-1] == REFUSED


def test_a_streams_group_that_is_named_again_is_described_within_the_room(group: Conversation) -> None:
    answer = group.ask(StreamsGroupDescribeRequest(group_ids=[GROUP] * TIMES))
    found = codes(answer.groups)
    assert found[:2] == [ErrorCode.GROUP_ID_NOT_FOUND] * 2
    assert found[-1] == REFUSED


def test_all_offsets_of_a_group_are_returned_a_few_times(group: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    group.commit(5)
    asked = [OffsetFetchRequestGroup(group_id=GROUP, topics=None)]
    answer = group.ask(OffsetFetchRequest(groups=asked * TIMES))
    assert codes(answer.groups) == [0] * 16 + [REFUSED] * (TIMES - 16)
    monkeypatch.setattr(answer_room, "MAX_REPEATED_BYTES", 200)
    assert_some_refused(codes(group.ask(OffsetFetchRequest(groups=asked * 16)).groups))
    assert codes(group.ask(OffsetFetchRequest(groups=asked)).groups) == [0]


def test_a_transaction_that_is_named_again_is_described_within_the_room(group: Conversation) -> None:
    cluster = group.cluster
    coordinator = FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
    cluster.ask(coordinator)  # creates the topic of the coordinators
    (found,) = cluster.ask(coordinator).coordinators
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=10_000)
    assert cluster.ask(request, broker_id=found.node_id).error_code == 0
    answer = cluster.ask(DescribeTransactionsRequest(transactional_ids=["x"] * TIMES), broker_id=found.node_id)
    assert_some_refused(codes(answer.transaction_states))


def test_producers_of_a_partition_that_is_named_again_are_listed_within_the_room() -> None:
    cluster = DrivenCluster()
    cluster.create_at("t", [1])
    for producer_id in range(10):
        numbered = batch(1, producer_id=producer_id, producer_epoch=0, base_sequence=0)
        assert produce(cluster, numbered).error_code == 0
    topics = [TopicRequest(name="t", partition_indexes=[0] * TIMES)]
    (topic,) = cluster.ask(DescribeProducersRequest(topics=topics)).topics
    assert_some_refused(codes(topic.partitions))
    assert [len(one.active_producers) for one in topic.partitions[:2]] == [10, 10]
    assert not topic.partitions[-1].active_producers


def test_a_partition_in_reassignment_that_is_named_too_often_is_refused_with_its_request() -> None:
    cluster = DrivenCluster()
    cluster.create_at("t", [1])
    reassign(cluster, moved("t", [2]))
    for times, code in ((2, 0), (TIMES, REFUSED)):
        topics = [ListPartitionReassignmentsTopics(name="t", partition_indexes=[0] * times)]
        answer = cluster.ask(ListPartitionReassignmentsRequest(topics=topics))
        assert answer.error_code == code
        assert [len(topic.partitions) for topic in answer.topics] == ([] if code else [times])


def test_entries_that_too_many_filters_match_are_not_removed() -> None:
    cluster = GuardedCluster(0)
    cluster.grant(*(entry(AclOperation.READ, f"t{number}") for number in range(10)))
    answer = cluster.ask(DeleteAclsRequest(filters=[deletion()] * TIMES))
    assert codes(answer.filter_results) == [REFUSED] * TIMES
    answer = cluster.ask(DeleteAclsRequest(filters=[deletion()] * 2))
    assert [len(result.matching_acls) for result in answer.filter_results] == [10, 10]


def test_items_that_are_named_once_share_the_room_of_the_answer() -> None:
    room = AnswerRoom(100)
    assert room.take("a", 60)
    assert not room.take("b", 41)
    assert room.take("c", 40), "what was refused took nothing"


@pytest.mark.parametrize("letter", ["x", "ü", "\N{GRINNING FACE}"])
def test_the_shown_name_of_an_unknown_topic_takes_no_more_bytes_than_a_topic_s_name(letter: str) -> None:
    cluster = DrivenCluster()
    wanted = TopicPartitions(topic=letter * (32_767 // len(letter.encode())), partitions=[0])
    answer = cluster.ask(ElectLeadersRequest(topic_partitions=[wanted], timeout_ms=1000))
    (result,) = answer.replica_election_results[0].partition_result
    assert len(result.error_message.encode()) < 249 + 30


@pytest.mark.parametrize("api", COUNTED, ids=lambda api: api.name)
@given(data=st.data())
def test_no_message_takes_more_than_its_upper_bound(api: Api[Message, Message], data: st.DataObject) -> None:
    version = api.versions[-1]
    flexible = api.flexible(version)
    message: Any = data.draw(messages(api.response, version, flexible))
    if not any(_tags(message)):
        assert len(encode_message(message, version, flexible)) <= encoded_at_most(message)


def _tags(message: Any) -> Any:
    """The undeclared tagged fields, which no answer of ours has."""
    if isinstance(message, Message):
        yield message.unknown_tags
        for name in message.__slots__:
            yield from _tags(getattr(message, name, None))
    elif isinstance(message, (list, tuple)):
        for one in message:
            yield from _tags(one)
