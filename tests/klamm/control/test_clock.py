"""A manual clock: nothing expires until it is advanced, what clients ask to wait for goes by real time, and the same
requests give the same bytes."""

import json
import threading
import time
from datetime import timedelta
from typing import Any

import pytest
import trio

import klamm
from klamm.control.command import decode_control_options
from klamm.control.durations import milliseconds
from klamm.control.tables import as_text
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.data import fetch, produce
from klamm.protocol.messages.topics import create_topics, metadata
from klamm.server import brokers
from tests.broker.data.batches import batch
from tests.klamm.control.control_cluster import controlled_cluster
from tests.server.harness import Peer, request_frame

START_MS = 1_700_000_000_000
TOPIC = "orders"
JSON = dict[str, Any]


async def connect(cluster: klamm.Cluster, broker: int = 0) -> Peer:
    host, _, port = cluster.bootstrap_servers.split(",")[broker].rpartition(":")
    return Peer(await trio.open_tcp_stream(host, int(port)))


def write(count: int = 1, acks: int = -1, timeout_ms: int = 30_000) -> produce.ProduceRequest:
    data = [produce.PartitionProduceData(index=0, records=batch(count, timestamp_ms=START_MS))]
    topic = produce.TopicProduceData(name=TOPIC, partition_data=data)
    return produce.ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])


def read(max_wait_ms: int, min_bytes: int = 1, offset: int = 0) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = fetch.FetchTopic(topic=TOPIC, partitions=[partition])
    return fetch.FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=1 << 20, topics=[topic])


async def leader_of_the_partition(peer: Peer) -> int:
    response = await peer.ask(metadata.API, 12, metadata.MetadataRequest(topics=None))
    return int(response.topics[0].partitions[0].leader_id)


async def test_a_start_that_waits_for_a_session_says_that_the_clock_is_manual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "MANUAL_SECONDS", 0.4)
    async with klamm.Cluster(brokers=2, clock="manual", start_ms=START_MS) as cluster:
        await cluster.stop_broker(2, mode="crash")
        with trio.fail_after(10), pytest.raises(klamm.ClusterError, match="the clock is manual; advance the clock by"):
            await cluster.start_broker(2)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cluster.start_broker, 2)
            for _ in range(9):  # each advance gives it more time
                await trio.sleep(0.1)
                await cluster.advance("1s")
        assert not cluster._up.image.brokers[2].fenced


async def test_a_crashed_broker_is_fenced_when_the_clock_says_so_and_no_other() -> None:
    async with klamm.Cluster(brokers=3, clock="manual", start_ms=START_MS) as cluster:
        await cluster.stop_broker(2, mode="crash")
        await trio.sleep(0.3)
        image = cluster._up.image
        assert [image.brokers[number].fenced for number in (1, 2, 3)] == [False, False, False]
        assert await cluster.advance("8s") == START_MS + 8_000
        assert not image.brokers[2].fenced
        assert await cluster.advance(timedelta(seconds=2)) == START_MS + 10_000
        assert [image.brokers[number].fenced for number in (1, 2, 3)] == [False, True, False]
        assert await cluster.advance("30d") == START_MS + 10_000 + 30 * 86_400_000
        assert [image.brokers[number].fenced for number in (1, 2, 3)] == [False, True, False]
        await cluster.start_broker(2)
        assert not image.brokers[2].fenced
        assert await cluster.now_ms() == START_MS + 10_000 + 30 * 86_400_000


async def test_a_fetch_waits_as_long_as_the_client_said_by_real_time() -> None:
    async with klamm.Cluster(brokers=1, clock="manual") as cluster:
        await cluster.create_topic(TOPIC, 1, 1)
        peer = await connect(cluster)
        began = time.monotonic()
        response = await peer.ask(fetch.API, 11, read(300))
        assert 0.29 < time.monotonic() - began < 5
        assert response.responses[0].partitions[0].records in (b"", None)
        writer = await connect(cluster)
        began = time.monotonic()
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                answered = await peer.ask(fetch.API, 11, read(20_000))
                assert answered.responses[0].partitions[0].records

            nursery.start_soon(wait)
            await trio.sleep(0.05)
            await writer.ask(produce.API, 9, write())
        assert time.monotonic() - began < 10, "records wake it, as ever"
        await peer.aclose()
        await writer.aclose()


