"""The lives of simulated brokers: the requests of `klamm.broker.simulated_broker`, repeated until they are granted.

What waits is here: for the turn of those who change the state, for the durability of the metadata log, and for the time
until a request is repeated. This module opens no sockets: `klamm.server.server` opens and closes a broker's listeners
around these calls, and `klamm.server.outgoing` those on which brokers ask real ones.
"""

import math
from collections.abc import Callable, Iterable, Sequence

import trio

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.simulated_broker import BrokerError, SimulatedBroker
from klamm.protocol.errors import ErrorCode
from klamm.server.event_log import EventLog
from klamm.server.flusher import Flusher
from klamm.server.outgoing import InterBroker, OutgoingRequests
from klamm.server.turns import Turns

ASK_AGAIN_SECONDS = 0.1
"""The pause between two requests to the controller while a broker waits to be registered, unfenced or shut down."""
GIVE_UP_SECONDS = 300.0
"""A start or a controlled shutdown that takes longer fails. Real brokers also allow a shutdown five minutes."""
MANUAL_SECONDS = 8.0
"""A registration that waits for a session fails so long after the last advance of a manual clock; stderr says sooner
that something waits."""


class BrokerTimedOut(BrokerError):
    """A start or a controlled shutdown took longer than `GIVE_UP_SECONDS`, or waits for a manual clock."""


class BrokerLives:
    """Lets simulated brokers join, beat and leave."""

    def __init__(
        self,
        brokers: SimulatedBrokers,
        flusher: Flusher,
        events: EventLog,
        turns: Turns,
        on_end: Callable[[SimulatedBroker], None],
    ) -> None:
        """`on_end` is called when a broker goes down because of the controller's response to its heartbeat."""
        self.is_manual = False
        """Whether sessions end only when the controller's clock is advanced."""
        self._advanced_at = -math.inf
        self._brokers = brokers
        self._on_end = on_end
        self._flusher = flusher
        self._events = events
        self._turns = turns
        self.waiting_since = math.inf
        """Since when brokers wait to be registered, unfenced or shut down; infinite: none does."""

    def send_in(self, nursery: trio.Nursery, between: InterBroker | None, afterwards: Callable[[], None]) -> None:
        """From now on, what brokers ask real ones is sent, in tasks of `nursery`. Without `between` nothing is.
        `afterwards` is called after each answer."""
        if between is not None:
            image, start_soon = self._brokers.controller.image, nursery.start_soon
            requests = OutgoingRequests(between, image, self._events, start_soon, afterwards)
            self._brokers.outgoing.send = requests.send

    async def join(self, brokers: Sequence[SimulatedBroker]) -> None:
        """Register the brokers, in order. Returns when every broker is unfenced and those records are durable."""
        async with self._turns.of_changes:
            for broker in brokers:
                broker.begin_incarnation()
        # All brokers take the same step together, so that each step needs one group commit.
        await self._until_each("register", brokers, SimulatedBroker.register)
        await self._until_each("be unfenced", brokers, SimulatedBroker.ask_to_be_unfenced)
        for broker in brokers:
            broker.come_up(trio.current_time())
        self._brokers.note_who_is_down()

    async def leave(self, broker: SimulatedBroker) -> None:
        """Shut the broker down: its leaderships move, it is fenced, and it sends no more heartbeats. A broker that was
        unregistered, or whose id another process has, only goes down."""
        broker.next_heartbeat_at = math.inf
        await self._until_each("shut down", [broker], SimulatedBroker.ask_to_shut_down)
        broker.go_down(cleanly=True)
        self._brokers.note_who_is_down()

    def crash(self, broker: SimulatedBroker) -> None:
        """Stop the broker's heartbeats. The controller fences it when its session expires."""
        broker.go_down(cleanly=False)
        self._brokers.note_who_is_down()

    async def unregister(self, broker: SimulatedBroker) -> None:
        """Remove the registration of a broker that is down. Raises BrokerError if the controller refuses."""
        async with self._turns.of_changes:
            refusal = broker.unregister()
        await self._flusher.wait_all_durable()  # before a refusal, too: it tells what the controller saw
        if refusal:
            raise BrokerError(f"broker {broker.broker_id} cannot be unregistered: {refusal.name}")

    def beat(self, now: float) -> None:
        """Send the heartbeats that are due at `now`."""
        self._brokers.beat(now, self._warn, self._on_end)

    @property
    def next_beat_at(self) -> float:
        """When `beat` has something to do; infinite: no broker is up."""
        return self._brokers.next_heartbeat_at

    def beat_all(self, now: float) -> None:
        """Send a heartbeat of every broker that is up: the controller's clock has been advanced."""
        self._advanced_at = now
        for broker in self._brokers.by_id.values():
            if broker.is_up and math.isfinite(broker.next_heartbeat_at):
                broker.next_heartbeat_at = now
        self.beat(now)

    def fence(self, broker: SimulatedBroker) -> None:
        """Stop the heartbeats of a broker that is up, and expire its session. Its listeners stay open."""
        broker.next_heartbeat_at = math.inf
        broker.expire_session()

    async def unfence(self, broker: SimulatedBroker) -> None:
        """Let a broker that was fenced by hand send heartbeats again. Returns when it is unfenced."""
        await self._until_each("be unfenced", [broker], SimulatedBroker.ask_to_be_unfenced)
        broker.next_heartbeat_at = trio.current_time()

    def _warn(self, broker_id: int, code: ErrorCode) -> None:
        self._events.warning_rarely("heartbeat refused", broker_id=broker_id, error=code.name)

    async def _until_each(
        self, what: str, brokers: Iterable[SimulatedBroker], step: Callable[[SimulatedBroker], bool]
    ) -> None:
        """Repeat `step` with each broker until it returns True for it. After each round, and before a refusal is
        raised, wait until the metadata log is durable."""
        began = trio.current_time()
        while True:
            try:
                async with self._turns.of_changes:
                    brokers = [broker for broker in brokers if not step(broker)]
            except BrokerError:
                await self._flusher.wait_all_durable()
                raise
            await self._flusher.wait_all_durable()
            if not brokers:
                self.waiting_since = math.inf
                return
            self.waiting_since = min(self.waiting_since, trio.current_time())
            await trio.sleep(ASK_AGAIN_SECONDS)
            self._give_up_late(what, brokers[0], began)

    def _give_up_late(self, what: str, broker: SimulatedBroker, began: float) -> None:
        now, failed = trio.current_time(), f"broker {broker.broker_id} could not {what}"
        if now > began + GIVE_UP_SECONDS:
            raise BrokerTimedOut(f"{failed} within {GIVE_UP_SECONDS:.0f} s")
        # Only a registration waits for a session; the other steps do not depend on the controller's clock.
        if self.is_manual and what == "register" and now > max(began, self._advanced_at) + MANUAL_SECONDS:
            raise BrokerTimedOut(
                f"{failed}: the session of its former incarnation is not over, and the clock is manual; advance the "
                "clock by broker.session.timeout.ms first"
            )
