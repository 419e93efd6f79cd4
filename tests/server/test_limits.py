"""How much a connection may hold, how long it may be idle, and which connections are closed when a resource runs
short."""

import dataclasses
import resource
from contextlib import suppress
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, lockstep_stream_pair

from klamm.controller.client import Client
from klamm.protocol.messages.topics import create_topics, metadata
from klamm.server.limits import MIB, ServerLimits
from tests.server.harness import (
    Peer,
    RunningServer,
    api_versions_frame,
    create_topic,
    open_test_server,
    request_frame,
    settled,
)

IDLE_SECONDS = 600
ALL_TOPICS = request_frame(metadata.API, 12, 1, metadata.MetadataRequest(topics=None))


def connect_to_a_client_that_never_reads(running: RunningServer) -> Peer:
    """Nothing that is sent to this client leaves the server before the client reads."""
    ours, theirs = lockstep_stream_pair()
    running.nursery.start_soon(running.server.serve_stream, Client("broker", 1), theirs)
    return Peer(ours)


async def test_a_client_that_never_reads_is_not_read_either(autojump_clock: MockClock) -> None:
    limits = ServerLimits(connection_pending_answers=10)
    async with open_test_server(limits=limits) as running:
        peer = connect_to_a_client_that_never_reads(running)
        sent = 0
        with trio.move_on_after(5):
            while True:
                await peer.send(b"".join(api_versions_frame(sent) for _ in range(20)))
                sent += 20
        answer_bytes = 600
        assert sent == 20, "one chunk was read, and nothing after it"
        assert 0 < running.server.admission.held_bytes < limits.connection_pending_answers * answer_bytes + 20 * 30
        assert await running.connect_in_memory().is_served()


async def test_large_answers_to_a_client_that_never_reads_are_made_one_at_a_time(autojump_clock: MockClock) -> None:
    async with open_test_server(limits=ServerLimits(connection_pending_bytes=100_000)) as running:
        good = running.connect_in_memory()
        await good.ask(create_topics.API, 7, create_topic("wide", 9000))
        peer = connect_to_a_client_that_never_reads(running)
        with trio.move_on_after(5):
            await peer.send(ALL_TOPICS * 100)
        (held,) = (other.held_bytes for other in running.server.admission.connections if other.held_bytes)
        await good.send(ALL_TOPICS)
        one_answer = await good.receive()
        assert one_answer is not None
        assert len(one_answer) <= held < len(one_answer) + 100 * len(ALL_TOPICS)


