"""Connections one after another and at once, over sockets: afterwards the number of tasks, descriptors and connections
is the same as before. bench/run --only connections does the same with 10,000 and 1,000 connections, and measures the
time."""

import gc
import os
import resource
import select
import socket
import time
from pathlib import Path

import pytest
import trio

from bench.hostile_clients import RESET_AT_CLOSE
from bench.raw_client import (
    RawClient,
    api_versions_frame,
    count_partitions,
    create_topics_frame,
    refuse_errors,
    topic_metadata_frame,
)
from klamm.cluster.server_process import ServerProcess
from klamm.server.connection import Connection
from klamm.server.listener import ACCEPTED_AT_ONCE, PortListener
from tests.server.harness import LOOPBACK, open_test_server, settled

IN_TURN = 300
AT_ONCE = 200
DEADLINE_SECONDS = 120.0
LOOK_SECONDS = 0.05


def visit(address: tuple[str, int], number: int) -> None:
    """One visit of a client, as in the benchmark."""
    with RawClient(address) as client:
        ask(client, number)


def ask(client: RawClient, number: int) -> None:
    client.exchange(api_versions_frame())
    if number % 20 == 0:
        refuse_errors(client.exchange(create_topics_frame(f"visit-{number}", 1, 1)).payload)
    assert count_partitions(client.exchange(topic_metadata_frame("visit-0")).payload) == 1


def files_of(process: int | str) -> int:
    return len(os.listdir(f"/proc/{process}/fd"))  # noqa: PTH208 - numbers, not paths


async def test_in_turn_and_at_once_leave_no_task_and_no_descriptor() -> None:
    async with open_test_server() as running:
        port = running.listeners[0].address.port
        await trio.to_thread.run_sync(visit, ("127.0.0.1", port), 0)
        await settled(lambda: not running.server.admission.connections)
        await trio.testing.wait_all_tasks_blocked()
        tasks, files = living_tasks(), files_of("self")
        for number in range(1, IN_TURN):
            await trio.to_thread.run_sync(visit, ("127.0.0.1", port), number)
        peers = [await running.connect() for _ in range(AT_ONCE)]
        for peer in peers:
            assert await peer.is_served()
        assert len(running.server.admission.connections) == AT_ONCE
        for peer in peers:
            await peer.aclose()
        with trio.fail_after(DEADLINE_SECONDS):
            await settled(lambda: living_tasks() <= tasks and files_of("self") <= files)
        assert not running.server.admission.connections
        gc.collect()
        assert not [thing for thing in gc.get_objects() if isinstance(thing, Connection)]
        assert not any(running.server.admission._of_brokers.values())


def living_tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


def test_a_server_process_has_as_many_descriptors_afterwards_as_before() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft > AT_ONCE + 100 or hard > AT_ONCE + 100
    with ServerProcess() as server:
        host, _, port = server.bootstrap_servers.split(",")[0].rpartition(":")
        address = (host, int(port))
        visit(address, 0)
        before = files_when_quiet(server.process_id, 1 << 20)
        for number in range(1, IN_TURN):
            visit(address, number)
        clients = [RawClient(address) for _ in range(AT_ONCE)]
        for number, client in enumerate(clients, IN_TURN):
            ask(client, number)
        assert files_of(server.process_id) >= before + AT_ONCE
        for client in clients:
            client.__exit__(None, None, None)
        assert files_when_quiet(server.process_id, before) <= before
        threads = len(list(Path(f"/proc/{server.process_id}/task").iterdir()))
        assert threads < 20, "no thread belongs to a connection"


def files_when_quiet(process_id: int, at_most: int) -> int:
    """The number of open files once it is not above the wanted number and no longer changes; or the number at the
    deadline."""
    give_up_at = time.monotonic() + DEADLINE_SECONDS
    before, count = -1, files_of(process_id)
    while (count > at_most or count != before) and time.monotonic() < give_up_at:
        select.select([], [], [], LOOK_SECONDS)  # The other process runs meanwhile.
        before, count = count, files_of(process_id)
    return count


async def test_a_burst_is_accepted_while_others_are_served() -> None:
    """A queue of connections that are closed already does not delay a good client at its end."""
    async with open_test_server() as running:
        port = running.listeners[0].address.port
        good = await running.connect()
        for _ in range(20 * ACCEPTED_AT_ONCE):  # The scheduler does not run in between, so no connection is accepted.
            sock = socket.create_connection(("127.0.0.1", port))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
            sock.close()
        assert await good.is_served()
        with trio.fail_after(DEADLINE_SECONDS):
            newcomer = await running.connect()
            assert await newcomer.is_served()
            await settled(lambda: len(running.server.admission.connections) == 2)


@pytest.mark.parametrize("round_number", range(10))
async def test_a_listener_that_closes_while_somebody_connects_ends_in_peace(round_number: int) -> None:
    """The listener may have been notified of that connection already."""
    listener = PortListener(LOOPBACK)
    listener.open()
    with trio.fail_after(DEADLINE_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listener.serve, end, nursery, refuse, lambda: ACCEPTED_AT_ONCE)
            await trio.testing.wait_all_tasks_blocked()
            with socket.create_connection(("127.0.0.1", listener.address.port)):
                for _ in range(round_number % 3):
                    await trio.lowlevel.checkpoint()
                listener.close()
        assert not listener.is_open


async def end(stream: trio.SocketStream) -> None:
    await trio.aclose_forcefully(stream)


def refuse(shortage: OSError) -> None:
    raise AssertionError("nothing is short") from shortage
