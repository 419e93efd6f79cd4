"""Quotas over connections: how long clients are throttled, which connections are muted, and what counts. Time is the
test's clock."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock, lockstep_stream_pair, wait_all_tasks_blocked

from klamm.controller.client import Client
from klamm.controller.settings import Settings
from klamm.protocol.api import Api
from klamm.protocol.codec.frames import encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request, encode_response
from klamm.protocol.fields import Message
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.configs import alter_client_quotas
from klamm.protocol.messages.configs.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from klamm.protocol.messages.data import fetch, produce
from klamm.protocol.messages.data.fetch import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.messages.data.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.protocol.messages.topics import create_topics, metadata
from tests.broker.data.batches import batch
from tests.server.harness import Peer, RunningServer, create_topic, open_test_server

PRODUCE_VERSION, FETCH_VERSION = 9, 12
RATE = 20_000.0
ALL_WINDOWS_SECONDS = 11.0
SPANS = 4
TOLERANCE = 0.05


async def set_quotas(running: RunningServer, entity: dict[str, str | None], **values: float) -> None:
    peer = await running.connect()
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    ops = [OpData(key=key, value=value, remove=False) for key, value in values.items()]
    answer = await peer.ask(
        alter_client_quotas.API, 1, AlterClientQuotasRequest(entries=[EntryData(entity=parts, ops=ops)])
    )
    assert answer.entries[0].error_code == 0


async def ask(peer: Peer, api: Api[Any, Any], version: int, request: Message, client_id: str = "peer") -> Any:
    await peer.send(encode_frame(encode_request(api, version, 7, client_id, request)))
    frame = await peer.receive(within_seconds=10_000)
    assert frame is not None, "closed"
    return decode_response(api, version, frame)[1]


def produce_request(size: int, acks: int = 1) -> ProduceRequest:
    """A request whose body has about `size` bytes."""
    data = [PartitionProduceData(index=0, records=batch(value=b"x" * (size - 110)))]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)])


def request_bytes(request: ProduceRequest, client_id: str = "peer") -> int:
    """What counts: header and body."""
    return len(encode_request(produce.API, PRODUCE_VERSION, 7, client_id, request))


def fetch_request(offset: int = 0, max_bytes: int = 1 << 20) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=[FetchTopic(topic="t", partitions=[partition])],
    )


async def with_topic(running: RunningServer) -> Peer:
    peer = await running.connect()
    await peer.ask(create_topics.API, 7, create_topic("t"))
    return peer


async def test_a_producer_writes_its_byte_rate(autojump_clock: MockClock) -> None:
    """Within 5 percent over each time of all windows. Within a shorter time the rate may be higher: as in Kafka, a
    client may use up the windows that have passed in one burst."""
    async with open_test_server() as running:
        peer = await with_topic(running)
        await set_quotas(running, {"client-id": "peer"}, producer_byte_rate=RATE)
        request = produce_request(200)
        size = request_bytes(request)
        began, sent = trio.current_time(), [0] * SPANS
        while (passed := trio.current_time() - began) < SPANS * ALL_WINDOWS_SECONDS:
            sent[int(passed / ALL_WINDOWS_SECONDS)] += size
            await ask(peer, produce.API, PRODUCE_VERSION, request)
        assert [total / ALL_WINDOWS_SECONDS for total in sent] == [pytest.approx(RATE, rel=TOLERANCE)] * SPANS


@pytest.mark.parametrize("client_id", ["a", "b" * 3_000])
async def test_the_header_of_a_produce_request_counts(autojump_clock: MockClock, client_id: str) -> None:
    """As measured with Apache Kafka 4.3: one ms of throttle time for each byte beyond those of ten windows."""
    async with open_test_server() as running:
        peer = await with_topic(running)
        await set_quotas(running, {"client-id": None}, producer_byte_rate=1000)
        request = produce_request(20_000)
        answer = await ask(peer, produce.API, PRODUCE_VERSION, request, client_id)
        assert answer.throttle_time_ms == request_bytes(request, client_id) - 10_000


async def test_a_consumer_reads_its_byte_rate(autojump_clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = await with_topic(running)
        await peer.ask(produce.API, PRODUCE_VERSION, produce_request(200))
        await set_quotas(running, {"user": "ANONYMOUS"}, consumer_byte_rate=RATE)
        began, received = trio.current_time(), [0] * SPANS
        while (passed := trio.current_time() - began) < SPANS * ALL_WINDOWS_SECONDS:
            answer = await ask(peer, fetch.API, FETCH_VERSION, fetch_request())
            if answer.throttle_time_ms:
                assert not answer.responses, "a throttled client fetches again"
            else:
                received[int(passed / ALL_WINDOWS_SECONDS)] += fetched_bytes(answer)
        assert [total / ALL_WINDOWS_SECONDS for total in received] == [pytest.approx(RATE, rel=TOLERANCE)] * SPANS


def fetched_bytes(answer: fetch.FetchResponse) -> int:
    """What counts: the body, and four bytes for its length."""
    return len(encode_response(fetch.API, FETCH_VERSION, 7, answer)) - 5 + 4


async def test_a_throttled_connection_is_muted_and_others_of_the_client_are_not(autojump_clock: MockClock) -> None:
    async with open_test_server() as running:
        peer, other = await with_topic(running), await running.connect()
        await set_quotas(running, {"client-id": "peer"}, producer_byte_rate=1000)
        started = trio.current_time()
        answer = await ask(peer, produce.API, PRODUCE_VERSION, produce_request(15_000))
        assert trio.current_time() == started, "the answer itself comes at once"
        assert answer.throttle_time_ms == pytest.approx(5000, abs=100)
        assert await other.is_served()
        assert trio.current_time() == started
        assert (await ask(peer, metadata.API, 9, metadata.MetadataRequest(topics=[]))).throttle_time_ms == 0
        assert trio.current_time() - started == pytest.approx(answer.throttle_time_ms / 1000)


async def test_pipelined_requests_wait_too_and_are_answered_in_order(autojump_clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = await with_topic(running)
        await set_quotas(running, {"client-id": "peer"}, producer_byte_rate=1000)
        started = trio.current_time()
        both = [
            encode_frame(encode_request(produce.API, PRODUCE_VERSION, 1, "peer", produce_request(12_000))),
            encode_frame(encode_request(api_versions.API, 0, 2, "peer", api_versions.ApiVersionsRequest())),
        ]
        await peer.send(b"".join(both))
        first, second = await peer.receive(), await peer.receive()
        assert first is not None
        assert second is not None
        assert (first[:4], second[:4]) == (b"\0\0\0\1", b"\0\0\0\2")
        assert trio.current_time() - started == pytest.approx(2, abs=0.2)


async def test_a_request_without_an_answer_mutes_its_connection(autojump_clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = await with_topic(running)
        await set_quotas(running, {"client-id": "peer"}, producer_byte_rate=1000, request_percentage=0.001)
        started = trio.current_time()
        request = produce_request(13_000, acks=0)
        await peer.send(encode_frame(encode_request(produce.API, PRODUCE_VERSION, 1, "peer", request)))
        assert await peer.is_served()
        assert trio.current_time() - started == pytest.approx(3, abs=0.2)


async def test_a_request_without_an_answer_takes_no_request_time(autojump_clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = await with_topic(running)
        await set_quotas(running, {"client-id": "peer"}, request_percentage=0.0001)
        started = trio.current_time()
        request = produce_request(200, acks=0)
        await peer.send(encode_frame(encode_request(produce.API, PRODUCE_VERSION, 1, "peer", request)))
        assert await peer.is_served()
        assert trio.current_time() == started


async def test_a_broker_that_goes_down_forgets_what_clients_used(autojump_clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = await with_topic(running)
        await set_quotas(running, {"client-id": "peer"}, producer_byte_rate=1_000_000)
        await ask(peer, produce.API, PRODUCE_VERSION, produce_request(200))
        broker = running.server.brokers.by_id[1]
        assert len(broker.rates._rates) == 1
        broker.go_down(cleanly=False)
        assert len(broker.rates._rates) == 0


async def test_each_broker_measures_its_own_clients(autojump_clock: MockClock) -> None:
    async with open_test_server(brokers=2) as running:
        await set_quotas(running, {"client-id": "peer"}, producer_byte_rate=1000)
        for broker_id in (1, 2):
            peer = await running.connect(broker_id)
            answers = [await ask(peer, produce.API, PRODUCE_VERSION, produce_request(8_000)) for _ in range(2)]
            assert [answer.throttle_time_ms > 0 for answer in answers] == [False, True], "refused records count, too"


async def test_the_windows_are_configs_of_a_broker(autojump_clock: MockClock) -> None:
    settings = Settings(
        seed=1,
        static_configs={"quota.window.num": "3", "quota.window.size.seconds": "2"},
        broker_static_configs={2: {"quota.window.num": "6"}},
    )
    async with open_test_server(brokers=2, settings=settings) as running:
        await set_quotas(running, {"client-id": "peer"}, producer_byte_rate=1000)
        request = produce_request(6_000)
        times = []
        for broker_id in (1, 2):
            peer = await running.connect(broker_id)
            times.append((await ask(peer, produce.API, PRODUCE_VERSION, request)).throttle_time_ms)
        assert times == [pytest.approx(2000, abs=100), 0]


async def test_request_percentage_throttles_for_a_window_at_most(autojump_clock: MockClock) -> None:
    """A request takes 0.1 ms of thread time, so that 0.01 percent allow ten of them in ten seconds."""
    async with open_test_server() as running:
        peer = await running.connect()
        await set_quotas(running, {"user": None}, request_percentage=0.01)
        request = metadata.MetadataRequest(topics=[])
        times = [(await ask(peer, metadata.API, 9, request)).throttle_time_ms for _ in range(12)]
        assert times[:9] == [0] * 9
        assert times[11] == 1000
        response = await ask(
            peer,
            api_versions.API,
            3,
            api_versions.ApiVersionsRequest(client_software_name="k", client_software_version="1"),
            "other",
        )
        assert response.throttle_time_ms == 1000, "all clients of the user share the quota"


async def test_requests_that_the_controller_decides_are_measured_there(autojump_clock: MockClock) -> None:
    async with open_test_server() as running:
        peer, other = await running.connect(), await running.connect()
        await set_quotas(running, {"user": None}, request_percentage=0.002)
        for _ in range(3):
            await ask(peer, metadata.API, 9, metadata.MetadataRequest(topics=[]))
        request = create_topics.CreateTopicsRequest(topics=[], timeout_ms=1000)
        answers = [await ask(other, create_topics.API, 7, request) for _ in range(3)]
        assert [answer.throttle_time_ms > 0 for answer in answers] == [False, True, True]


async def test_a_fetch_gets_no_topics_while_request_time_throttles(autojump_clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = await with_topic(running)
        await peer.ask(produce.API, PRODUCE_VERSION, produce_request(1000))
        await set_quotas(running, {"user": None}, request_percentage=0.001)
        await ask(peer, fetch.API, FETCH_VERSION, fetch_request())
        answer = await ask(peer, fetch.API, FETCH_VERSION, fetch_request())
        assert (answer.throttle_time_ms, list(answer.responses)) == (1000, [])


async def test_a_consumer_gets_at_most_what_ten_windows_allow(autojump_clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = await with_topic(running)
        for _ in range(10):
            await peer.ask(produce.API, PRODUCE_VERSION, produce_request(1000))
        await set_quotas(running, {"client-id": "peer"}, consumer_byte_rate=400)
        answer = await ask(peer, fetch.API, FETCH_VERSION, fetch_request())
        assert answer.throttle_time_ms == 0
        assert 2_000 < len(answer.responses[0].partitions[0].records) < 4_000


async def test_a_throttled_session_goes_on_and_has_the_records_later(autojump_clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = await with_topic(running)
        first = await ask(peer, fetch.API, FETCH_VERSION, in_session(fetch_request(), 0, 0))
        assert first.session_id
        await peer.ask(produce.API, PRODUCE_VERSION, produce_request(1000))
        await set_quotas(running, {"client-id": "peer"}, consumer_byte_rate=50)
        later = FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20)
        throttled = await ask(peer, fetch.API, FETCH_VERSION, in_session(later, first.session_id, 1))
        assert throttled.throttle_time_ms > 0
        assert (throttled.session_id, throttled.error_code, list(throttled.responses)) == (first.session_id, 0, [])
        await set_quotas(running, {"client-id": "peer"}, consumer_byte_rate=1_000_000)
        answer = await ask(peer, fetch.API, FETCH_VERSION, in_session(later, first.session_id, 2))
        assert len(answer.responses[0].partitions[0].records) > 900


async def test_no_session_begins_with_a_throttled_answer(autojump_clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = await with_topic(running)
        await peer.ask(produce.API, PRODUCE_VERSION, produce_request(1000))
        await set_quotas(running, {"client-id": "peer"}, consumer_byte_rate=50)
        answer = await ask(peer, fetch.API, FETCH_VERSION, in_session(fetch_request(), 0, 0))
        assert answer.throttle_time_ms > 0
        assert answer.session_id == 0


def in_session(request: FetchRequest, session_id: int, session_epoch: int) -> FetchRequest:
    request.session_id, request.session_epoch = session_id, session_epoch
    return request


async def test_a_server_that_stops_does_not_wait_for_muted_connections(autojump_clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = await with_topic(running)
        await set_quotas(running, {"client-id": "peer"}, producer_byte_rate=1)
        answer = await ask(peer, produce.API, PRODUCE_VERSION, produce_request(10_000))
        assert answer.throttle_time_ms > 1_000_000
        await peer.send(encode_frame(encode_request(api_versions.API, 0, 2, "peer", api_versions.ApiVersionsRequest())))
        await trio.sleep(1)
        started = trio.current_time()
        await running.server.drain()
        assert trio.current_time() - started < 2
        assert await peer.receive() is None


async def test_requests_behind_a_throttled_one_are_not_answered_any_more_when_the_server_stops(
    autojump_clock: MockClock,
) -> None:
    async with open_test_server() as running:
        peer = await with_topic(running)
        await set_quotas(running, {"client-id": "peer"}, producer_byte_rate=1)
        requests = [
            encode_frame(encode_request(produce.API, PRODUCE_VERSION, 1, "peer", produce_request(1_000))),
            encode_frame(encode_request(api_versions.API, 0, 2, "peer", api_versions.ApiVersionsRequest())),
        ]
        await peer.send(b"".join(requests))
        assert await peer.receive() is not None
        await running.server.drain()
        assert await peer.receive() is None


async def test_nor_when_the_server_stops_while_the_throttled_answer_is_sent(autojump_clock: MockClock) -> None:
    async with open_test_server() as running:
        await with_topic(running)
        await set_quotas(running, {"client-id": "peer"}, producer_byte_rate=1)
        requests = [
            encode_frame(encode_request(produce.API, PRODUCE_VERSION, 1, "peer", produce_request(1_000))),
            encode_frame(encode_request(api_versions.API, 0, 2, "peer", api_versions.ApiVersionsRequest())),
        ]
        ours, theirs = lockstep_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(running.server.serve_stream, Client("broker", 1), theirs)
            await ours.send_all(b"".join(requests))
            await wait_all_tasks_blocked()
            nursery.start_soon(running.server.drain)
            await wait_all_tasks_blocked()
            peer = Peer(ours)
            assert await peer.receive() is not None
            assert await peer.receive() is None
            await peer.aclose()


async def test_without_quotas_nothing_is_measured(autojump_clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = await with_topic(running)
        await ask(peer, produce.API, PRODUCE_VERSION, produce_request(1000))
        broker = running.server.brokers.by_id[1]
        assert len(broker.rates._rates) == 0
        await set_quotas(running, {"client-id": "other"}, producer_byte_rate=1)
        await ask(peer, produce.API, PRODUCE_VERSION, produce_request(1000))
        assert len(broker.rates._rates) == 0, "the quota of another client"
