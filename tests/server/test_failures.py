"""Failures in one part of a server that must not affect others: ticks, connections, brokers that may not register."""

import io
import resource
from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from klamm.controller.client import Client
from klamm.controller.core import Call
from klamm.protocol.messages.brokers import broker_heartbeat
from klamm.protocol.messages.data import produce
from klamm.server import admission, brokers
from klamm.server.brokers import BrokerTimedOut
from klamm.server.bug_answers import unknown_server_error
from klamm.server.event_log import EventLog
from klamm.server.limits import UNLIMITED
from klamm.server.ticker import Ticker
from tests.server.harness import open_test_server

TICK_SECONDS = 0.5


class Fatal(Exception):
    """An error that must stop the server."""


async def test_a_function_that_fails_at_a_tick_stops_neither_the_others_nor_the_next_tick(
    autojump_clock: MockClock,
) -> None:
    stderr, called = io.StringIO(), list[tuple[str, float]]()

    def note(name: str) -> Callable[[float], None]:
        return lambda now: called.append((name, now))

    def fail(now: float) -> None:
        note("fails")(now)
        raise ZeroDivisionError("planted")

    ticker = Ticker((note("before"), fail, note("behind")), TICK_SECONDS, EventLog("console", stderr), (Fatal,))
    began = trio.current_time()
    with trio.move_on_after(2.25 * TICK_SECONDS):
        await ticker.tick_forever()
    times = [began + TICK_SECONDS, began + 2 * TICK_SECONDS]
    assert [name for name, _ in called] == 2 * ["before", "fails", "behind"]
    assert [now for _, now in called[::3]] == pytest.approx(times)
    assert stderr.getvalue().count("bug: tick failed") == 1, "rarely"
    assert "ZeroDivisionError: planted" in stderr.getvalue()


async def test_of_ticks_that_were_missed_one_is_made_up_for(mock_clock: MockClock) -> None:
    ticked: list[float] = []
    ticker = Ticker((ticked.append,), TICK_SECONDS, EventLog("console", io.StringIO()), (Fatal,))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ticker.tick_forever)
        began = trio.current_time()
        for jump in (1, 10, 1):
            await trio.testing.wait_all_tasks_blocked()
            mock_clock.jump(jump * TICK_SECONDS)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    # One tick does the work of all that were missed.
    assert ticked == [pytest.approx(began + place * TICK_SECONDS) for place in (1, 11, 11, 12)]


async def test_a_fatal_error_at_a_tick_is_raised(autojump_clock: MockClock) -> None:
    def fail(_now: float) -> None:
        raise Fatal

    with pytest.raises(Fatal):
        await Ticker((fail,), TICK_SECONDS, EventLog("console", io.StringIO()), (Fatal,)).tick_forever()


class BrokenStream(trio.abc.Stream):
    """Raises errors that no stream may raise."""

    is_closed = False

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        raise ZeroDivisionError("planted")

    async def send_all(self, data: object) -> None: ...

    async def wait_send_all_might_not_block(self) -> None: ...

    async def aclose(self) -> None:
        self.is_closed = True


async def test_a_connection_that_fails_is_told_with_its_broker_and_ends_alone() -> None:
    async with open_test_server(brokers=2, has_bugs=True) as running:
        other, stream = running.connect_in_memory(), BrokenStream()
        assert await other.is_served()
        await running.server.serve_stream(Client("broker", 2), stream)
        assert stream.is_closed
        assert "bug: connection failed" in running.stderr.getvalue()
        assert "broker_id=2" in running.stderr.getvalue()
        assert len(running.server.admission.connections) == 1
        assert await other.is_served()


async def test_an_error_inside_of_the_block_ends_the_server_and_is_raised() -> None:
    seen = []

    async def fail_inside() -> None:
        async with open_test_server() as running:
            seen.append(running)
            assert await (await running.connect()).is_served()
            raise Fatal

    with pytest.raises(ExceptionGroup) as raised:
        await fail_inside()
    (running,) = seen
    assert raised.group_contains(Fatal)
    assert running.log.durable_offset == running.log.end_offset
    assert not running.listeners[0].is_open


async def test_a_broker_that_is_not_let_in_for_minutes_is_given_up(autojump_clock: MockClock) -> None:
    """Another process sends heartbeats for the incarnation that crashed."""
    async with open_test_server(brokers=2) as running, trio.open_nursery() as nursery:
        peer = await running.connect_to_controller()
        known = running.controller.image.brokers[2]

        @nursery.start_soon
        async def beat() -> None:
            while True:
                request = broker_heartbeat.BrokerHeartbeatRequest(
                    broker_id=2, broker_epoch=known.broker_epoch, current_metadata_offset=running.log.end_offset
                )
                await peer.ask(broker_heartbeat.API, 1, request)
                await trio.sleep(1)

        await running.server.stop_broker(2, mode="crash")
        began = trio.current_time()
        with pytest.raises(BrokerTimedOut, match="broker 2 could not register within 300 s"):
            await running.server.start_broker(2)
        assert trio.current_time() - began == pytest.approx(brokers.GIVE_UP_SECONDS, abs=1)
        assert not running.listeners[1].is_open
        assert set(running.server.brokers.data.down) == {2}
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("soft", "allowed"), [(resource.RLIM_INFINITY, UNLIMITED), (1024, 1024)], ids=["unlimited", "limited"]
)
def test_as_many_files_may_be_open_as_the_soft_limit_says(
    monkeypatch: pytest.MonkeyPatch, soft: int, allowed: int
) -> None:
    set_to: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (soft, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: set_to.append((which, limits)))
    assert admission.open_files_allowed() == allowed
    admission.raise_open_files_limit()
    assert set_to == [(resource.RLIMIT_NOFILE, (4096, 4096))]


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_a_bug_has_no_answer_where_none_is_expected(acks: int) -> None:
    request = produce.ProduceRequest(acks=acks, topic_data=[produce.TopicProduceData(name="t")])
    assert (unknown_server_error(Call(produce.API, 9, request, broker_id=1)) is None) is (acks == 0)