async def test_followers_fetch_at_once_or_at_the_rate_of_the_clock() -> None:
    async with klamm.Cluster(brokers=3, clock="manual") as cluster:
        await cluster.create_topic(TOPIC, 1, 3)
        peer = await connect(cluster)
        leader = (
            (await peer.ask(metadata.API, 12, metadata.MetadataRequest(topics=None))).topics[0].partitions[0].leader_id
        )
        leading = await connect(cluster, leader - 1)
        (answered,) = (await leading.ask(produce.API, 9, write(100))).responses
        assert answered.partition_responses[0].error_code == 0
        for one in (peer, leading):
            await one.aclose()
    async with klamm.Cluster(brokers=3, clock="manual", replication_rate=10) as cluster:
        await cluster.create_topic(TOPIC, 1, 3)
        peer = await connect(cluster)
        leader = (
            (await peer.ask(metadata.API, 12, metadata.MetadataRequest(topics=None))).topics[0].partitions[0].leader_id
        )
        leading = await connect(cluster, leader - 1)
        await leading.send(request_frame(produce.API, 9, 7, write(20)))
        with trio.move_on_after(0.3) as waiting:
            await leading.receive()
        assert waiting.cancelled_caught
        await cluster.advance(1_000)
        with trio.move_on_after(0.2) as waiting:
            await leading.receive()
        assert waiting.cancelled_caught
        await cluster.advance("1s")
        assert await leading.receive() is not None
        (answered,) = (await leading.ask(produce.API, 9, write(20, timeout_ms=200))).responses
        assert answered.partition_responses[0].error_code == klamm.ErrorCode.REQUEST_TIMED_OUT, "by real time"
        for one in (peer, leading):
            await one.aclose()


async def test_a_rule_s_time_goes_by_the_clock() -> None:
    async with klamm.Cluster(brokers=1, clock="manual") as cluster:
        fault = await cluster.fail("ApiVersions", for_ms=60_000)
        peer = await connect(cluster)
        assert await peer.is_served()
        await cluster.advance("59s")
        assert await peer.is_served()
        await cluster.advance("1s")
        assert await peer.is_served()
        assert (await cluster.fault(fault)).hits == 2
        assert (await cluster.fault(fault)).state == "over"
        await peer.aclose()


async def story() -> tuple[list[bytes | None], list[Any]]:
    """The bytes of all answers of a cluster with rules, and its journal."""
    options: JSON = {"brokers": 3, "clock": "manual", "start_ms": START_MS, "seed": 11, "journal_bodies": True}
    options |= {"listen": "127.0.0.1:21710", "cluster_id": "same"}
    async with klamm.Cluster(**options) as cluster:
        await cluster.fail("Produce", "NOT_LEADER_OR_FOLLOWER", probability=0.5)
        await cluster.fail("Metadata", throttle_time_ms=5, every=2)
        await cluster.fail("Fetch", answer="flipped_batch", times=1)
        peers = [await connect(cluster, number) for number in range(3)]
        answers: list[bytes | None] = []
        new = create_topics.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=3)
        steps: list[tuple[int, Any, int, Any]] = [
            (
                0,
                api_versions.API,
                3,
                api_versions.ApiVersionsRequest(client_software_name="a", client_software_version="1"),
            ),
            (0, create_topics.API, 7, create_topics.CreateTopicsRequest(topics=[new])),
            *[(number % 3, metadata.API, 12, metadata.MetadataRequest(topics=None)) for number in range(4)],
            *[(number % 3, produce.API, 9, write(3)) for number in range(12)],
            *[(number % 3, fetch.API, 11, read(0, 0)) for number in range(6)],
        ]
        for number, (broker, api, version, request) in enumerate(steps):
            await peers[broker].send(request_frame(api, version, number, request))
            answers.append(await peers[broker].receive())
            if number == 8:
                await cluster.stop_broker(2, mode="crash")
                await cluster.advance("20s")
                await cluster.start_broker(2)
                await peers[1].aclose()
                peers[1] = await connect(cluster, 1)
        journal = await cluster.requests()
        for peer in peers:
            await peer.aclose()
        return answers, [json.dumps(line_members(line)) for line in journal]


