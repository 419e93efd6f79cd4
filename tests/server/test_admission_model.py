"""Admission against a plain model: after any sequence of events the same connections are open, and they were closed in
the same order."""

import ctypes
import io
from collections import Counter
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.client import Client
from klamm.server import admission
from klamm.server.admission import Admission
from klamm.server.event_log import EventLog
from klamm.server.limits import ServerLimits
from tests.situations import rare_situations

LIMITS = ServerLimits(
    max_connections=2,
    open_files=3,
    connections_max_idle_ms=5_000,
    held_bytes=10,
    held_bytes_at_most=15,
    stalled_seconds=1.0,
    unread_answer_seconds=4.0,
)
BROKERS = (None, 1)


@dataclass(eq=False)
class FakeConnection:
    """A connection as Admission sees it. `closed` and `drained` collect the names of the connections that it ended, in
    order."""

    name: int
    client: Client
    closed: list[int]
    drained: list[int]
    progressed_at: float
    active_at: float
    sending_since: float | None = None
    is_waiting: bool = False
    held_bytes: int = 0

    def close(self) -> None:
        self.closed.append(self.name)

    def drain(self) -> None:
        self.drained.append(self.name)


@dataclass(frozen=True)
class Expected:
    """What the model knows of an open connection."""

    broker_id: int | None
    progressed_at: float
    active_at: float
    sending_since: float | None = None
    is_waiting: bool = False
    held_bytes: int = 0


class Model:
    """The rules of `ServerLimits`, one by one."""

    def __init__(self, limits: ServerLimits) -> None:
        self.limits = limits
        self.open: dict[int, Expected] = {}
        self.closed: list[int] = []

    @property
    def held_bytes(self) -> int:
        return sum(one.held_bytes for one in self.open.values())

    def admit(self, name: int, coming: Expected) -> bool:
        of_broker = [other for other, one in self.open.items() if one.broker_id == coming.broker_id]
        for names, limit in ((of_broker, self.limits.max_connections), (list(self.open), self.limits.open_files)):
            there = [other for other in names if other in self.open]
            if len(there) >= limit and not self.close_idlest(there):
                return False
        self.open[name] = coming
        return True

    def close_idlest(self, names: list[int]) -> bool:
        idle = [name for name in names if not self.open[name].is_waiting and not self.open[name].held_bytes]
        if idle:
            self.close(min(idle, key=lambda name: self.open[name].active_at))
        return bool(idle)

    def hold(self, name: int, held_bytes: int) -> None:
        if name in self.open:
            self.open[name] = replace(self.open[name], held_bytes=held_bytes)
            while self.held_bytes > self.limits.held_bytes_at_most:
                self.close(self.longest_stalled())

    def longest_stalled(self) -> int:
        holding = [name for name, one in self.open.items() if one.held_bytes]
        return min(holding, key=lambda name: self.open[name].progressed_at)

    def sweep(self, now: float) -> set[int]:
        """Close what has been idle or stalled for too long. Returns the names, in no defined order."""
        late = set()
        for name, one in list(self.open.items()):
            if one.sending_since is not None:
                if now - one.sending_since > self.limits.unread_answer_seconds:
                    late.add(name)
            elif now - one.active_at > self.limits.connections_max_idle_ms / 1000 >= 0 and not one.is_waiting:
                late.add(name)
        for name in late:
            del self.open[name]
        while self.held_bytes > self.limits.held_bytes:
            longest = self.longest_stalled()
            if now - self.open[longest].progressed_at < self.limits.stalled_seconds:
                break
            self.close(longest)
        return late

    def close(self, name: int) -> None:
        del self.open[name]
        self.closed.append(name)


class Act(NamedTuple):
    what: str
    who: int
    number: int


ACTS = st.builds(
    Act,
    st.sampled_from(
        (
            "admit",
            "admit",
            "hold",
            "hold",
            "hold",
            "sweep",
            "leave",
            "shortage",
            "send",
            "sent",
            "wait",
            "wait",
            "progress",
        )
    ),
    st.integers(0, 40),
    st.integers(0, 12),
)


