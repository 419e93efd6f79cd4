"""A client with one request at a time is served soon, however many requests other clients send at once, and every
waiting request is counted."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from typing import Any

import trio
from trio.testing import MockClock

from klamm.controller.core import Controller
from klamm.protocol.codec.frames import SIZE_BYTES
from klamm.protocol.messages.data import fetch, produce
from klamm.protocol.messages.topics import create_topics
from klamm.protocol.records.configs import ConfigRecord
from klamm.server.limits import ServerLimits
from klamm.server.pending_answer import WAITING_BYTES_PER_KEY
from klamm.server.turns import TURNS_BETWEEN_STEPS
from tests.server.harness import (
    Peer,
    RunningServer,
    api_versions_frame,
    correlation_ids,
    create_topic,
    open_test_server,
    request_frame,
    settled,
)
from tests.server.slow_disks import make_slow_log

GREEDY = 20
AT_ONCE = 500


class Greedy:
    """Sends thousands of requests in a row, reads the answers and counts them."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.answers: list[bytes] = []

    async def send(self) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self.peer.send(b"".join(api_versions_frame(number) for number in range(AT_ONCE)))

    async def receive(self) -> None:
        with suppress(trio.ClosedResourceError):
            while frame := await self.peer.receive():
                self.answers.append(frame)


@asynccontextmanager
async def greedy_clients(running: RunningServer) -> AsyncIterator[list[Greedy]]:
    clients = [Greedy(running.connect_in_memory()) for _ in range(GREEDY)]
    async with trio.open_nursery() as nursery:
        for client in clients:
            nursery.start_soon(client.receive)
            nursery.start_soon(client.send)
        await settled(lambda: all(client.answers for client in clients))
        yield clients
        nursery.cancel_scope.cancel()


async def test_one_question_does_not_wait_for_what_others_asked_at_once(autojump_clock: MockClock) -> None:
    """The server has 10,000 unread requests; it answers few of them before the request of the other client."""
    async with open_test_server() as running:
        good = running.connect_in_memory()
        assert await good.is_served()
        async with greedy_clients(running) as greedy:
            before = sum(len(client.answers) for client in greedy)
            assert await good.is_served()
            meanwhile = sum(len(client.answers) for client in greedy) - before
        limits = ServerLimits()
        # One turn in each round of the scheduler. A request and its answer take a few rounds.
        assert before < GREEDY * AT_ONCE / 2, "the test came too late"
        assert meanwhile <= 20 * limits.turn_requests


async def test_all_who_ask_much_get_their_answers_in_order_and_none_is_forgotten(autojump_clock: MockClock) -> None:
    async with open_test_server() as running, greedy_clients(running) as greedy:
        halfway: list[int] = []
        with trio.fail_after(600):
            while min(len(client.answers) for client in greedy) < AT_ONCE:
                await trio.lowlevel.checkpoint()
                if not halfway and sum(len(client.answers) for client in greedy) > GREEDY * AT_ONCE / 2:
                    halfway = [len(client.answers) for client in greedy]
        for client in greedy:
            assert correlation_ids(client.answers) == list(range(AT_ONCE))
        assert max(halfway) - min(halfway) <= 4 * 64, "turns go round"


async def test_requests_without_answers_take_turns_too(autojump_clock: MockClock) -> None:
    """Produce with acks=0 has no answer, so only turns let other clients in between."""
    request = produce.ProduceRequest(acks=0, timeout_ms=1000, topic_data=())
    frame = request_frame(produce.API, 9, 1, request)
    async with open_test_server(limits=ServerLimits(receive_bytes=1 << 20)) as running:
        good, bad = running.connect_in_memory(), running.connect_in_memory()
        assert await good.is_served()
        await bad.send(frame * 5_000 + api_versions_frame(7))
        with trio.fail_after(600):
            assert await good.is_served()
            assert running.server.admission.held_bytes > 1_000 * len(frame), "all of it was handled first"
            answer = await bad.receive()
        assert answer is not None
        assert correlation_ids([answer]) == [7]


async def test_a_client_that_goes_while_it_waits_for_its_turn_holds_nobody_up(autojump_clock: MockClock) -> None:
    async with open_test_server() as running:
        async with greedy_clients(running) as greedy:
            for client in greedy[::2]:
                await client.peer.aclose()
            for client in greedy[1::2]:
                await settled(lambda client=client: len(client.answers) == AT_ONCE)  # type: ignore[misc]
        assert await running.connect_in_memory().is_served()


async def test_a_request_that_waits_counts_as_what_it_takes(autojump_clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = running.connect_in_memory()
        await peer.ask(create_topics.API, 7, create_topic("orders", 2))
        topic_id = running.controller.image.topics_by_name["orders"].topic_id
        partitions = [fetch.FetchPartition(partition=index, partition_max_bytes=1000) for index in range(2)]
        request = fetch.FetchRequest(
            max_wait_ms=30_000, min_bytes=1, topics=[fetch.FetchTopic(topic_id=topic_id, partitions=partitions)]
        )
        frame = request_frame(fetch.API, 17, 1, request)
        await peer.send(frame)
        await trio.sleep(1)
        held = running.server.admission.held_bytes
        assert held == len(frame) - SIZE_BYTES + 2 * WAITING_BYTES_PER_KEY
        await trio.sleep(30)
        assert await peer.receive() is not None
        assert running.server.admission.held_bytes == 0


class Working(Controller):
    """Has background work of a few steps, and stores how many turns of the scheduler had passed at each step."""

    steps_left = 0
    turns = 0

    def __init__(self, *args: Any, **arguments: Any) -> None:
        self.worked_at: list[int] = []
        super().__init__(*args, **arguments)

    @property
    def has_work(self) -> bool:
        return self.steps_left > 0 or super().has_work

    def work(self) -> None:
        if self.steps_left:
            self.steps_left -= 1
            self.worked_at.append(self.turns)
        super().work()


async def test_others_have_their_turns_before_each_step_of_background_work(mock_clock: MockClock) -> None:
    """Also before the first step, because the tick that found the work has just done one."""
    async with open_test_server(controller_class=Working) as running, trio.open_nursery() as nursery:
        controller = running.controller
        assert isinstance(controller, Working)

        @nursery.start_soon
        async def count_turns() -> None:
            while True:
                await trio.lowlevel.checkpoint()
                controller.turns += 1

        controller.steps_left = 3
        mock_clock.jump(ServerLimits().tick_seconds)
        ticked_at = controller.turns
        await settled(lambda: not controller.steps_left)
        gaps = [later - earlier for earlier, later in pairwise([ticked_at, *controller.worked_at])]
        assert min(gaps) >= TURNS_BETWEEN_STEPS
        nursery.cancel_scope.cancel()


class Writing(Controller):
    """Has background work of three steps, each of which logs a record."""

    steps_left = 0

    @property
    def has_work(self) -> bool:
        return self.steps_left > 0 or super().has_work

    def work(self) -> None:
        if self.steps_left:
            self.steps_left -= 1
            name = f"c{self.steps_left}"
            self._commit([ConfigRecord(resource_type=4, resource_name="1", name=name, value="v")])
        super().work()


async def test_what_background_work_logs_becomes_durable_without_another_tick(mock_clock: MockClock) -> None:
    log = make_slow_log()
    async with open_test_server(controller_class=Writing, log=log) as running:
        assert isinstance(running.controller, Writing)
        running.controller.steps_left = 3
        end_offset = log.end_offset
        mock_clock.jump(ServerLimits().tick_seconds)
        await settled(lambda: log.end_offset == end_offset + 3)
        await settled(lambda: log.durable_offset == end_offset + 3)
