"""Brokers of other processes that do what they should not, over sockets: each gets Kafka's error or none at all, never
an epoch or an offset that makes it cut its log, and others are served meanwhile."""

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
import trio
from trio.testing import MockClock

from klamm.cluster.assembly import open_cluster
from klamm.cluster.options import checked_options
from klamm.cluster.plan import FREE_PORTS, plan_cluster
from klamm.controller.transitions.features import SUPPORTED_FEATURES
from klamm.protocol.codec.frames import encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers import broker_heartbeat, broker_registration
from klamm.protocol.messages.data import fetch
from klamm.protocol.record_batch import decode_batches
from klamm.protocol.uuid import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from klamm.server.event_log import EventLog
from klamm.server.server import Server
from tests.behaviour.player import Line

OURS, OTHER = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
WAIT_MS: Final = 500
LATEST = 18


@pytest.fixture
def clock() -> MockClock:
    """Time passes when nothing else happens; not at once, since sockets may need a moment."""
    return MockClock(autojump_threshold=0.003)


@asynccontextmanager
async def controller(stderr: io.StringIO | None = None, **options: Any) -> AsyncIterator[tuple[Server, Line]]:
    """Klamm without simulated brokers, and a connection to it."""
    given = {"brokers": 0, "controller_listener": "127.0.0.1:0", "cluster_id": OURS, **options}
    plan = plan_cluster(checked_options(given), {}, FREE_PORTS)
    async with open_cluster(plan, EventLog(stream=stderr or io.StringIO())) as server:
        assert server.controller_bootstrap_servers is not None
        line = await Line.open(server.controller_bootstrap_servers)
        yield server, line
        await line.close()


def registration(
    broker_id: int = 1, incarnation: int = 1, **given: Any
) -> broker_registration.BrokerRegistrationRequest:
    levels = given.pop("levels", SUPPORTED_FEATURES)
    values = {
        "cluster_id": OURS,
        "incarnation_id": Uuid(bytes(15) + bytes([incarnation])),
        "listeners": [broker_registration.Listener(name="PLAINTEXT", host="127.0.0.1", port=9092)],
        "features": [
            broker_registration.Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in levels.items()
        ],
        "log_dirs": [Uuid(bytes(14) + bytes([7, broker_id]))],
        **given,
    }
    return broker_registration.BrokerRegistrationRequest(broker_id=broker_id, **values)