async def test_an_answer_that_nobody_takes_ends_its_connection_after_a_minute(autojump_clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = connect_to_a_client_that_never_reads(running)
        await peer.send(api_versions_frame(1))
        await trio.sleep(55)
        assert running.server.admission.held_bytes > 0
        await trio.sleep(10)
        assert not running.server.admission.connections
        assert running.server.admission.held_bytes == 0
        assert "stalled connection closed" in running.stderr.getvalue()


@pytest.mark.parametrize("rest_seconds", [55, 65])
async def test_a_client_may_take_its_time_for_each_piece_of_an_answer(
    autojump_clock: MockClock, rest_seconds: int
) -> None:
    """The limit of a minute begins anew with each piece, however long the whole answer takes."""
    async with open_test_server(limits=ServerLimits(send_bytes=1_000)) as running:
        await running.connect_in_memory().ask(create_topics.API, 7, create_topic("wide", 200))
        peer = connect_to_a_client_that_never_reads(running)
        await peer.send(ALL_TOPICS)
        pieces: list[bytes] = []
        while not pieces or len(pieces[-1]) >= 1_000:
            await trio.sleep(rest_seconds)
            try:
                pieces.append(bytes(await peer.stream.receive_some(2_000)))
            except trio.BrokenResourceError:
                pieces.append(b"")
        assert (len(pieces) > 5) is (rest_seconds == 55)
        assert bool(pieces[-1]) is (rest_seconds == 55)


async def test_a_client_that_says_nothing_is_closed_after_the_idle_time(autojump_clock: MockClock) -> None:
    limits = ServerLimits(connections_max_idle_ms=IDLE_SECONDS * 1000)
    async with open_test_server(limits=limits) as running:
        silent, half = running.connect_in_memory(), running.connect_in_memory()
        await half.send(api_versions_frame(1)[:7])
        busy = running.connect_in_memory()
        for _ in range(IDLE_SECONDS // 100 - 1):
            await trio.sleep(100)
            assert await busy.is_served()
        assert len(running.server.admission.connections) == 3
        await trio.sleep(102)
        assert await silent.receive() is None
        assert await half.stream.receive_some() == b""
        assert await busy.is_served()


async def test_a_negative_idle_time_means_for_ever(autojump_clock: MockClock) -> None:
    async with open_test_server(limits=ServerLimits(connections_max_idle_ms=-1)) as running:
        silent = running.connect_in_memory()
        await trio.sleep(1_000)
        assert await silent.is_served()


@pytest.mark.parametrize("trickles", [False, True])
async def test_frames_that_never_end_cannot_fill_the_memory(trickles: bool, autojump_clock: MockClock) -> None:
    """A connection that holds memory without progress is closed; one byte now and then is no progress."""
    limits = ServerLimits(held_bytes=3 * MIB, held_bytes_at_most=100 * MIB)
    async with open_test_server(limits=limits) as running:
        good = running.connect_in_memory()
        bad = [running.connect_in_memory() for _ in range(5)]
        for peer in bad:
            await peer.send((50 * MIB).to_bytes(4, "big") + bytes(MIB - 4))
            await trio.sleep(0.01)
        await settled(lambda: running.server.admission.held_bytes > 4 * MIB)
        for _ in range(40):
            await trio.sleep(0.1)
            assert await good.is_served()
            if trickles:
                for peer in bad:
                    with suppress(trio.BrokenResourceError):
                        await peer.send(b"\0")
        assert 2 * MIB < running.server.admission.held_bytes <= 3 * MIB
        assert await bad[0].receive() is None, "the oldest goes first"
        assert len(running.server.admission.connections) == 1 + (2 if trickles else 3)


async def test_whoever_made_progress_just_now_may_hold_memory_beyond_the_first_bound(autojump_clock: MockClock) -> None:
    limits = ServerLimits(held_bytes=MIB, held_bytes_at_most=100 * MIB, stalled_seconds=20)
    async with open_test_server(limits=limits) as running:
        peer = running.connect_in_memory()
        await peer.send((50 * MIB).to_bytes(4, "big") + bytes(2 * MIB))
        await trio.sleep(limits.stalled_seconds - limits.sweep_seconds)
        assert len(running.server.admission.connections) == 1
        await trio.sleep(2 * limits.sweep_seconds + 1)
        assert await peer.receive() is None


async def test_beyond_the_last_bound_the_longest_stalled_goes_at_once(autojump_clock: MockClock) -> None:
    limits = ServerLimits(held_bytes=3 * MIB, held_bytes_at_most=5 * MIB)
    async with open_test_server(limits=limits) as running:
        bad = [running.connect_in_memory() for _ in range(8)]
        for peer in bad:
            await peer.send((50 * MIB).to_bytes(4, "big") + bytes(MIB - 4))
            await trio.sleep(0.01)
            assert running.server.admission.held_bytes <= 5 * MIB
        assert len(running.server.admission.connections) == 5
        assert await bad[2].receive() is None


async def test_memory_that_much_was_held_in_goes_back_to_the_system(autojump_clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = running.connect_in_memory()
        await peer.send((90 * MIB).to_bytes(4, "big") + bytes(80 * MIB))
        await settled(lambda: running.server.admission.held_bytes == 80 * MIB + 4)
        holding = resident_bytes()
        await peer.aclose()
        await trio.sleep(2)
        assert running.server.admission.held_bytes == 0
        assert resident_bytes() < holding - 40 * MIB


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


async def test_a_frame_up_to_the_maximum_is_taken_and_a_larger_one_is_not() -> None:
    frame = api_versions_frame(1)
    async with open_test_server(limits=ServerLimits(socket_request_max_bytes=len(frame) - 4)) as running:
        peer, other = running.connect_in_memory(), running.connect_in_memory()
        await peer.send(frame)
        assert await peer.receive() is not None
        await other.send((len(frame) - 3).to_bytes(4, "big"))
        assert await other.receive() is None


@pytest.mark.parametrize("bound", ["max_connections", "open_files"])
async def test_one_connection_too_many_takes_the_place_of_the_one_idle_for_the_longest(
    bound: str, autojump_clock: MockClock
) -> None:
    limits = dataclasses.replace(ServerLimits(), **{bound: 3})
    async with open_test_server(limits=limits) as running:
        peers = []
        for _ in range(3):
            peers.append(running.connect_in_memory())
            assert await peers[-1].is_served()
            await trio.sleep(1)
        assert await peers[0].is_served()  # so that the second one has been idle for longest
        newest = running.connect_in_memory()
        assert await newest.is_served()
        assert await peers[1].receive() is None
        assert await peers[0].is_served()
        assert await peers[2].is_served()


async def test_connections_with_something_under_way_are_not_given_up_for_a_new_one(autojump_clock: MockClock) -> None:
    async with open_test_server(limits=ServerLimits(max_connections=1)) as running:
        first = running.connect_in_memory()
        await first.send(api_versions_frame(1)[:7])
        await trio.testing.wait_all_tasks_blocked()
        assert await running.connect_in_memory().receive() is None
        assert "connection refused: there are too many" in running.stderr.getvalue()
        await first.send(api_versions_frame(1)[7:])
        assert await first.receive() is not None


async def test_the_limit_of_connections_counts_for_each_broker(autojump_clock: MockClock) -> None:
    async with open_test_server(limits=ServerLimits(max_connections=1), brokers=2) as running:
        peers = [running.connect_in_memory(Client("broker", broker_id)) for broker_id in (1, 2)]
        assert all([await peer.is_served() for peer in peers])


async def test_leaving_twice_frees_bytes_once() -> None:
    async with open_test_server() as running:
        peer = running.connect_in_memory()
        await peer.send(b"\0\0")
        await settled(lambda: running.server.admission.held_bytes == 2)
        admission = running.server.admission
        (connection,) = admission.connections
        admission.leave(connection)
        admission.leave(connection)
        admission.hold(connection, 1000)
        assert admission.held_bytes == 0


async def test_stopping_waits_for_a_reader_but_not_beyond_the_deadline(autojump_clock: MockClock) -> None:
    ours, theirs = lockstep_stream_pair()
    async with trio.open_nursery() as outliving:
        async with open_test_server(limits=ServerLimits(shutdown_seconds=5)) as running:
            outliving.start_soon(running.server.serve_stream, Client("broker", 1), theirs)
            await ours.send_all(api_versions_frame(1))
            await trio.testing.wait_all_tasks_blocked()
            stopping_at = trio.current_time()
        assert trio.current_time() - stopping_at == pytest.approx(5, abs=0.2)
        outliving.cancel_scope.cancel()


async def test_stopping_does_not_wait_for_idle_clients(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as outliving:
        async with open_test_server() as running:
            ours, theirs = lockstep_stream_pair()
            outliving.start_soon(running.server.serve_stream, Client("broker", 1), theirs)
            peer = Peer(ours)
            assert await peer.is_served()
            stopping_at = trio.current_time()
        assert trio.current_time() == stopping_at
        assert await peer.receive() is None
