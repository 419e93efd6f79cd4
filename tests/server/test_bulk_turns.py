"""Large responses are sent by a few connections at a time. A client that reads slowly does not hold up the others."""

import math

import trio
from trio.testing import MockClock, lockstep_stream_pair, wait_all_tasks_blocked

from klamm.controller.client import Client
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.data import fetch
from klamm.protocol.messages.topics import create_topics
from klamm.server.bulk_turns import SENDERS, TURN_SECONDS, BulkTurns
from klamm.server.limits import ServerLimits
from tests.server.harness import RunningServer, create_topic, open_test_server, request_frame
from tests.server.test_observers import fetched, fetching

SMALL_PIECES = ServerLimits(send_bytes=1_000)
SLOW_CLIENTS = 3 * SENDERS


class Sending:
    """Connections that send until they are allowed to end."""

    def __init__(self, turns: BulkTurns) -> None:
        self.turns = turns
        self.began: list[int] = []
        self.may_end = [trio.Event() for _ in range(4 * SENDERS)]
        self.has_made = trio.Event()

    async def send(self, number: int) -> None:
        async with self.turns.turn():
            self.began.append(number)
            await self.may_end[number].wait()

    async def make(self) -> None:
        """Make a response when few connections wait for a turn."""
        await self.turns.few_wait()
        self.has_made.set()

    async def start(self, nursery: trio.Nursery, numbers: range) -> None:
        for number in numbers:
            nursery.start_soon(self.send, number)
            await wait_all_tasks_blocked()


async def test_a_few_send_at_a_time_in_the_order_in_which_they_asked(mock_clock: MockClock) -> None:
    sending = Sending(BulkTurns())
    async with trio.open_nursery() as nursery:
        await sending.start(nursery, range(SENDERS + 3))
        assert sending.began == list(range(SENDERS))
        sending.may_end[1].set()
        await wait_all_tasks_blocked()
        assert sending.began == list(range(SENDERS + 1))
        nursery.cancel_scope.cancel()


async def test_a_turn_ends_after_its_time_although_the_client_has_not_taken_all(mock_clock: MockClock) -> None:
    sending = Sending(BulkTurns())
    async with trio.open_nursery() as nursery:
        await sending.start(nursery, range(2 * SENDERS + 1))
        mock_clock.jump(TURN_SECONDS * 0.9)
        await wait_all_tasks_blocked()
        assert sending.began == list(range(SENDERS))
        mock_clock.jump(TURN_SECONDS * 0.2)
        await wait_all_tasks_blocked()
        assert sending.began == list(range(2 * SENDERS))
        sending.may_end[0].set()  # one whose turn is over makes no room when it ends
        await wait_all_tasks_blocked()
        assert sending.began == list(range(2 * SENDERS))
        nursery.cancel_scope.cancel()


async def test_a_connection_that_closes_makes_room(mock_clock: MockClock) -> None:
    sending = Sending(BulkTurns())
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as closing:
            await sending.start(closing, range(SENDERS))
            closing.cancel_scope.cancel()
        await sending.start(nursery, range(SENDERS, SENDERS + 1))
        assert sending.began[-1] == SENDERS
        nursery.cancel_scope.cancel()


async def test_responses_are_made_while_few_wait_for_a_turn(mock_clock: MockClock) -> None:
    sending = Sending(BulkTurns())
    async with trio.open_nursery() as nursery:
        # One of those that wait for a turn has the lock, and is not among the tasks that wait for the lock.
        await sending.start(nursery, range(2 * SENDERS + 1))
        await sending.turns.few_wait()
        await sending.start(nursery, range(2 * SENDERS + 1, 2 * SENDERS + 2))
        nursery.start_soon(sending.make)
        await wait_all_tasks_blocked()
        assert not sending.has_made.is_set()
        sending.may_end[0].set()
        await wait_all_tasks_blocked()
        assert sending.has_made.is_set()
        nursery.cancel_scope.cancel()


async def test_connections_that_close_while_they_wait_hold_up_no_response(mock_clock: MockClock) -> None:
    sending = Sending(BulkTurns())
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as closing:
            await sending.start(closing, range(3 * SENDERS))
            nursery.start_soon(sending.make)
            await wait_all_tasks_blocked()
            assert not sending.has_made.is_set()
            closing.cancel_scope.cancel()
        with trio.fail_after(1):
            await sending.has_made.wait()


async def test_a_connection_that_waits_for_its_turn_is_not_stalled(mock_clock: MockClock) -> None:
    async with open_test_server(limits=SMALL_PIECES) as running:
        await make_large_log(running)
        slow = [await slow_observer(running) for _ in range(SENDERS + 1)]
        await wait_all_tasks_blocked()
        assert sorted(progress_of(running)) == [*[trio.current_time()] * SENDERS, math.inf]
        mock_clock.jump(TURN_SECONDS)
        await wait_all_tasks_blocked()
        assert max(progress_of(running)) == trio.current_time()
        for stream in slow:
            await stream.aclose()


def progress_of(running: RunningServer) -> list[float]:
    """When each connection that holds bytes made progress."""
    return [one.progressed_at for one in running.server.admission.connections if one.held_bytes]


async def make_large_log(running: RunningServer) -> None:
    for number in range(30):
        await running.connect_in_memory().ask(create_topics.API, 7, create_topic(f"topic-{number:050}"))
    assert len(running.log.log_bytes()) > 2 * SMALL_PIECES.send_bytes


async def slow_observer(running: RunningServer) -> trio.abc.Stream:
    """An observer that has asked for the log, and has read nothing yet."""
    ours, theirs = lockstep_stream_pair()  # the server's `send_all` returns when the client has read
    running.nursery.start_soon(running.server.serve_stream, Client("controller"), theirs, None)
    await ours.send_all(request_frame(fetch.API, 18, 1, fetching(running, 0)))
    return ours


async def test_observers_that_do_not_read_hold_up_nobody() -> None:
    async with open_test_server(limits=SMALL_PIECES, large_in_threads=True) as running:
        await make_large_log(running)
        slow = [await slow_observer(running) for _ in range(SLOW_CLIENTS)]
        with trio.fail_after(10):
            read = await fetched(await running.connect_to_controller(), fetching(running, 0))
            assert read.records == running.log.log_bytes()
            small = await running.connect_in_memory().ask(api_versions.API, 0, api_versions.ApiVersionsRequest())
        assert small.error_code == 0
        for stream in slow:
            await stream.aclose()