def fetching(offset: int = 0, epoch: int = 1, *, seen: int = -1, cluster_id: str = OURS) -> fetch.FetchRequest:
    """`seen`: the high watermark that the broker knows."""
    partition = fetch.FetchPartition(
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=epoch if offset else 0,
        high_watermark=seen,
    )
    return fetch.FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetch.ReplicaState(replica_id=1),
        max_wait_ms=WAIT_MS,
        max_bytes=1 << 20,
        topics=[fetch.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


async def registered(line: Line, **given: Any) -> Any:
    return await line.ask(broker_registration.API, 4, registration(**given))


async def fetched(line: Line, request: fetch.FetchRequest, version: int = LATEST) -> Any:
    answer = await line.ask(fetch.API, version, request)
    assert answer.error_code == 0
    return answer.responses[0].partitions[0]


async def test_a_broker_of_another_cluster_is_refused_and_gets_nothing_of_the_log(clock: MockClock) -> None:
    async with controller() as (_, line):
        answer = await line.ask(fetch.API, LATEST, fetching(cluster_id=OTHER))
        assert (answer.error_code, list(answer.responses)) == (ErrorCode.INCONSISTENT_CLUSTER_ID, [])
        refused = await registered(line, cluster_id=OTHER)
        assert (refused.error_code, refused.broker_epoch) == (ErrorCode.INCONSISTENT_CLUSTER_ID, -1)


async def test_a_stale_epoch_of_the_leader_or_of_the_broker_is_refused(clock: MockClock) -> None:
    async with controller() as (_, line):
        stale = await fetched(line, fetching(epoch=0))
        assert (stale.error_code, stale.current_leader.leader_id, stale.current_leader.leader_epoch) == (74, 3000, 1)
        assert stale.records == b""
        epoch = (await registered(line)).broker_epoch
        for wrong, code in ((epoch, 0), (epoch - 1, 77), (epoch + 1, 77)):
            beat = broker_heartbeat.BrokerHeartbeatRequest(broker_id=1, broker_epoch=wrong, want_fence=True)
            assert (await line.ask(broker_heartbeat.API, 2, beat)).error_code == code
        unknown = broker_heartbeat.BrokerHeartbeatRequest(broker_id=9, broker_epoch=epoch)
        assert (await line.ask(broker_heartbeat.API, 2, unknown)).error_code == ErrorCode.STALE_BROKER_EPOCH


async def test_an_id_whose_broker_is_alive_is_not_given_twice(clock: MockClock) -> None:
    async with controller(configs={"broker.session.timeout.ms": 3000}) as (_, line):
        first = (await registered(line)).broker_epoch
        beat = broker_heartbeat.BrokerHeartbeatRequest(broker_id=1, broker_epoch=first, current_metadata_offset=first)
        assert not (await line.ask(broker_heartbeat.API, 2, beat)).is_fenced
        assert (await registered(line, incarnation=2)).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        assert (await registered(line, incarnation=1)).broker_epoch == first  # the same one again
        await trio.sleep(3.5)
        assert (await registered(line, incarnation=2)).broker_epoch > first


@pytest.mark.parametrize("levels", [(7, 29), (31, 40)])
async def test_a_broker_that_does_not_know_the_metadata_version_is_refused(
    clock: MockClock, levels: tuple[int, int]
) -> None:
    async with controller() as (_, line):
        refused = await registered(line, levels={**SUPPORTED_FEATURES, "metadata.version": levels})
        assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
        none = {name: found for name, found in SUPPORTED_FEATURES.items() if name != "metadata.version"}
        assert (await registered(line, levels=none)).error_code == ErrorCode.INVALID_REGISTRATION
        assert (await registered(line, levels={**SUPPORTED_FEATURES, "x": (0, 3)})).error_code == 0
        assert (await registered(line, broker_id=2, levels={**SUPPORTED_FEATURES, "x": (1, 3)})).error_code == 35


@pytest.mark.parametrize("version", [12, 17, LATEST])
@pytest.mark.parametrize("epoch", [1, 7])
async def test_a_broker_whose_log_is_longer_is_not_made_to_cut_it(clock: MockClock, version: int, epoch: int) -> None:
    """As after a data directory was deleted while brokers live. It gets neither a leader nor an epoch nor an offset,
    and as late as it would wait for records, so that it does not ask all the time."""
    stderr = io.StringIO()
    async with controller(stderr) as (_, line):
        end_offset = (await fetched(line, fetching())).high_watermark
        request = fetching(end_offset + 90, epoch, seen=end_offset + 90)
        if version < 13:
            request.topics[0].topic = "__cluster_metadata"
            request.topics[0].topic_id = ZERO_UUID
        if version < 15:
            request.replica_id, request.replica_state = 1, fetch.ReplicaState()
        started = trio.current_time()
        ahead = await fetched(line, request, version)
        assert trio.current_time() - started == pytest.approx(WAIT_MS / 1000, abs=0.05)
        assert (ahead.error_code, ahead.records) == (ErrorCode.UNKNOWN_LEADER_EPOCH, b"")
        assert (ahead.diverging_epoch.epoch, ahead.diverging_epoch.end_offset) == (-1, -1)
        assert (ahead.current_leader.leader_id, ahead.current_leader.leader_epoch) == (-1, -1)
        assert (ahead.snapshot_id.end_offset, ahead.high_watermark) == (-1, -1)
        assert (await fetched(line, fetching())).high_watermark == end_offset
    assert f"broker 1 fetches the metadata log from offset {end_offset + 90}" in stderr.getvalue()
    assert "has followed another data directory" in stderr.getvalue()


async def test_a_broker_that_has_records_beyond_ours_that_were_never_committed_cuts_them(clock: MockClock) -> None:
    """Kafka's own case: what is above the high watermark that it has seen may go."""
    async with controller() as (_, line):
        end_offset = (await fetched(line, fetching())).high_watermark
        found = await fetched(line, fetching(end_offset + 5, 1, seen=end_offset - 1))
        assert (found.error_code, found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (0, 1, end_offset)


async def test_half_a_frame_delays_no_other_broker(clock: MockClock) -> None:
    async with controller(configs={"connections.max.idle.ms": 2_000}) as (server, line):
        assert server.controller_bootstrap_servers is not None
        dead = await Line.open(server.controller_bootstrap_servers)
        frame = encode_frame(encode_request(fetch.API, LATEST, 1, "b", fetching()))
        await dead.send(frame[: len(frame) // 2])
        for _ in range(3):
            assert (await fetched(line, fetching())).records
            await trio.sleep(1)
        assert await dead.receive() is None  # closed, because it was idle
        await dead.close()
        assert (await fetched(line, fetching())).records


async def test_a_broker_that_sends_a_byte_at_a_time_is_served_like_others(clock: MockClock) -> None:
    async with controller() as (server, line):
        assert server.controller_bootstrap_servers is not None
        slow = await Line.open(server.controller_bootstrap_servers)
        frames = encode_frame(encode_request(broker_registration.API, 4, 1, "b", registration()))
        frames += encode_frame(encode_request(fetch.API, LATEST, 2, "b", fetching()))
        for at in range(len(frames)):
            await slow.send(frames[at : at + 1])
            if at % 100 == 0:
                assert (await fetched(line, fetching())).records
        assert await slow.receive()
        assert await slow.receive()
        await slow.close()


async def test_a_broker_that_fetches_a_byte_at_a_time_gets_whole_batches_and_comes_to_the_end(clock: MockClock) -> None:
    async with controller() as (_, line):
        whole = await fetched(line, fetching())
        batches = [(batch.base_offset, batch.last_offset) for batch in decode_batches(bytes(whole.records))]
        assert len(batches) > 1
        offset, found = 0, []
        while offset < whole.high_watermark:
            request = fetching(offset)
            request.max_bytes = request.topics[0].partitions[0].partition_max_bytes = 1
            (batch,) = decode_batches(bytes((await fetched(line, request)).records))
            found.append((batch.base_offset, batch.last_offset))
            offset = batch.last_offset + 1
        assert found == batches


async def test_a_broker_that_reads_a_byte_at_a_time_or_not_at_all_delays_no_other(clock: MockClock) -> None:
    async with controller() as (server, line):
        assert server.controller_bootstrap_servers is not None
        expected = (await fetched(line, fetching())).records
        host, _, port = server.controller_bootstrap_servers.rpartition(":")
        frame = encode_frame(encode_request(fetch.API, LATEST, 1, "b", fetching()))
        slow, silent = [await trio.open_tcp_stream(host, int(port)) for _ in range(2)]
        await silent.send_all(frame * 200)
        await slow.send_all(frame)
        size = int.from_bytes(b"".join([await slow.receive_some(1) for _ in range(4)]), "big")
        read = b""
        for _ in range(size):
            read += await slow.receive_some(1)
            if len(read) % 100 == 0:
                started = trio.current_time()
                assert (await fetched(line, fetching())).records == expected
                assert trio.current_time() - started < 0.1
        assert decode_response(fetch.API, LATEST, read)[1].responses[0].partitions[0].records == expected
        for stream in (slow, silent):
            await trio.aclose_forcefully(stream)
