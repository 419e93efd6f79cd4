"""What a connection sees of each fault: late answers, damaged ones, none at all, and answers from old metadata."""

from typing import Any

import pytest
import trio
import trio.testing

from klamm.controller.client import Client
from klamm.protocol.codec.frames import encode_frame
from klamm.protocol.codec.requests import encode_request
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.data import fetch, produce
from klamm.protocol.messages.topics import create_topics, metadata
from klamm.server.faults.counting import RuleState
from klamm.server.faults.reading import read_rule
from tests.broker.data.batches import batch as one_batch
from tests.server.harness import (
    Peer,
    RunningServer,
    api_versions_frame,
    create_topic,
    create_topic_frame,
    metadata_frame,
    open_test_server,
    settled,
)

TOPIC = "orders"


@pytest.fixture
def clock() -> trio.testing.MockClock:
    return trio.testing.MockClock(autojump_threshold=0.002)


def add(running: RunningServer, **rule: Any) -> RuleState:
    return running.server.faults.add(read_rule(rule))


async def with_topic(running: RunningServer, partitions: int = 1) -> Peer:
    peer = running.connect_in_memory()
    await peer.ask(create_topics.API, 7, create_topic(TOPIC, partitions))
    return peer


def write(partitions: int = 1, acks: int = 1, records: bytes | None = None) -> produce.ProduceRequest:
    data = [produce.PartitionProduceData(index=index, records=records or one_batch()) for index in range(partitions)]
    topic = produce.TopicProduceData(name=TOPIC, partition_data=data)
    return produce.ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])


async def written(peer: Peer, request: produce.ProduceRequest) -> list[int]:
    response = await peer.ask(produce.API, 9, request)
    return [one.error_code for topic in response.responses for one in topic.partition_responses]


