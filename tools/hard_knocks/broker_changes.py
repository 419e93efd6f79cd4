"""A task that adds, stops, starts and removes brokers and requests snapshots while clients work.

It uses the control interface, as users do. Brokers of a former server process exist only as registrations, and are
unregistered by a request. At most one operation is in progress.
"""

from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import trio

from klamm.admin.connection import open_connection
from klamm.admin.streams import ConnectionLost
from klamm.control.client import ControlClient, ControlError, ControlRefused, ControlUnreachable
from klamm.protocol.messages.brokers import unregister_broker
from klamm.server.addresses import decode_address
from tools.hard_knocks.clients import Tally
from tools.hard_knocks.requests import LASTING_BROKERS

MAX_ADDED = 5
MAX_ANSWER_BYTES = 1 << 20
HTTP_NOT_FOUND = 404


@dataclass(slots=True)
class BrokerLedger:
    """Which brokers are registered beside the permanent ones, and the request without an answer."""

    known: frozenset[int] = frozenset()
    pending: frozenset[int] | None = None
    up: set[int] = field(default_factory=set)
    """Those of them that run in the present process."""
    down: set[int] = field(default_factory=set)
    """Those of them that the present process has stopped."""
    takes_snapshots: bool = True

    def ask(self, after: frozenset[int]) -> None:
        self.pending = after

    def acknowledge(self) -> None:
        if self.pending is not None:
            self.known, self.pending = self.pending, None

    def settle(self, found: frozenset[int]) -> tuple[bool | None, list[str]]:
        """After a crash: whether the request in progress was carried out (None: there was none), and the errors."""
        before, after = self.known, self.pending
        self.known, self.pending, self.up, self.down = found, None, set(), set()
        if found == before:
            return (None if after is None else False), []
        if found == after:
            return True, []
        requested = f", or {sorted(after)}" if after is not None else ""
        return None, [f"brokers: known as {sorted(before)}{requested}, found as {sorted(found)}"]


class BrokerChanges:
    """Changes brokers until the server is gone."""

    def __init__(self, bootstrap_servers: str, control_url: str, ledger: BrokerLedger, tally: Tally) -> None:
        self._address = decode_address(bootstrap_servers.partition(",")[0])
        self._control = ControlClient(control_url)
        self._ledger = ledger
        self._tally = tally

    async def make(self, random: Random) -> None:
        """Make changes one after the other."""
        try:
            while True:
                kind, change = self._choose(random)
                await change()
                self._ledger.acknowledge()
                self._tally.acknowledged[kind] += 1
        except (ControlUnreachable, ConnectionLost):
            return
        except ControlError as error:
            self._tally.faults.append(f"brokers: refused: {error}")

    def _choose(self, random: Random) -> tuple[str, Any]:
        ledger = self._ledger
        left_over = sorted(ledger.known - ledger.up - ledger.down)
        choices: list[tuple[str, Any]] = []
        if len(ledger.known) < MAX_ADDED:
            choices += [("add broker", self._add)] * 3
        if ledger.up:
            choices += [("stop broker", partial(self._stop, random.choice(sorted(ledger.up))))]
        if ledger.down:
            choices += [("start broker", partial(self._start, random.choice(sorted(ledger.down))))]
        if ledger.up | ledger.down:
            choices += [("remove broker", partial(self._remove, random.choice(sorted(ledger.up | ledger.down))))]
        if left_over:
            choices += [("unregister broker", partial(self._unregister, random.choice(left_over)))]
        if ledger.takes_snapshots:
            choices += [("snapshot", self._snapshot)] * 2
        return random.choice(choices)

    async def _add(self) -> None:
        new = max({*LASTING_BROKERS, *self._ledger.known}) + 1
        self._ledger.ask(self._ledger.known | {new})
        added = await trio.to_thread.run_sync(self._control.add_broker)
        if added != new:
            self._tally.faults.append(f"brokers: {added} was added where {new} was expected")
        self._ledger.up.add(added)

    async def _stop(self, broker_id: int) -> None:
        await trio.to_thread.run_sync(self._control.stop_broker, broker_id)
        self._ledger.up.discard(broker_id)
        self._ledger.down.add(broker_id)

    async def _start(self, broker_id: int) -> None:
        await trio.to_thread.run_sync(self._control.start_broker, broker_id)
        self._ledger.down.discard(broker_id)
        self._ledger.up.add(broker_id)

    async def _remove(self, broker_id: int) -> None:
        self._ledger.ask(self._ledger.known - {broker_id})
        await trio.to_thread.run_sync(self._control.remove_broker, broker_id)
        self._ledger.up.discard(broker_id)
        self._ledger.down.discard(broker_id)

    async def _unregister(self, broker_id: int) -> None:
        self._ledger.ask(self._ledger.known - {broker_id})
        connection = await open_connection(self._address, "brokers", MAX_ANSWER_BYTES)
        try:
            body = unregister_broker.UnregisterBrokerRequest(broker_id=broker_id)
            answer = await connection.exchange(unregister_broker.API, 0, body)
        finally:
            await connection.aclose()
        if answer.error_code:
            raise ControlError(f"unregistering broker {broker_id}: error {answer.error_code}")

    async def _snapshot(self) -> None:
        try:
            await trio.to_thread.run_sync(self._control.ask, "POST", "/snapshot")
        except ControlRefused as error:
            if error.status != HTTP_NOT_FOUND:
                raise
            self._ledger.takes_snapshots = False  # This server does not have it.
