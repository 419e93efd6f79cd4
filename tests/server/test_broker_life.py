"""The simulated brokers against a plain model: brokers that are up serve requests, brokers that are down do not. After
each change the same must hold for every broker, however it was started or stopped: its listeners, connections,
heartbeats and registration, and whether its replicas fetch and serve records."""

import math
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from klamm.broker.simulated_broker import BrokerError
from klamm.controller.client import Client
from tests.server.harness import Peer, RunningServer, open_test_server
from tests.situations import rare_situations

SESSION_SECONDS = 9.0
HEARTBEAT_SECONDS = 2.0
TICK_SECONDS = 0.1
BROKERS = 3


class Change(NamedTuple):
    """A change of a broker. The broker is given by its position among all ids that have ever existed."""

    what: str
    place: int


CHANGES = st.lists(
    st.builds(
        Change,
        st.sampled_from(("shut down", "shut down", "crash", "crash", "start", "start", "add", "remove", "wait")),
        st.integers(0, BROKERS),
    ),
    min_size=4,
    max_size=10,
)
REFUSED_IF_UP = "is up already"
REFUSED_IF_DOWN = "is down already"
UNKNOWN = "there is no simulated broker"


class Lives:
    """The model: which brokers exist, which are up, and since when the others have sent no heartbeat."""

    def __init__(self) -> None:
        self.up: dict[int, bool] = dict.fromkeys(range(1, BROKERS + 1), True)
        self.crashed_at: dict[int, float] = {}
        """Brokers that send no heartbeats and may still have a session."""
        self.gone: set[int] = set()

    def chosen(self, change: Change) -> int:
        ids = sorted({*self.up, *self.gone})
        return ids[change.place % len(ids)]

    def refusal(self, what: str, broker_id: int) -> str | None:
        if broker_id not in self.up:
            return UNKNOWN
        if what in ("shut down", "crash") and not self.up[broker_id]:
            return REFUSED_IF_DOWN
        return REFUSED_IF_UP if what == "start" and self.up[broker_id] else None


async def change_one(running: RunningServer, lives: Lives, change: Change) -> None:
    server, broker_id = running.server, lives.chosen(change)
    if change.what == "wait":
        await trio.sleep(SESSION_SECONDS + 2 * TICK_SECONDS)
    elif change.what == "add":
        added = await server.add_broker()
        assert added == max(0, *lives.up, *(one for one in running.controller.image.brokers if one != added)) + 1
        lives.up[added] = True
        lives.gone.discard(added)
    else:
        ways: dict[str, Callable[[], Awaitable[object]]] = {
            "shut down": lambda: server.stop_broker(broker_id),
            "crash": lambda: server.stop_broker(broker_id, mode="crash"),
            "start": lambda: server.start_broker(broker_id),
            "remove": lambda: server.remove_broker(broker_id),
        }
        refusal = lives.refusal(change.what, broker_id)
        if refusal:
            with pytest.raises(BrokerError, match=refusal):
                await ways[change.what]()
        else:
            await ways[change.what]()
            note(lives, change.what, broker_id)


def note(lives: Lives, what: str, broker_id: int) -> None:
    lives.crashed_at.pop(broker_id, None)
    if what == "remove":
        del lives.up[broker_id]
        lives.gone.add(broker_id)
        return
    lives.up[broker_id] = what == "start"
    if what == "crash":
        lives.crashed_at[broker_id] = trio.current_time()


def check(running: RunningServer, lives: Lives) -> None:
    controller, server, now = running.controller, running.server, trio.current_time()
    brokers = server.brokers.by_id
    assert {broker_id: broker.is_up for broker_id, broker in brokers.items()} == lives.up
    assert set(running.server.brokers.data.down) == {broker_id for broker_id, is_up in lives.up.items() if not is_up}
    reached = [brokers[broker_id].end_points[0] for broker_id in sorted(lives.up) if lives.up[broker_id]]
    assert server.bootstrap_servers == ",".join(f"{at.host}:{at.port}" for at in reached)
    for broker_id, broker in brokers.items():
        registered = controller.image.brokers[broker_id]
        assert broker.broker_epoch == registered.broker_epoch
        assert broker.incarnation_id == registered.incarnation_id
        assert server._listeners[broker_id].is_open is broker.is_up
        if broker.is_up:
            assert registered.live
            assert registered.end_points == server._listeners[broker_id].end_points
            assert now <= broker.next_heartbeat_at + TICK_SECONDS
            assert broker.next_heartbeat_at <= now + HEARTBEAT_SECONDS
            continue
        assert broker.next_heartbeat_at == math.inf
        silent_for = now - lives.crashed_at[broker_id] if broker_id in lives.crashed_at else math.inf
        if silent_for > SESSION_SECONDS + TICK_SECONDS:
            assert registered.fenced, "a shutdown fences at once, and a crash once the session is over"
    assert not lives.gone & controller.image.brokers.keys()
    served = {connection.client.broker_id for connection in server.admission.connections}
    assert served <= {broker_id for broker_id, is_up in lives.up.items() if is_up}


async def live_through(changes: list[Change]) -> Lives:
    lives = Lives()
    async with open_test_server(brokers=BROKERS) as running:
        for change in changes:
            peers = {broker_id: await connected(running, broker_id) for broker_id, is_up in lives.up.items() if is_up}
            await change_one(running, lives, change)
            await trio.testing.wait_all_tasks_blocked()
            check(running, lives)
            for broker_id, peer in peers.items():
                assert await is_closed(peer) is not lives.up.get(broker_id, False)
    return lives


async def connected(running: RunningServer, broker_id: int) -> Peer:
    peer = running.connect_in_memory(Client("broker", broker_id))
    assert await peer.is_served()
    return peer


async def is_closed(peer: Peer) -> bool:
    try:
        assert await peer.is_served()
    except (AssertionError, trio.BrokenResourceError):
        return True
    return False


@settings(max_examples=25)
@given(CHANGES)
def test_who_is_up_serves_and_who_is_down_does_not(changes: list[Change]) -> None:
    trio.run(live_through, changes, clock=MockClock(autojump_threshold=0))


def test_the_changes_meet_each_case() -> None:
    def meets(*pairs: tuple[str, str]) -> Callable[[list[Change]], bool]:
        return lambda changes: any(
            one.what == pair[0] and other.what == pair[1] and one.place == other.place
            for pair in pairs
            for place, one in enumerate(changes)
            for other in changes[place + 1 :]
        )

    cases = {
        "a broker comes back after a shutdown": meets(("shut down", "start")),
        "a broker comes back after a crash": meets(("crash", "start")),
        "a crashed broker is removed": meets(("crash", "remove")),
        "two changes in vain": meets(("shut down", "crash"), ("remove", "start")),
    }
    assert rare_situations(CHANGES, cases) == {}