def many_topics(letter: str) -> create_topics.CreateTopicsRequest:
    """More than are created at once."""
    names = [f"{letter}-{number}" for number in range(3_000)]
    topics = [create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    return create_topics.CreateTopicsRequest(topics=topics, timeout_ms=60_000)


def end_offset(running: RunningServer, partition_index: int = 0) -> int:
    topic = running.controller.image.topics_by_name[TOPIC]
    found = running.server.brokers.data.find(topic.topic_id, partition_index)
    return 0 if found is None else found.log.log_end_offset


async def test_a_refused_partition_was_not_written_and_the_other_was() -> None:
    async with open_test_server() as running:
        peer = await with_topic(running, 2)
        state = add(running, api="Produce", topic=TOPIC, partition=0, error="NOT_LEADER_OR_FOLLOWER", times=1)
        assert await written(peer, write(2)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER, 0]
        assert (end_offset(running, 0), end_offset(running, 1)) == (0, 1)
        assert await written(peer, write(2)) == [0, 0]
        assert (end_offset(running, 0), end_offset(running, 1)) == (1, 2)
        assert [hit.items for hit in state.requests] == [("orders-0",)]


async def test_a_partition_refused_after_the_deed_was_written() -> None:
    async with open_test_server() as running:
        peer = await with_topic(running, 2)
        add(running, api="Produce", partition=1, error="REQUEST_TIMED_OUT", after=True)
        assert await written(peer, write(2)) == [0, ErrorCode.REQUEST_TIMED_OUT]
        assert (end_offset(running, 0), end_offset(running, 1)) == (1, 1)


@pytest.mark.parametrize("after", [False, True])
async def test_a_whole_request_is_refused(after: bool) -> None:
    async with open_test_server() as running:
        peer = await with_topic(running, 2)
        add(running, api="Produce", partition=1, error="KAFKA_STORAGE_ERROR", whole=True, after=after)
        assert await written(peer, write(2)) == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        assert end_offset(running) == after
        assert await written(peer, write(1)) == [0]


@pytest.mark.parametrize("after", [False, True])
async def test_a_refusal_that_cannot_be_told_closes_the_connection(after: bool) -> None:
    async with open_test_server() as running:
        peer = await with_topic(running)
        state = add(running, api="Produce", error="KAFKA_STORAGE_ERROR", after=after)
        await peer.send(encode_frame(encode_request(produce.API, 9, 1, "peer", write(acks=0))))
        if after:
            assert await peer.is_served()
        else:
            assert await peer.receive() is None
        assert (end_offset(running), state.hits) == (after, 1)


async def test_metadata_of_all_topics_has_the_error_at_one_topic() -> None:
    async with open_test_server() as running:
        peer = await with_topic(running)
        await peer.ask(create_topics.API, 7, create_topic("other"))
        state = add(running, api="Metadata", topic=TOPIC, error="LEADER_NOT_AVAILABLE", times=1)
        response = await peer.ask(metadata.API, 12, metadata.MetadataRequest(topics=None))
        codes = {topic.name: topic.error_code for topic in response.topics}
        assert codes == {TOPIC: ErrorCode.LEADER_NOT_AVAILABLE, "other": 0}
        assert len(response.brokers) == 1
        response = await peer.ask(metadata.API, 12, metadata.MetadataRequest(topics=None))
        assert {topic.error_code for topic in response.topics} == {0}
        assert [hit.items for hit in state.requests] == [("orders",)]


@pytest.mark.parametrize("after", [False, True])
async def test_an_answer_comes_late(clock: trio.testing.MockClock, after: bool) -> None:
    async with open_test_server() as running:
        peer = await with_topic(running)
        add(running, api="Produce", delay_ms=5_000, after=after, times=1)
        began = trio.current_time()
        await peer.send(encode_frame(encode_request(produce.API, 9, 1, "peer", write())))
        await peer.send(api_versions_frame(2))
        await trio.sleep(4.9)
        assert end_offset(running) == after
        assert (await peer.receive() or b"")[:4] == (1).to_bytes(4, "big")
        assert trio.current_time() - began == pytest.approx(5, abs=0.01)
        assert (await peer.receive() or b"")[:4] == (2).to_bytes(4, "big")
        assert end_offset(running) == 1


@pytest.mark.parametrize("after", [False, True])
async def test_a_connection_is_closed_before_or_after_the_deed(after: bool) -> None:
    async with open_test_server() as running:
        peer = await with_topic(running)
        add(running, api="Produce", answer="close", after=after, times=1)
        await peer.send(
            api_versions_frame(1)
            + encode_frame(encode_request(produce.API, 9, 2, "peer", write()))
            + api_versions_frame(3)
        )
        assert (await peer.receive() or b"")[:4] == (1).to_bytes(4, "big"), "earlier answers arrive"
        assert await peer.receive() is None
        assert end_offset(running) == after


@pytest.mark.parametrize("after", [False, True])
async def test_a_silent_connection_answers_nothing_until_the_rule_is_removed(
    clock: trio.testing.MockClock, after: bool
) -> None:
    async with open_test_server() as running:
        peer = await with_topic(running)
        state = add(running, api="Produce", answer="none", after=after)
        await peer.send(encode_frame(encode_request(produce.API, 9, 2, "peer", write())))
        await peer.send(api_versions_frame(3))
        with trio.move_on_after(60) as silence:
            await peer.stream.receive_some(1)
        assert silence.cancelled_caught
        assert (end_offset(running), state.hits) == (after, 1)
        running.server.faults.remove(state.rule_id)
        assert await peer.receive() is None


async def test_a_black_hole_for_one_client_at_one_broker() -> None:
    async with open_test_server(brokers=2) as running:
        state = add(running, broker=1, client_id="peer", answer="none")
        cut_off, elsewhere = running.connect_in_memory(), running.connect_in_memory(Client("broker", 2))
        await cut_off.send(api_versions_frame(1))
        assert await elsewhere.is_served()
        await settled(lambda: state.hits == 1)
        await cut_off.send(api_versions_frame(2))
        await cut_off.aclose()
        state = add(running, broker=2, client_id="someone else", answer="none")
        assert await elsewhere.is_served()
        assert state.hits == 0


async def test_half_an_answer_ends_the_connection() -> None:
    async with open_test_server() as running:
        peer = running.connect_in_memory()
        await peer.send(api_versions_frame(1))
        whole = await peer.receive()
        add(running, api="ApiVersions", answer="half", times=1)
        await peer.send(api_versions_frame(1) + api_versions_frame(2))
        got = bytearray()
        while chunk := await peer.stream.receive_some(100_000):
            got += chunk
        assert whole is not None
        assert got == len(whole).to_bytes(4, "big") + whole[: len(whole) // 2]


async def test_one_byte_of_the_frame_is_another_one() -> None:
    async with open_test_server() as running:
        peer = running.connect_in_memory()
        await peer.send(api_versions_frame(1))
        whole = await peer.receive()
        add(running, api="ApiVersions", answer="flipped_frame", times=1)
        await peer.send(api_versions_frame(1))
        damaged = await peer.receive()
        assert whole is not None
        assert damaged is not None
        assert [
            (at, one ^ other) for at, (one, other) in enumerate(zip(whole, damaged, strict=True)) if one != other
        ] == [(len(whole) // 2, 1)]
        assert await peer.is_served()


async def test_an_answer_names_another_request() -> None:
    async with open_test_server() as running:
        peer = running.connect_in_memory()
        add(running, api="ApiVersions", answer="other_correlation_id", times=1)
        await peer.send(api_versions_frame(2**31 - 1))
        assert (await peer.receive() or b"")[:4] == (2**31).to_bytes(4, "big")


async def test_a_batch_with_a_wrong_checksum_is_refused_by_the_broker_and_seen_by_the_consumer() -> None:
    async with open_test_server() as running:
        peer = await with_topic(running)
        state = add(running, api="Produce", answer="flipped_batch", times=1)
        assert await written(peer, write()) == [ErrorCode.CORRUPT_MESSAGE]
        assert await written(peer, write()) == [0]
        partition = fetch.FetchPartition(partition=0, partition_max_bytes=1 << 20)
        asked = fetch.FetchRequest(max_bytes=1 << 20, topics=[fetch.FetchTopic(topic=TOPIC, partitions=[partition])])
        sound = (await peer.ask(fetch.API, 11, asked)).responses[0].partitions[0].records
        add(running, api="Fetch", answer="flipped_batch", times=1)
        damaged = (await peer.ask(fetch.API, 11, asked)).responses[0].partitions[0].records
        assert (sound[:-1], sound[-1] ^ 1) == (damaged[:-1], damaged[-1])
        assert (await peer.ask(fetch.API, 11, asked)).responses[0].partitions[0].records == sound
        assert state.hits == 1


async def test_a_refused_partition_of_a_fetch_is_answered_at_once(clock: trio.testing.MockClock) -> None:
    async with open_test_server() as running:
        peer = await with_topic(running, 2)
        add(running, api="Fetch", partition=0, error="NOT_LEADER_OR_FOLLOWER")
        partitions = [fetch.FetchPartition(partition=index, partition_max_bytes=1 << 20) for index in range(2)]
        topic = fetch.FetchTopic(topic=TOPIC, partitions=partitions)
        asked = fetch.FetchRequest(max_wait_ms=5_000, min_bytes=1, max_bytes=1 << 20, topics=[topic])
        began = trio.current_time()
        (answered,) = (await peer.ask(fetch.API, 11, asked)).responses
        assert trio.current_time() - began < 1
        refused, empty = answered.partitions
        assert (refused.error_code, refused.high_watermark, refused.records) == (6, -1, b"")
        assert (empty.error_code, empty.high_watermark) == (0, 0)


async def test_a_rule_about_a_partition_meets_clients_with_fetch_sessions() -> None:
    async with open_test_server() as running:
        peer = await with_topic(running)
        partition = fetch.FetchPartition(partition=0, partition_max_bytes=1 << 20)
        topic = fetch.FetchTopic(topic=TOPIC, partitions=[partition])

        def asked(session_id: int, epoch: int) -> fetch.FetchRequest:
            named = [topic] if epoch < 1 else []
            return fetch.FetchRequest(max_bytes=1 << 20, session_id=session_id, session_epoch=epoch, topics=named)

        granted = (await peer.ask(fetch.API, 11, asked(0, 0))).session_id
        assert granted
        assert (await peer.ask(fetch.API, 11, asked(granted, 1))).error_code == 0
        state = add(running, api="Fetch", topic=TOPIC, error="KAFKA_STORAGE_ERROR", times=1)
        lost = await peer.ask(fetch.API, 11, asked(granted, 2))
        assert (lost.error_code, lost.session_id, state.hits) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, 0)
        refused = await peer.ask(fetch.API, 11, asked(0, 0))
        assert (refused.session_id, refused.responses[0].partitions[0].error_code, state.hits) == (0, 56, 1)
        again = await peer.ask(fetch.API, 11, asked(0, 0))
        assert again.session_id
        assert again.responses[0].partitions[0].error_code == 0


async def test_a_throttle_time_and_values_of_an_answer_are_set() -> None:
    async with open_test_server() as running:
        peer = await with_topic(running)
        add(running, api="Metadata", throttle_time_ms=321)
        add(running, api="Metadata", set={"controllerId": 7, "topics[*].partitions[0].leaderId": -1})
        response = await peer.ask(metadata.API, 12, metadata.MetadataRequest(topics=None))
        assert (response.throttle_time_ms, response.controller_id) == (321, 7)
        assert response.topics[0].partitions[0].leader_id == -1
        old = await peer.ask(metadata.API, 0, metadata.MetadataRequest(topics=()))
        assert len(old.topics) == 1, "a version without the fields is answered, too"


async def test_stale_metadata_is_that_of_the_rule_s_beginning() -> None:
    async with open_test_server() as running:
        peer = await with_topic(running)
        state = add(running, client_id="peer", stale_metadata=True)
        await peer.ask(create_topics.API, 7, create_topic("later", 1))
        asked = metadata.MetadataRequest(topics=None)
        assert [topic.name for topic in (await peer.ask(metadata.API, 12, asked)).topics] == [TOPIC]
        named = metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name="new")], allow_auto_topic_creation=True
        )
        await peer.ask(metadata.API, 12, named)
        assert "new" not in running.controller.image.topics_by_name
        assert state.hits == 2
        running.server.faults.remove(state.rule_id)
        assert [topic.name for topic in (await peer.ask(metadata.API, 12, asked)).topics] == [TOPIC, "later"]


