"""The purgatory: a delayed answer is tried when one of its keys is woken, at its deadline, and when the server
stops."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from klamm.broker.data.watches import Watches
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import LogKey
from klamm.protocol.uuid import Uuid
from klamm.server.purgatory import Purgatory, ServerStops

ONE, OTHER = Uuid(bytes(15) + b"\1"), Uuid(bytes(15) + b"\2")


@dataclass
class Never:
    """A `DelayedAnswer` that is never complete."""

    keys: Collection[LogKey] = field(default_factory=lambda: [(ONE, 0), (ONE, 1), (OTHER, 0)])
    retry_at_ms: int = 5_000

    def try_complete(self, image: MetadataImage, now_ms: int) -> None:
        return None


@dataclass
class Waiter:
    purgatory: Purgatory
    answer: Never = field(default_factory=Never)
    is_back: bool = False
    is_told_of_the_stop: bool = False

    async def wait(self) -> None:
        try:
            await self.purgatory.wait(self.answer, 0)
        except ServerStops:
            self.is_told_of_the_stop = True
        self.is_back = True


@pytest.mark.parametrize("key", [(ONE, 0), (ONE, 1), (OTHER, 0)])
async def test_any_key_wakes_those_who_wait_for_it(mock_clock: MockClock, key: LogKey) -> None:
    watches = Watches()
    purgatory = Purgatory(watches)
    waiters = [Waiter(purgatory), Waiter(purgatory), Waiter(purgatory, Never([(OTHER, 7)]))]
    async with trio.open_nursery() as nursery:
        for waiter in waiters:
            nursery.start_soon(waiter.wait)
        await wait_all_tasks_blocked()
        for other in ((OTHER, 1), (Uuid(bytes(16)), 0)):
            watches.touch(other)
        await wait_all_tasks_blocked()
        assert not any(waiter.is_back for waiter in waiters)
        watches.touch(key)
        await wait_all_tasks_blocked()
        assert [waiter.is_back for waiter in waiters] == [True, True, False]
        assert list(watches) == [(OTHER, 7)]
        nursery.cancel_scope.cancel()
    assert not watches


@pytest.mark.parametrize(("retry_at_ms", "waited"), [(5_000, 5.0), (1, 0.001), (0, 0.001), (-9, 0.001)])
async def test_its_time_wakes_an_answer_without_a_key(
    autojump_clock: MockClock, retry_at_ms: int, waited: float
) -> None:
    started = trio.current_time()
    await Waiter(Purgatory(Watches()), Never([], retry_at_ms)).wait()
    assert trio.current_time() - started == pytest.approx(waited)


async def stop_before(waiter: Waiter) -> None:
    waiter.purgatory.close()
    await waiter.wait()


async def stop_meanwhile(waiter: Waiter) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waiter.wait)
        await wait_all_tasks_blocked()
        waiter.purgatory.close()


@pytest.mark.parametrize("stop", [stop_before, stop_meanwhile])
@pytest.mark.parametrize("answer", [Never(), Never([])], ids=["with keys", "without"])
async def test_nobody_waits_for_a_server_that_stops(
    autojump_clock: MockClock, stop: Callable[[Waiter], Awaitable[None]], answer: Never
) -> None:
    watches = Watches()
    waiter = Waiter(Purgatory(watches), answer)
    await stop(waiter)
    assert waiter.is_told_of_the_stop
    assert trio.current_time() == 0
    assert not watches
