"""What an idle server does: it leaves out ticks at which nothing is due, and waiting fetches cost nothing meanwhile."""

import io
from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from klamm.controller.client import Client
from klamm.protocol.messages.data import fetch
from klamm.protocol.messages.topics import create_topics
from klamm.protocol.uuid import METADATA_TOPIC_ID
from klamm.server.event_log import EventLog
from klamm.server.ticker import Ticker
from tests.server.checked_ticks import check_ticks
from tests.server.harness import RunningServer, create_topic, metadata_frame, open_test_server, request_frame

TICK_SECONDS = 0.1


class Wakes(trio.abc.Instrument):
    """Counts how often the event loop waits."""

    count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += timeout > 0


async def ticks_until(seconds: float, next_due: Callable[[float], float], touch_at: float | None = None) -> list[float]:
    """The times of ticks, in seconds since the start."""
    began, ticked = trio.current_time(), list[float]()
    ticker = Ticker(
        (lambda now: ticked.append(round(now - began, 3)),),
        TICK_SECONDS,
        EventLog("console", io.StringIO()),
        (),
        lambda now: began + next_due(round(now - began, 3)),
    )
    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ticker.tick_forever)
            if touch_at is not None:
                await trio.sleep_until(began + touch_at)
                ticker.touch()
    return ticked


async def test_ticks_are_left_out_until_something_is_due(autojump_clock: MockClock) -> None:
    """Those that remain are where they would be without it, the first one at or after the time."""
    assert await ticks_until(3, lambda now: now + 0.75) == [0.8, 1.6, 2.4]
    assert await ticks_until(0.35, lambda now: now) == [0.1, 0.2, 0.3]
    assert await ticks_until(9, lambda _now: float("inf")) == []


async def test_a_touch_brings_the_next_tick(autojump_clock: MockClock) -> None:
    assert await ticks_until(9, lambda _now: float("inf"), touch_at=0.42) == [0.5]
    assert await ticks_until(9, lambda now: 5.0 if now < 5 else float("inf"), touch_at=0.42) == [0.5, 5.0]


async def test_a_touch_during_a_tick_brings_another_one(autojump_clock: MockClock) -> None:
    ticked: list[float] = []

    def tick(now: float) -> None:
        ticked.append(round(now - began, 3))
        if len(ticked) == 1:
            ticker.touch()

    began = trio.current_time()
    ticker = Ticker((tick,), TICK_SECONDS, EventLog("console", io.StringIO()), (), lambda _now: began + 0.7)
    with trio.move_on_after(0.75):
        await ticker.tick_forever()
    assert ticked == [0.7]
    ticker.touch()
    began, ticked[:] = trio.current_time(), []
    with trio.move_on_after(0.75):
        await ticker.tick_forever()
    assert ticked[:2] == [0.1, 0.2]


async def test_an_idle_server_wakes_for_heartbeats_and_sweeps_alone(autojump_clock: MockClock) -> None:
    """Three brokers send a heartbeat each two seconds, and connections are swept each second."""
    async with open_test_server(brokers=3):
        await trio.sleep(5)
        wakes = Wakes()
        trio.lowlevel.add_instrument(wakes)
        await trio.sleep(60)
        trio.lowlevel.remove_instrument(wakes)
        assert wakes.count <= 60 * 1 + 3 * 60 / 2 + 5


def metadata_fetch(offset: int, epoch: int) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        current_leader_epoch=epoch, fetch_offset=offset, last_fetched_epoch=epoch, partition_max_bytes=1 << 20
    )
    return fetch.FetchRequest(
        replica_state=fetch.ReplicaState(replica_id=7),
        max_wait_ms=500,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[fetch.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


async def test_an_observer_that_waits_is_woken_by_records_alone(mock_clock: MockClock) -> None:
    """Other clients' requests, which write nothing, do not wake it."""
    async with open_test_server() as running:
        observer = running.connect_in_memory(Client("controller", None))
        await wait_all_tasks_blocked()
        end, epoch = running.log.end_offset, running.controller.identity.leader_epoch
        await observer.send(request_frame(fetch.API, 17, 1, metadata_fetch(end, epoch)))
        await wait_all_tasks_blocked()
        (parked,) = running.server._flusher._observers._parked
        steps: list[object] = []

        class Steps(trio.abc.Instrument):
            def before_task_step(self, task: trio.lowlevel.Task) -> None:
                if task is parked:
                    steps.append(task)

        trio.lowlevel.add_instrument(instrument := Steps())
        other = running.connect_in_memory()
        for number in range(3):
            await other.send(metadata_frame(number))
            assert await other.receive()
        assert not steps
        await other.ask(create_topics.API, 7, create_topic("t"))
        await wait_all_tasks_blocked()
        trio.lowlevel.remove_instrument(instrument)
        assert steps


def is_live(running: RunningServer) -> bool:
    return running.controller.image.brokers[1].live


@pytest.mark.parametrize("brokers", [1, 3])
async def test_ticks_that_are_left_out_would_do_nothing(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, brokers: int
) -> None:
    """`tests.simulation.cluster.test_ticks` has more that may happen between two ticks."""
    left_out = check_ticks(monkeypatch)
    async with open_test_server(brokers=brokers) as running:
        client = running.connect_in_memory()
        await client.ask(create_topics.API, 7, create_topic("t"))
        await trio.sleep(20)
        await running.server.stop_broker(1, "crash")
        await trio.sleep(20)
        assert not is_live(running)
        await running.server.start_broker(1)
        await trio.sleep(5)
        assert is_live(running)
    assert len(left_out) > 200
