"""A pause of the whole process (SIGSTOP, `docker pause`) counts for no client: the process serves no client meanwhile.

Found by `scripts/simulate --seed 1036`: 400 seconds passed while an answer was being sent, and its connection was
closed as that of a client that reads nothing.
"""

import io
import math

import pytest
import trio
from trio.testing import MockClock

from klamm.controller.client import Client
from klamm.server.admission import Admission
from klamm.server.event_log import EventLog
from klamm.server.limits import MIB, ServerLimits
from klamm.server.sweeper import Sweeper
from klamm.server.unauthenticated import UnauthenticatedConnections
from tests.server.harness import api_versions_frame, open_test_server
from tests.server.test_admission_model import FakeConnection
from tests.server.test_limits import connect_to_a_client_that_never_reads

PAUSE = 1_000
LONG_BEFORE = 50


async def test_an_answer_on_its_way_survives_a_pause_and_still_has_its_minute(autojump_clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = connect_to_a_client_that_never_reads(running)
        await peer.send(api_versions_frame(1))
        await trio.sleep(LONG_BEFORE)
        autojump_clock.jump(PAUSE)
        await trio.sleep(60 - LONG_BEFORE - 3)
        assert len(running.server.admission.connections) == 1
        await trio.sleep(6)
        assert not running.server.admission.connections, "the time before the pause counts"


def test_no_time_of_a_client_is_later_than_the_end_of_the_pause() -> None:
    """Between the end of a pause and the sweep that notices it, requests arrive and answers are sent."""
    admission = Admission(ServerLimits(), EventLog("console", io.StringIO()))
    old = FakeConnection(0, Client("broker", 1), [], [], progressed_at=100.0, active_at=90.0, sending_since=80.0)
    new = FakeConnection(1, Client("broker", 1), [], [], progressed_at=1_139, active_at=1_138, sending_since=1_137)
    waiting = FakeConnection(2, Client("broker", 1), [], [], progressed_at=math.inf, active_at=50.0)
    for one in (old, new, waiting):
        admission.admit(one)
    admission.excuse(1_000, 1_140)
    assert (old.progressed_at, old.active_at, old.sending_since) == (1_100, 1_090, 1_080)
    assert (new.progressed_at, new.active_at, new.sending_since) == (1_140, 1_140, 1_140)
    assert (waiting.progressed_at, waiting.active_at, waiting.sending_since) == (math.inf, 1_050, None)


@pytest.mark.parametrize("begun", [True, False])
async def test_an_answer_that_is_sent_after_the_pause_has_its_whole_minute(
    autojump_clock: MockClock, begun: bool
) -> None:
    """The first sweep after the pause may come after the answer."""
    async with open_test_server() as running:
        peer = connect_to_a_client_that_never_reads(running)
        await trio.sleep(2)
        if begun:
            await peer.send(api_versions_frame(1)[:9])
        autojump_clock.jump(PAUSE)
        await peer.send(api_versions_frame(1)[9 if begun else 0 :])
        await trio.sleep(57)
        assert await peer.receive()


async def test_a_silent_client_stays_through_a_pause_and_goes_after_the_idle_time(autojump_clock: MockClock) -> None:
    async with open_test_server(limits=ServerLimits(connections_max_idle_ms=100_000)) as running:
        silent = running.connect_in_memory()
        await trio.sleep(LONG_BEFORE)
        autojump_clock.jump(PAUSE)
        await trio.sleep(LONG_BEFORE - 3)
        assert len(running.server.admission.connections) == 1
        await trio.sleep(6)
        assert await silent.receive() is None


async def test_half_a_request_may_hold_memory_through_a_pause(autojump_clock: MockClock) -> None:
    limits = ServerLimits(held_bytes=MIB, held_bytes_at_most=100 * MIB, stalled_seconds=20)
    async with open_test_server(limits=limits) as running:
        half = running.connect_in_memory()
        await half.send((50 * MIB).to_bytes(4, "big") + bytes(2 * MIB))
        await trio.sleep(10)
        autojump_clock.jump(PAUSE)
        await trio.sleep(7)
        assert len(running.server.admission.connections) == 1
        await trio.sleep(6)
        assert not running.server.admission.connections


class Recorder:
    """What is asked of connections: the pauses, and the times of sweeps."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, ...]] = []

    def excuse(self, pause: float, now: float) -> None:
        self.calls.append((pause, now))

    def sweep(self, now: float) -> None:
        self.calls.append((now,))


def test_a_sweep_that_is_late_by_more_than_its_interval_comes_after_a_pause() -> None:
    first, second = Recorder(), Recorder()
    sweeper = Sweeper((first, second), ServerLimits(sweep_seconds=2))
    for now in (1_000, 1_001.5, 1_002, 1_006, 1_007.5, 1_010.5, 1_012.5):
        sweeper.tick(now)
    assert first.calls == second.calls == [(1_000,), (1_002,), (1_006,), (2.5, 1_010.5), (1_010.5,), (1_012.5,)]


class Stranger:
    held_bytes = 0

    def __init__(self, closed: list["Stranger"]) -> None:
        self._closed = closed

    def close(self) -> None:
        self._closed.append(self)


async def test_a_login_that_is_half_done_survives_a_pause() -> None:
    events = EventLog("console", io.StringIO())
    strangers = UnauthenticatedConnections(ServerLimits(authentication_seconds=60), events)
    closed: list[Stranger] = []
    old, young = Stranger(closed), Stranger(closed)
    strangers.add(old, 100)
    strangers.add(young, 1_130)
    strangers.excuse(1_000, 1_140)
    strangers.sweep(1_159)
    assert closed == []
    strangers.sweep(1_161)
    assert closed == [old]
    strangers.sweep(1_199)
    assert closed == [old], "the time begins again at the end of the pause at the latest"
    strangers.sweep(1_201)
    assert closed == [old, young]
