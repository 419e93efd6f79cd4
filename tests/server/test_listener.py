"""Ports: opened and closed, counted up, and kept when the process runs out of file descriptors."""

import os
import resource
import socket

import pytest
import trio
import trio.testing

from klamm.server.addresses import Address
from klamm.server.listener import ACCEPTED_AT_ONCE, ROOM_FOR_ONE_MORE, PortListener, PortTaken, open_listeners
from tests.server.harness import LOOPBACK, Peer, open_test_server, settled


def can_connect(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


async def test_a_listener_closes_for_real_and_opens_again_on_its_port() -> None:
    listener = PortListener(LOOPBACK)
    ports = []
    for _ in range(3):
        listener.open()
        ports.append(listener.address.port)
        assert can_connect(ports[-1])
        listener.close()
        assert not can_connect(ports[-1])
    assert len(set(ports)) == 1


async def test_a_listener_that_pauses_keeps_its_port() -> None:
    listener = PortListener(LOOPBACK)
    for _ in range(3):
        listener.open()
        assert can_connect(listener.address.port)
        listener.pause()
        assert not listener.is_open
        assert not can_connect(listener.address.port)
        with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
            other.bind(("127.0.0.1", listener.address.port))
    listener.close()
    with socket.socket() as other:
        other.bind(("127.0.0.1", listener.address.port))


async def test_a_port_may_be_wrested_from_who_pauses_and_comes_back() -> None:
    """`SO_REUSEADDR` allows that. The error message is short, and the next attempt may succeed."""
    listener = PortListener(LOOPBACK)
    listener.open()
    listener.pause()
    with (
        socket.create_server(("127.0.0.1", listener.address.port)),
        pytest.raises(PortTaken, match=f"127.0.0.1:{listener.address.port}: Address already in use"),
    ):
        listener.open()
    listener.open()
    assert can_connect(listener.address.port)
    listener.close()


async def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
            open_listeners(Address("127.0.0.1", port), 1)


async def test_when_one_port_of_several_is_taken_none_stays_open() -> None:
    first = free_ports_in_a_row(3)
    with socket.create_server(("127.0.0.1", first + 2)), pytest.raises(PortTaken, match=str(first + 2)):
        open_listeners(Address("127.0.0.1", first), 3)
    assert not can_connect(first)


async def test_listeners_take_the_ports_after_the_first() -> None:
    first = free_ports_in_a_row(3)
    listeners = open_listeners(Address("127.0.0.1", first), 3)
    assert [listener.address.port for listener in listeners] == [first, first + 1, first + 2]
    for listener in listeners:
        listener.close()


async def test_ports_end_at_65535() -> None:
    with pytest.raises(PortTaken, match=r"3 brokers from 127\.0\.0\.1:65534 on need ports beyond 65535"):
        open_listeners(Address("127.0.0.1", 65534), 3)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "203.0.113.7"])
async def test_an_address_that_is_not_ours_is_named(host: str) -> None:
    with pytest.raises(PortTaken, match=f"cannot listen on {host}:0: "):
        open_listeners(Address(host, 0), 1)


async def beginnings(room: int) -> tuple[list[object], list[object]]:
    """The clients that connect to a listener, and the order in which it begins to serve them."""
    listener = PortListener(LOOPBACK)
    listener.open()
    clients = [socket.create_connection((LOOPBACK.host, listener.address.port)) for _ in range(ACCEPTED_AT_ONCE)]
    begun: list[object] = []
    async with trio.open_nursery() as nursery:

        async def begin(stream: trio.SocketStream) -> None:
            begun.append(stream.socket.getpeername())
            await stream.aclose()
            if len(begun) == len(clients):
                nursery.cancel_scope.cancel()

        def refuse(error: OSError) -> None:
            raise AssertionError(str(error))

        nursery.start_soon(listener.serve, begin, nursery, refuse, lambda: room)
    listener.close()
    connected: list[object] = []
    for client in clients:
        connected.append(client.getsockname())
        client.close()
    return connected, begun


async def test_accepted_one_by_one_they_begin_in_their_order() -> None:
    """So a limit refuses the last ones. Connections that are accepted together begin in either order, because trio
    reverses half of its rounds; therefore the test repeats."""
    for room in [0] * 20:
        connected, begun = await beginnings(room)
        assert begun == connected
    connected, begun = await beginnings(ACCEPTED_AT_ONCE * ROOM_FOR_ONE_MORE)
    assert set(begun) == set(connected)


def free_ports_in_a_row(count: int) -> int:
    """The first of `count` consecutive ports that are free now, outside of the range from which the system assigns
    ports. Processes with neighbouring ids, such as those of pytest-xdist, search far from each other."""
    for first in range(20_000 + os.getpid() * 101 % 9_000, 30_000):
        try:
            for port in range(first, first + count):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return first
    raise AssertionError("no free ports")


async def test_running_out_of_files_is_survived_and_idle_connections_make_room() -> None:
    async with open_test_server() as running:
        idle = await running.connect()
        assert await idle.is_served()
        await trio.to_thread.run_sync(lambda: None)  # The thread has opened its own files by now.
        waiting = trio.socket.socket()
        running.peers.append(Peer(trio.SocketStream(waiting)))
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = max(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208 - numbers, not paths
        blockers = fill_gaps_below(highest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, limits[1]))
        try:
            await waiting.connect(("127.0.0.1", running.listeners[0].address.port))
            await settled(lambda: "connections cannot be accepted" in running.stderr.getvalue())
            assert "Too many open files" in running.stderr.getvalue()
            assert await idle.receive() is None
            assert await running.peers[-1].is_served()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            for blocker in blockers:
                os.close(blocker)


def fill_gaps_below(highest: int) -> list[int]:
    """Open files until every descriptor up to `highest` is in use."""
    blockers: list[int] = []
    while not blockers or blockers[-1] <= highest:
        blockers.append(os.open(os.devnull, os.O_RDONLY))
    os.close(blockers.pop())
    return blockers


async def test_a_listener_closed_and_opened_before_it_was_served_accepts_each_connection_once() -> None:
    """Each `open` starts a task of its own, which may run after the next `open`."""
    listener = PortListener(LOOPBACK)
    begun: list[object] = []

    async def begin(stream: trio.SocketStream) -> None:
        begun.append(stream.socket.getpeername())
        await stream.aclose()

    def refuse(error: OSError) -> None:
        raise AssertionError(str(error))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            listener.close()
            listener.open()
            nursery.start_soon(listener.serve, begin, nursery, refuse, lambda: ROOM_FOR_ONE_MORE)
        await trio.testing.wait_all_tasks_blocked()
        with socket.create_connection((LOOPBACK.host, listener.address.port)) as client:
            await settled(lambda: bool(begun))
            assert begun == [client.getsockname()]
        listener.close()


async def test_a_listener_that_admits_nobody_ends_when_it_is_closed() -> None:
    listener, accepted = PortListener(LOOPBACK), []

    async def serve(stream: trio.SocketStream) -> None:
        accepted.append(stream)
        await stream.aclose()

    for may_connect in (True, False, True):
        admitted = trio.Event()

        async def admit(admitted: trio.Event = admitted, may_connect: bool = may_connect) -> bool:
            admitted.set()
            if not may_connect:
                await trio.sleep_forever()
            return True

        accepted.clear()
        listener.open()
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(listener.serve, serve, nursery, lambda _: None, lambda: 1, admit)
                with socket.create_connection(("127.0.0.1", listener.address.port)):
                    await admitted.wait()
                    await settled(lambda: bool(accepted) or not may_connect)  # noqa: B023
                listener.close()
        assert len(accepted) == may_connect