def line_members(line: Any) -> JSON:
    return {name: getattr(line, name) for name in line.__dataclass_fields__}


async def test_the_same_seed_rules_and_requests_give_the_same_bytes_and_the_same_journal() -> None:
    first, second = await story(), await story()
    assert first[0] == second[0]
    assert first[1] == second[1]
    assert len(first[1]) == len(first[0]) == 24
    assert any('"faults": ["fault-1"]' in line for line in first[1])


def test_a_clock_that_is_never_advanced_while_something_waits_is_named_once() -> None:
    with klamm.ServerProcess(brokers=3, clock="manual", replication_rate=1, control=True, warm=True) as server:
        server.kill_broker(3)
        started = time.monotonic()
        text = ""
        starting = threading.Thread(target=server.start_broker, args=(3,))
        starting.start()
        while "the clock is manual" not in text and time.monotonic() - started < 20:
            time.sleep(0.1)
            text = server.stderr_text()
        time.sleep(1.5)
        assert server.stderr_text().count("the clock is manual") == 1
        server.advance("10s")
        starting.join(20)
        assert not starting.is_alive()


async def test_the_clock_is_shown_and_advanced_by_http() -> None:
    async with controlled_cluster(brokers=1, clock="manual", start_ms=START_MS) as cluster:
        shown = {"clock": "manual", "now_ms": START_MS, "time": "2023-11-14T22:13:20.000+00:00"}
        assert await cluster.ask("GET", "/clock") == (200, shown)
        later = {"clock": "manual", "now_ms": START_MS + 1_500, "time": "2023-11-14T22:13:21.500+00:00"}
        assert await cluster.ask("POST", "/clock/advance", {"ms": 1_500}) == (200, later)
        for body, reason in (
            ({}, "'ms' is missing"),
            ({"ms": 0}, "ms 0"),
            ({"ms": 10**13}, "ms 10000"),
            ({"s": 1}, "'s'"),
        ):
            status, got = await cluster.ask("POST", "/clock/advance", body)
            assert (status, reason in got["error"]) == (400, True), got
    async with controlled_cluster(brokers=1) as cluster:
        assert (await cluster.ask("GET", "/clock"))[1]["clock"] == "real"
        status, got = await cluster.ask("POST", "/clock/advance", {"ms": 1})
        assert (status, got["error"]) == (
            409, "the clock is real: start with --clock manual, in Python clock='manual', to advance it",
        )  # fmt: skip


async def test_a_real_clock_is_not_advanced() -> None:
    async with klamm.Cluster(brokers=1) as cluster:
        with pytest.raises(klamm.ClusterError, match="the clock is real"):
            await cluster.advance(1)
        with pytest.raises(klamm.ClusterError, match="is not a duration"):
            await cluster.advance("soon")
    with pytest.raises(klamm.ClusterError, match="clock 'slow': real or manual is expected"):
        klamm.Cluster(clock="slow")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("duration", "ms"),
    [(250, 250), ("250", 250), ("250ms", 250), ("1.5s", 1_500), ("5m", 300_000), ("2h", 7_200_000),
     ("7d", 604_800_000), (timedelta(minutes=1), 60_000), (1.4, 1)],
)  # fmt: skip
def test_durations_are_written_in_several_ways(duration: Any, ms: int) -> None:
    assert milliseconds(duration) == ms


@pytest.mark.parametrize("duration", ["", "m5", "5 m", "-5s", "5w", "1e3s", None, "1.s", True])
def test_what_is_no_duration_is_refused(duration: Any) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        milliseconds(duration)


def test_the_commands_are_requests() -> None:
    def command(*words: str) -> tuple[str, str, Any]:
        options = decode_control_options(("--url", "http://127.0.0.1:1", "clock", *words), {})
        return options.method, options.path, options.body

    assert command() == ("GET", "/clock", None)
    assert command("advance", "5m") == ("POST", "/clock/advance", {"ms": 300_000})
    assert as_text({"clock": "manual", "now_ms": 5, "time": "t"}) == "t  5  manual\n"
