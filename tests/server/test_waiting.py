"""Answers that wait for record data, over sockets: they leave when the data is there, and delay no other client."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from klamm.controller.core import Answer, Call, Controller
from klamm.controller.data_limits import DataLimits
from klamm.controller.long_decision import LongDecision
from klamm.controller.settings import Settings
from klamm.protocol.codec.requests import decode_response
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data import fetch, produce
from klamm.protocol.messages.partitions import alter_partition_reassignments
from klamm.protocol.messages.topics import create_topics, delete_topics
from klamm.server.limits import ServerLimits
from tests.broker.data.batches import batch
from tests.server.harness import (
    Peer,
    RunningServer,
    api_versions_frame,
    open_test_server,
    request_frame,
    settled,
)

SLOW = Settings(seed=1, data_limits=DataLimits(replication_rate=100))
BATCH = batch(50)


@pytest.fixture
def clock() -> MockClock:
    return MockClock(autojump_threshold=0.01)


def produced(acks: int, partition: int = 0) -> produce.ProduceRequest:
    data = [produce.PartitionProduceData(index=partition, records=BATCH)]
    topics = [produce.TopicProduceData(name="t", partition_data=data)]
    return produce.ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=topics)


def fetched(offset: int = 0, max_wait_ms: int = 5_000) -> fetch.FetchRequest:
    partitions = [fetch.FetchPartition(fetch_offset=offset, partition_max_bytes=1_000_000)]
    topics = [fetch.FetchTopic(topic="t", partitions=partitions)]
    return fetch.FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=topics)


def topic_on_both(name: str) -> create_topics.CreateTopicsRequest:
    """Led by broker 1, followed by broker 2."""
    assignments = [create_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])]
    topic = create_topics.CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
    return create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=1_000)


async def connect(running: RunningServer) -> Peer:
    """To the leader of topic t, which is created if it does not exist."""
    peer = await running.connect(1)
    if "t" not in running.controller.image.topics_by_name:
        assert (await peer.ask(create_topics.API, 7, topic_on_both("t"))).topics[0].error_code == 0
    return peer


async def test_acks_of_all_leave_when_the_followers_have_the_batch(clock: MockClock) -> None:
    async with open_test_server(brokers=2, settings=SLOW) as running:
        peer = await connect(running)
        started = trio.current_time()
        response = await peer.ask(produce.API, 12, produced(-1))
        assert response.responses[0].partition_responses[0].error_code == 0
        assert 0.45 < trio.current_time() - started < 0.6


async def test_a_consumer_is_woken_by_what_others_write(clock: MockClock) -> None:
    async with open_test_server(brokers=2) as running:
        consumer, producer = await connect(running), await connect(running)
        await consumer.send(request_frame(fetch.API, 12, 1, fetched(max_wait_ms=60_000)))
        await trio.sleep(1)
        assert await producer.is_served()
        started = trio.current_time()
        await producer.ask(produce.API, 12, produced(1))
        assert BATCH[61:] in (await consumer.receive() or b"")
        assert trio.current_time() - started < 0.5


async def test_what_stands_behind_an_answer_that_waits_is_not_answered_by_a_server_that_stops(clock: MockClock) -> None:
    """The client would take it for the answer that is missing, so the connection ends there."""
    async with open_test_server(brokers=2) as running:
        peer = await connect(running)
        await peer.send(request_frame(fetch.API, 12, 7, fetched(max_wait_ms=60_000)) + api_versions_frame(8))
        await trio.sleep(1)
        await running.server.drain()
        assert await peer.receive() is None


async def delete_topic(running: RunningServer) -> None:
    request = delete_topics.DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000)
    response = await (await running.connect(2)).ask(delete_topics.API, 5, request)
    assert response.responses[0].error_code == 0


async def move_leader(running: RunningServer) -> None:
    partition = alter_partition_reassignments.ReassignablePartition(partition_index=0, replicas=[2])
    topics = [alter_partition_reassignments.ReassignableTopic(name="t", partitions=[partition])]
    request = alter_partition_reassignments.AlterPartitionReassignmentsRequest(timeout_ms=1_000, topics=topics)
    response = await (await running.connect(2)).ask(alter_partition_reassignments.API, 0, request)
    assert response.error_code == response.responses[0].partitions[0].error_code == 0


@pytest.mark.parametrize("with_records", [False, True])
@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (delete_topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (move_leader, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
async def test_a_consumer_is_woken_when_there_is_nothing_to_wait_for_any_more(
    clock: MockClock, happens: Callable[[RunningServer], Awaitable[None]], code: int, with_records: bool
) -> None:
    async with open_test_server(brokers=2) as running:
        consumer = await connect(running)
        if with_records:
            await consumer.ask(produce.API, 12, produced(-1))
        await consumer.send(request_frame(fetch.API, 12, 1, fetched(50 * with_records, max_wait_ms=60_000)))
        await trio.sleep(1)
        started = trio.current_time()
        await happens(running)
        frame = await consumer.receive()
        assert frame is not None
        response = decode_response(fetch.API, 12, frame)[1]
        assert response.responses[0].partitions[0].error_code == code
        assert trio.current_time() - started < 0.5


async def write_half(running: RunningServer) -> None:
    """With acks=0: one partition gets records; the other one is refused, which closes the connection."""
    request = produced(0)
    request.topic_data = [*request.topic_data, *produced(0, partition=9).topic_data]
    await (await running.connect(1)).send(request_frame(produce.API, 12, 1, request))


async def write_for_all_here_and_more_elsewhere(running: RunningServer) -> None:
    """The followers have the records of this partition long before the producer gets its answer."""
    peer = await running.connect(1)
    await peer.ask(create_topics.API, 7, topic_on_both("u"))
    request = produced(-1)
    more = produce.PartitionProduceData(index=0, records=batch(450))
    request.topic_data = [*request.topic_data, produce.TopicProduceData(name="u", partition_data=[more])]
    await peer.send(request_frame(produce.API, 12, 1, request))


async def write(running: RunningServer) -> None:
    await (await running.connect(1)).ask(produce.API, 12, produced(1))


@pytest.mark.parametrize(
    "happens", [write, write_half, write_for_all_here_and_more_elsewhere, delete_topic, move_leader]
)
async def test_a_consumer_is_woken_by_what_happens_and_needs_no_tick(
    clock: MockClock, happens: Callable[[RunningServer], Awaitable[None]]
) -> None:
    limits = ServerLimits(tick_seconds=1_000)
    sessions = {"broker.session.timeout.ms": "10000000"}
    settings = Settings(seed=1, data_limits=DataLimits(replication_rate=100), static_configs=sessions)
    async with open_test_server(brokers=2, limits=limits, settings=settings) as running:
        consumer = await connect(running)
        await consumer.send(request_frame(fetch.API, 12, 1, fetched(max_wait_ms=60_000)))
        await settled(lambda: bool(running.server.brokers.data.watches))
        started = trio.current_time()
        await happens(running)
        assert await consumer.receive() is not None
        assert trio.current_time() - started < 1


async def test_what_is_not_awaited_any_more_is_forgotten(clock: MockClock) -> None:
    async with open_test_server(brokers=2) as running:
        peer = await connect(running)
        await peer.send(request_frame(fetch.API, 12, 1, fetched()))
        await trio.sleep(1)
        data, topic = running.server.brokers.data, running.controller.image.topics_by_name["t"]
        assert list(data.watches) == [(topic.topic_id, 0)]
        assert await peer.receive() is not None
        assert not data.watches


async def test_a_consumer_of_nothing_is_answered_when_its_time_is_over(clock: MockClock) -> None:
    async with open_test_server(brokers=2) as running:
        peer = await connect(running)
        started = trio.current_time()
        response = await peer.ask(fetch.API, 12, fetched())
        assert response.responses[0].partitions[0].error_code == 0
        assert 5 <= trio.current_time() - started < 5.2


async def test_without_acks_nothing_is_answered_until_something_is_refused(clock: MockClock) -> None:
    async with open_test_server(brokers=2) as running:
        peer = await connect(running)
        await peer.send(request_frame(produce.API, 12, 1, produced(0)))
        response = await peer.ask(fetch.API, 12, fetched())
        assert response.responses[0].partitions[0].high_watermark == 50
        await peer.send(request_frame(produce.API, 12, 2, produced(0, partition=9)))
        assert await peer.receive() is None
        assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name in running.stderr.getvalue()
        assert "bug" not in running.stderr.getvalue()


async def test_what_is_refused_without_acks_stands_in_the_request_log(clock: MockClock, tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    async with open_test_server(brokers=2, request_log=path) as running:
        peer = await connect(running)
        await peer.send(request_frame(produce.API, 12, 7, produced(0, partition=9)))
        assert await peer.receive() is None
    line = json.loads(path.read_text().splitlines()[-1])
    assert (line["api"], line["correlation_id"], line["bytes_out"]) == ("Produce", 7, 0)
    (error,) = line["errors"]
    assert (error["topic_name"], error["partition_index"], error["error_code"]) == ("t", 9, 3)


class BuggyController(Controller):
    """A controller that cannot produce."""

    def begin(self, call: Call, *, others_wait: bool = False) -> Answer | LongDecision:
        if call.api is produce.API:
            raise ZeroDivisionError("planted")
        return super().begin(call, others_wait=others_wait)


@pytest.mark.parametrize("acks", [-1, 0, 1])
async def test_a_bug_is_no_answer_to_whoever_expects_none(clock: MockClock, tmp_path: Path, acks: int) -> None:
    path = tmp_path / "requests.jsonl"
    async with open_test_server(
        brokers=2, controller_class=BuggyController, request_log=path, has_bugs=True
    ) as running:
        peer = await connect(running)
        await peer.send(request_frame(produce.API, 12, 7, produced(acks)))
        frame = await peer.receive()
        assert (frame is None) == (acks == 0)
        assert "ZeroDivisionError: planted" in running.stderr.getvalue()
        assert await (await connect(running)).is_served()
    assert [json.loads(line)["api"] for line in path.read_text().splitlines()].count("Produce") == 1


async def test_a_server_that_stops_waits_for_no_record(clock: MockClock) -> None:
    async with open_test_server(brokers=2) as running:
        peer = await connect(running)
        await peer.send(request_frame(fetch.API, 12, 1, fetched(max_wait_ms=60_000)))
        await trio.sleep(1)
        started = trio.current_time()
    assert trio.current_time() - started < 0.5


async def test_answers_keep_their_order_behind_one_that_waits(clock: MockClock) -> None:
    async with open_test_server(brokers=2, settings=SLOW) as running:
        peer = await connect(running)
        await peer.send(
            request_frame(produce.API, 12, 1, produced(-1)) + request_frame(produce.API, 12, 2, produced(1))
        )
        frames = [await peer.receive() or b"", await peer.receive() or b""]
        assert [int.from_bytes(frame[:4], "big") for frame in frames] == [1, 2]


async def test_what_stands_before_an_answer_that_waits_leaves_without_waiting(clock: MockClock) -> None:
    async with open_test_server(brokers=2) as running:
        peer = await connect(running)
        await peer.send(api_versions_frame(6) + request_frame(fetch.API, 12, 7, fetched(max_wait_ms=5_000)))
        before = await peer.receive(within_seconds=1.0)
        assert before is not None
        assert int.from_bytes(before[:4], "big") == 6
        waited = await peer.receive(within_seconds=10.0)
        assert waited is not None
        assert int.from_bytes(waited[:4], "big") == 7