class Pair:
    """Admission and the model, which get the same calls."""

    def __init__(self, limits: ServerLimits) -> None:
        self.model = Model(limits)
        self.admission = Admission(limits, EventLog("console", io.StringIO()))
        self.connections: list[FakeConnection] = []
        self.closed: list[int] = []
        self.drained: list[int] = []
        self.now = 100.0
        self.met: Counter[str] = Counter()
        """How often each situation has occurred."""

    def act(self, act: Act) -> None:
        # Each moment occurs once, so that no two connections have been idle for the same time.
        self.now += 0.01 + act.number / 16
        if act.what == "admit":
            self.admit(BROKERS[act.who % len(BROKERS)])
        elif act.what == "sweep":
            self.sweep()
        elif act.what == "shortage":
            assert self.admission.close_idlest() == self.model.close_idlest(list(self.model.open))
            self.met["shortage"] += self.model.closed != []
        elif self.connections:
            self.change(self.connections[-1 - act.who % min(5, len(self.connections))], act)

    def admit(self, broker_id: int | None) -> None:
        name, before = len(self.connections), len(self.model.closed)
        client = Client("controller" if broker_id is None else "broker", broker_id)
        self.connections.append(FakeConnection(name, client, self.closed, self.drained, self.now, self.now))
        admitted = self.model.admit(name, Expected(broker_id, self.now, self.now))
        assert self.admission.admit(self.connections[-1]) is admitted
        self.met["refused"] += not admitted
        self.met["closed for another"] += len(self.model.closed) > before

    def sweep(self) -> None:
        before = self.model.open.copy()
        late = self.model.sweep(self.now)
        first = len(self.closed)
        self.admission.sweep(self.now)
        assert set(self.closed[first : first + len(late)]) == late
        del self.closed[first : first + len(late)]
        self.met["idle"] += any(before[name].sending_since is None for name in late)
        self.met["unread"] += any(before[name].sending_since is not None for name in late)
        self.met["stalled"] += len(self.closed) > first

    def change(self, one: FakeConnection, act: Act) -> None:
        known = self.model.open.get(one.name)
        if act.what == "hold":
            before = len(self.model.closed)
            self.model.hold(one.name, act.number)
            self.admission.hold(one, act.number)
            self.met["beyond the last bound"] += len(self.model.closed) > before
        elif act.what == "leave":
            self.model.open.pop(one.name, None)
            self.admission.leave(one)
            self.met["left twice"] += known is None
        elif act.what == "send":
            one.sending_since = self.now
        elif act.what == "sent":
            one.sending_since, one.active_at = None, self.now
        elif act.what == "wait":
            one.is_waiting = not one.is_waiting
        else:
            one.progressed_at = self.now
        if one.name in self.model.open:
            self.model.open[one.name] = replace(
                self.model.open[one.name],
                sending_since=one.sending_since,
                active_at=one.active_at,
                is_waiting=one.is_waiting,
                progressed_at=one.progressed_at,
            )

    def check(self) -> None:
        model, admission = self.model, self.admission
        assert {one.name for one in self.connections if one in admission.connections} == set(model.open)
        assert self.closed == model.closed
        assert admission.held_bytes == model.held_bytes
        assert admission.room() == model.limits.open_files - len(model.open)
        for one in self.connections:
            expected = model.open[one.name].held_bytes if one.name in model.open else 0
            assert one.held_bytes == expected, "what has left holds nothing"


async def play(acts: list[Act], limits: ServerLimits) -> Pair:
    pair = Pair(limits)
    for act in acts:
        pair.act(act)
        pair.check()
    return pair


STORIES = st.tuples(
    st.lists(ACTS, min_size=40, max_size=80),
    st.sampled_from((LIMITS, LIMITS, replace(LIMITS, connections_max_idle_ms=-1))),
)
SITUATIONS = (
    "refused", "closed for another", "beyond the last bound", "idle", "unread", "stalled", "left twice", "shortage"
)  # fmt: skip


@given(STORIES)
async def test_connections_come_stay_and_go_as_the_limits_say(story: tuple[list[Act], ServerLimits]) -> None:
    pair = await play(*story)
    with trio.CancelScope() as scope:
        scope.cancel()
        await pair.admission.drain()
    assert sorted(pair.drained) == sorted(pair.model.open)
    newcomer = FakeConnection(-1, Client("broker", 9), pair.closed, pair.drained, pair.now, pair.now)
    assert not pair.admission.admit(newcomer), "a server that stops admits nobody"


def test_the_stories_meet_each_limit() -> None:
    met = {name: lambda story, name=name: bool(trio.run(play, *story).met[name]) for name in SITUATIONS}
    assert rare_situations(STORIES, met) == {}


async def test_freed_memory_is_returned_when_much_less_is_held_than_at_the_peak(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When the sum has fallen by more than the bound below its highest value since the last return."""
    trimmed: list[int] = []
    monkeypatch.setattr(admission, "RETURNED_BYTES", 10)
    library = SimpleNamespace(malloc_trim=trimmed.append)
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: library)
    pair = Pair(replace(LIMITS, held_bytes=1_000, held_bytes_at_most=1_000))
    pair.admit(1)
    (one,) = pair.connections
    for held, times in ((11, 0), (5, 0), (1, 0), (0, 1), (10, 1), (0, 1), (12, 1), (2, 1), (1, 2)):
        pair.admission.hold(one, held)
        pair.admission.sweep(pair.now)
        assert len(trimmed) == times, f"after {held} bytes"
    assert set(trimmed) == {0}
