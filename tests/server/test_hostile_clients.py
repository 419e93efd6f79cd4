"""Every kind of hostile client of bench/, over sockets: a good client beside them gets correct answers, each kind is
limited or disconnected according to the limits, and after they have left the server holds nothing for them."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
import trio

from bench.hostile_clients import KINDS, Hostile, Tally
from klamm.protocol.messages.topics import create_topics, metadata
from klamm.server.limits import MIB, ServerLimits
from tests.server.harness import Peer, RunningServer, create_topic, open_test_server, settled

EACH = 4
ROUNDS = 10
DEADLINE_SECONDS = 120.0
"""Long, because a loaded machine must not fail the test, and a client that waits for ever must."""
PARTITIONS = 300
THROWN_OUT = ("garbage", "giant")


@asynccontextmanager
async def hostile(running: RunningServer, names: list[str]) -> AsyncIterator[Mapping[str, Tally]]:
    """Hostile clients, the given number of each kind, connected and active during the block."""
    tallies = {name: Tally() for name in names}
    port = running.listeners[0].address.port

    async def connect() -> trio.abc.Stream:
        return await trio.open_tcp_stream("127.0.0.1", port)

    async with trio.open_nursery() as nursery:
        for name in names:
            for seed in range(EACH):
                await nursery.start(Hostile(connect, tallies[name], seed).run, KINDS[name])
        yield tallies
        nursery.cancel_scope.cancel()


async def ask_rightly(peer: Peer, round_number: int) -> None:
    """Create a topic, and read it back."""
    name = f"good-{round_number}"
    made = await peer.ask(create_topics.API, 7, create_topic(name, 3))
    assert [topic.error_code for topic in made.topics] == [0]
    wanted = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=name)])
    (seen,) = (await peer.ask(metadata.API, 12, wanted)).topics
    assert (seen.error_code, seen.name, len(seen.partitions)) == (0, name, 3)
    assert await peer.is_served()


@pytest.mark.parametrize("names", [*([name] for name in KINDS), list(KINDS)], ids="+".join)
async def test_a_good_client_is_answered_rightly_among_hostile_ones(names: list[str]) -> None:
    async with open_test_server() as running:
        good = await running.connect()
        await good.ask(create_topics.API, 7, create_topic("wide", PARTITIONS))
        tasks, files = living_tasks(), open_files()
        async with hostile(running, names) as tallies:
            with trio.fail_after(DEADLINE_SECONDS):
                for number in range(ROUNDS):
                    await ask_rightly(good, number)
                newcomer = await running.connect()
                await ask_rightly(newcomer, ROUNDS)
                await newcomer.aclose()
                for name in set(names) & set(THROWN_OUT):
                    await settled(lambda name=name: tallies[name].shut_out > 0)  # type: ignore[misc]
            assert all(tally.connected >= EACH for tally in tallies.values())
            # Answers that are never read, beginnings of frames that never end, and one request of each kind of client.
            assert running.server.admission.held_bytes <= len(names) * EACH * 3 * MIB
        with trio.fail_after(DEADLINE_SECONDS):
            await settled(lambda: len(running.server.admission.connections) == 1)
            assert running.server.admission.held_bytes == 0
            await ask_rightly(good, ROUNDS + 1)
            await settled(lambda: living_tasks() <= tasks)
            assert open_files() <= files


async def test_clients_that_hold_more_than_there_is_are_thrown_out_and_the_good_one_is_not() -> None:
    """Each giant sends 2 MiB of a frame that never ends. If the limit for all connections is lower, they are closed one
    by one."""
    limits = ServerLimits(held_bytes=1 * MIB, held_bytes_at_most=3 * MIB, stalled_seconds=0.1, sweep_seconds=0.1)
    async with open_test_server(limits=limits) as running:
        good = await running.connect()
        async with hostile(running, ["giant"]) as tallies:
            with trio.fail_after(DEADLINE_SECONDS):
                while tallies["giant"].shut_out < 10 * EACH:
                    await ask_rightly(good, tallies["giant"].shut_out * 1_000 + tallies["giant"].connected)
                    assert running.server.admission.held_bytes <= limits.held_bytes_at_most
        assert await good.is_served()


def living_tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - numbers, not paths