async def test_a_rule_that_only_observes_changes_no_byte() -> None:
    async with open_test_server() as running:
        peer = running.connect_in_memory()
        await peer.send(metadata_frame(1))
        before = await peer.receive()
        state = add(running)
        await peer.send(metadata_frame(1))
        assert await peer.receive() == before
        assert state.hits == 1


async def test_large_requests_meet_the_rules_too() -> None:
    async with open_test_server(large_in_threads=True) as running:
        peer = running.connect_in_memory()
        state = add(running, api="CreateTopics", topic="t-7", error="POLICY_VIOLATION")
        request = many_topics("t")
        response = await peer.ask(create_topics.API, 7, request)
        assert [topic.name for topic in response.topics] == [topic.name for topic in request.topics]
        assert [topic.name for topic in response.topics if topic.error_code] == ["t-7"]
        assert len(running.controller.image.topics_by_name) == 2_999
        assert state.hits == 1
        late = add(running, api="CreateTopics", delay_ms=1)
        request = many_topics("u")
        response = await peer.ask(create_topics.API, 7, request)
        assert {topic.error_code for topic in response.topics} == {0}
        assert late.hits == 1


async def test_a_server_with_silent_connections_stops_at_once() -> None:
    async with open_test_server() as running:
        state = add(running, answer="none")
        peer = await running.connect()
        await peer.send(create_topic_frame(1, "never"))
        await settled(lambda: state.hits == 1)
        assert not running.controller.image.topics_by_name
