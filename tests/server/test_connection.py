"""A single connection: order, chunks, pipelining, and how it ends. On memory streams, except in tests of sockets."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from klamm.broker.dispatch import APIS
from klamm.controller.core import Answer, Call, Controller
from klamm.controller.long_decision import LongDecision
from klamm.protocol.codec.requests import decode_response, encode_response
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.brokers import unregister_broker
from klamm.protocol.messages.cluster import api_versions, describe_cluster
from klamm.protocol.messages.data import produce
from klamm.protocol.messages.partitions import elect_leaders
from klamm.protocol.messages.topics import create_topics, delete_topics, metadata
from klamm.protocol.messages.transactions import add_partitions_to_txn
from klamm.server.bug_answers import unknown_server_error
from klamm.server.limits import ServerLimits
from tests.server.harness import (
    Peer,
    api_versions_frame,
    correlation_ids,
    create_topic,
    create_topic_frame,
    metadata_frame,
    open_test_server,
    request_frame,
    settled,
)


async def receive_all(peer: Peer) -> list[bytes]:
    """All answers until the server closes the connection."""
    frames = []
    while (frame := await peer.receive()) is not None:
        frames.append(frame)
    return frames


async def test_a_topic_is_created_over_a_socket_and_seen_through_another_broker() -> None:
    async with open_test_server(brokers=2) as running:
        first, second = await running.connect(1), await running.connect(2)
        created = await first.ask(create_topics.API, 7, create_topic("orders", 3))
        assert [(topic.name, topic.error_code, topic.num_partitions) for topic in created.topics] == [("orders", 0, 3)]
        seen = await second.ask(metadata.API, 12, metadata.MetadataRequest(topics=None))
        assert [(topic.name, len(topic.partitions)) for topic in seen.topics] == [("orders", 3)]
        assert seen.topics[0].topic_id == created.topics[0].topic_id


async def test_pipelined_requests_are_answered_in_their_order() -> None:
    async with open_test_server() as running:
        peer = running.connect_in_memory()
        frames = [
            create_topic_frame(number, f"topic-{number}") if number % 3 else api_versions_frame(number)
            for number in range(100)
        ]
        await peer.send(b"".join(frames))
        answers = [await peer.receive() for _ in frames]
        assert correlation_ids([answer for answer in answers if answer]) == list(range(100))


@given(cuts=st.lists(st.integers(0, 200), max_size=12))
async def test_frames_may_arrive_in_any_pieces(cuts: list[int]) -> None:
    whole = api_versions_frame(1) + create_topic_frame(2, "pieces") + metadata_frame(3)
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    async with open_test_server() as running:
        peer = running.connect_in_memory()
        answers = []
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def receive() -> None:
                answers.extend([await peer.receive() for _ in range(3)])

            for start, end in itertools.pairwise(edges):
                await peer.send(whole[start:end])
                await trio.testing.wait_all_tasks_blocked()
        assert correlation_ids([answer for answer in answers if answer]) == [1, 2, 3]


async def test_a_client_that_ends_its_side_still_gets_its_answers() -> None:
    async with open_test_server() as running:
        peer = await running.connect()
        await peer.send(create_topic_frame(1, "last") + metadata_frame(2))
        assert isinstance(peer.stream, trio.SocketStream)
        await peer.stream.send_eof()
        assert correlation_ids(await receive_all(peer)) == [1, 2]


async def test_a_client_that_leaves_before_its_answer_disturbs_nobody_and_its_request_counts() -> None:
    async with open_test_server() as running:
        leaving, staying = await running.connect(), await running.connect()
        await leaving.send(create_topic_frame(1, "left-behind"))
        await leaving.aclose()
        while "left-behind" not in running.controller.image.topics_by_name:
            assert await staying.is_served()
        assert await staying.is_served()
        assert running.stderr.getvalue() == ""


async def test_a_client_that_leaves_in_the_middle_of_a_frame_disturbs_nobody() -> None:
    async with open_test_server() as running:
        leaving, staying = await running.connect(), await running.connect()
        assert await leaving.is_served()
        assert await staying.is_served()
        await leaving.send(create_topic_frame(1, "half")[:20])
        await leaving.aclose()
        while len(running.server.admission.connections) > 1:
            assert await staying.is_served()
        await settled(lambda: running.server.admission.held_bytes == 0)
        assert not running.controller.image.topics_by_name


async def test_api_versions_of_an_unknown_version_tells_its_own_versions_and_the_connection_goes_on() -> None:
    async with open_test_server() as running:
        peer = running.connect_in_memory()
        unknown = bytes.fromhex("0000001300120063000000070003726177000278027900")
        await peer.send(unknown)
        frame = await peer.receive()
        assert frame is not None
        correlation_id, response = decode_response(api_versions.API, 0, frame)
        assert correlation_id == 7
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(key.api_key, key.min_version, key.max_version) for key in response.api_keys] == [(18, 0, 4)]
        assert await peer.is_served()


class BuggyController(Controller):
    """A controller with a bug in some of its handlers."""

    def begin(self, call: Call, *, others_wait: bool = False) -> Answer | LongDecision:
        if call.api in (unregister_broker.API, create_topics.API, delete_topics.API, metadata.API):
            raise ZeroDivisionError("planted")
        return super().begin(call, others_wait=others_wait)


async def test_a_bug_in_a_handler_costs_its_request_alone() -> None:
    async with open_test_server(controller_class=BuggyController, has_bugs=True) as running:
        peer, other = running.connect_in_memory(), running.connect_in_memory()
        response = await peer.ask(unregister_broker.API, 0, unregister_broker.UnregisterBrokerRequest(broker_id=9))
        assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert await peer.is_served()
        assert await other.is_served()
        reported = running.stderr.getvalue()
        assert "ZeroDivisionError: planted" in reported
        assert "{'brokerId': 9}" in reported


class BuggyCodecController(Controller):
    """A controller whose responses cannot be encoded."""

    def begin(self, call: Call, *, others_wait: bool = False) -> Answer | LongDecision:
        return super().begin(replace(call, encode=_fail), others_wait=others_wait)


def _fail(_response: Message) -> bytes:
    raise ZeroDivisionError("planted")


async def test_a_bug_in_the_encoding_changes_nothing() -> None:
    async with open_test_server(controller_class=BuggyCodecController, has_bugs=True) as running:
        peer = running.connect_in_memory()
        before = running.controller.log_end_offset
        response = await peer.ask(create_topics.API, 7, create_topic("t", 1))
        assert response.topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert running.controller.log_end_offset == before
        assert not running.controller.image.topics_by_name


@pytest.mark.parametrize(
    ("api", "request_", "names"),
    [
        (create_topics.API, create_topic("no-way", 1), ["no-way"]),
        (delete_topics.API, delete_topics.DeleteTopicsRequest(topic_names=["a", "b"]), ["a", "b"]),
        (metadata.API, metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="m")]), ["m"]),
        (metadata.API, metadata.MetadataRequest(topics=None), []),
    ],
)
async def test_a_bug_is_told_for_each_item_where_the_answer_as_a_whole_has_no_code(
    api: Any, request_: Any, names: list[str]
) -> None:
    async with open_test_server(controller_class=BuggyController, has_bugs=True) as running:
        peer = running.connect_in_memory()
        response = await peer.ask(api, 4, request_)
        items = response.responses if api is delete_topics.API else response.topics
        assert [(item.name, item.error_code) for item in items] == [(name, -1) for name in names]
        assert await peer.is_served()


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_every_api_has_a_place_for_a_bug(api: Any) -> None:
    request = produce.ProduceRequest(acks=1) if api is produce.API else api.request()
    for version in api.kept_versions:
        response = unknown_server_error(Call(api, version, request))
        assert response is not None
        encode_response(api, version, 1, response)


def test_a_bug_is_told_for_each_partition_where_topics_have_no_code() -> None:
    topics = [elect_leaders.TopicPartitions(topic=name, partitions=[3, 1]) for name in "ab"]
    call = Call(elect_leaders.API, 0, elect_leaders.ElectLeadersRequest(topic_partitions=topics))
    response = unknown_server_error(call)
    assert isinstance(response, elect_leaders.ElectLeadersResponse)
    assert [
        (topic.topic, [(one.partition_id, one.error_code) for one in topic.partition_result])
        for topic in response.replica_election_results
    ] == [("a", [(3, -1), (1, -1)]), ("b", [(3, -1), (1, -1)])]


def test_a_bug_is_told_for_each_partition_of_a_transaction_in_versions_without_a_code_at_the_top() -> None:
    topic = add_partitions_to_txn.AddPartitionsToTxnRequestAddPartitionsToTxnTopic
    topics = [topic(name=name, partitions=[3, 1]) for name in "ab"]
    request = add_partitions_to_txn.AddPartitionsToTxnRequest(v3_and_below_topics=topics)
    response = unknown_server_error(Call(add_partitions_to_txn.API, 3, request))
    assert isinstance(response, add_partitions_to_txn.AddPartitionsToTxnResponse)
    assert [
        (topic.name, [(one.partition_index, one.partition_error_code) for one in topic.results_by_partition])
        for topic in response.results_by_topic_v3_and_below
    ] == [("a", [(3, -1), (1, -1)]), ("b", [(3, -1), (1, -1)])]


async def test_a_large_answer_arrives_whole(autojump_clock: trio.testing.MockClock) -> None:
    async with open_test_server(limits=ServerLimits(send_bytes=1000)) as running:
        peer = running.connect_in_memory()
        await peer.ask(create_topics.API, 7, create_topic("wide", 5000))
        seen = await peer.ask(metadata.API, 12, metadata.MetadataRequest(topics=None))
        assert [partition.partition_index for partition in seen.topics[0].partitions] == list(range(5000))


@pytest.mark.parametrize("listener", ["broker", "controller"])
async def test_each_listener_serves_what_kafka_serves_there(listener: str) -> None:
    async with open_test_server() as running:
        peer = await (running.connect() if listener == "broker" else running.connect_to_controller())
        response = await peer.ask(api_versions.API, 3, api_versions.ApiVersionsRequest(
            client_software_name="peer", client_software_version="1"))  # fmt: skip
        keys = {key.api_key for key in response.api_keys}
        metadata_key, registration_key = 3, 62
        assert (metadata_key in keys, registration_key in keys) == (listener == "broker", listener == "controller")
        await peer.send(request_frame(metadata.API, 1, 5, metadata.MetadataRequest(topics=())))
        answer = await peer.receive()
        assert (answer is not None) == (listener == "broker")


async def test_the_controller_tells_where_its_own_listener_is() -> None:
    async with open_test_server() as running:
        peer = await running.connect_to_controller()
        response = await peer.ask(describe_cluster.API, 1, describe_cluster.DescribeClusterRequest(endpoint_type=2))
        (controller,) = response.brokers
        assert f"{controller.host}:{controller.port}" == running.server.controller_bootstrap_servers
        assert controller.port == running.controller_port
