"""The server of one cluster: listeners, connections, simulated brokers and ticker, from start to stop.

The server gets all its parts from the caller (`ServerParts`). At a start, the caller opens the ports, so that it can
report an error; then brokers register and are unfenced, and connections are accepted. At a stop, the server accepts no
new connections, sends its last answers within `ServerLimits.shutdown_seconds`, and syncs the log. Brokers are not shut
down with the process: with a data directory they are still unfenced at the next start, and keep their incarnations.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal

import trio

from klamm.broker.request_quotas import charge_request
from klamm.broker.simulated_broker import BrokerError, SimulatedBroker
from klamm.controller.client import Client
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata_log import Snapshot
from klamm.protocol.api import Listener as Kind
from klamm.server.acceptance import Acceptance
from klamm.server.addresses import Address
from klamm.server.admission import Admission
from klamm.server.advancing import Advancing
from klamm.server.brokers import BrokerLives
from klamm.server.connection_quotas import ConnectionQuotas
from klamm.server.doors import Doors
from klamm.server.faulty_requests import make_rules
from klamm.server.flusher import Flusher
from klamm.server.journal import Journal
from klamm.server.listener import PortListener, peer_port
from klamm.server.listeners import Listener, place_of
from klamm.server.log_end_keeper import LogEndKeeper
from klamm.server.node_listeners import NodeListeners
from klamm.server.observed import Observed
from klamm.server.parts import ServerParts
from klamm.server.periodic_work import PeriodicWork
from klamm.server.policy_asker import PolicyAsker
from klamm.server.purgatory import Purgatory
from klamm.server.request_path import RequestPath
from klamm.server.snapshot_keeper import SnapshotKeeper
from klamm.server.steering import Steering
from klamm.server.sweeper import Sweeper
from klamm.server.ticker import Ticker
from klamm.server.turns import Turns
from klamm.server.wakeups import Wakeups

if TYPE_CHECKING:  # listeners without SASL and TLS do not need it
    from klamm.server.security import ListenerSecurity


@asynccontextmanager
async def open_server(parts: ServerParts) -> AsyncIterator["Server"]:
    """A server that answers: every broker is up and every listener accepts. It stops when the block ends."""
    server = Server(parts)
    failure: Exception | None = None
    flush = False
    try:
        async with trio.open_nursery() as nursery:
            tasks = await nursery.start(_host_tasks)
            try:
                await server.start(tasks)
                try:
                    yield server
                except Exception as error:  # noqa: BLE001 - raised again outside, where the nursery does not wrap it
                    failure = error
                finally:
                    # If one of the server's tasks has failed, no answer can leave, so there is nothing to wait for.
                    if not nursery.cancel_scope.cancel_called:
                        flush = True
                        with trio.CancelScope(shield=True):
                            await server.drain()
            finally:
                tasks.cancel_scope.cancel()
    finally:
        server.close(flush=flush)
    if failure is not None:
        raise failure


async def _host_tasks(task_status: trio.TaskStatus[trio.Nursery] = trio.TASK_STATUS_IGNORED) -> None:
    """Run the server's tasks in a nursery that a cancellation from outside does not reach. The tasks are needed until
    the last answers have left, and only a failing task may cancel the outer nursery."""
    with trio.CancelScope(shield=True):
        async with trio.open_nursery() as tasks:
            task_status.started(tasks)
            await trio.sleep_forever()


class Server:
    """A running cluster. Made by `open_server`; its brokers can be stopped, started, added and removed."""

    def __init__(self, parts: ServerParts) -> None:
        self._parts = parts
        self.client_files = parts.client_files
        self._limits = parts.limits
        self._events = parts.events
        self._listeners = dict(parts.broker_listeners)
        self._started = tuple(parts.broker_listeners)
        self._changing: set[int] = set()
        self._tasks: trio.Nursery
        self.journal = Journal(parts.request_log)
        self.identity = parts.controller.identity
        self._flusher = Flusher(parts.log, self._release_lines if parts.request_log else None, parts.kept_partitions)
        self.observed = Observed(parts, self._flusher)
        self.admission = Admission(parts.limits, parts.events)
        self._purgatory = Purgatory(parts.brokers.data.watches, is_manual=parts.manual_clock is not None)
        self._turns = Turns()
        self.wakeups = Wakeups(parts.controller, self._touch)
        self.faults = make_rules(parts.controller, parts.clock_ms, self.wakeups.touch)
        self._requests = RequestPath(
            parts.controller,
            self._flusher,
            parts.request_log,
            parts.events,
            parts.clock_ms,
            parts.fatal_errors,
            self._purgatory,
            parts.log.reader(),
            self._turns,
            PolicyAsker(parts.judge_topic, parts.events) if parts.judge_topic else None,
            parts.limits,
            faults=self.faults,
            threads=parts.large_in_threads,
            charge=partial(charge_request, parts.brokers),
        )
        self._doors = Doors(parts, self._requests, self._flusher, self.admission)
        self.brokers = parts.brokers
        self._lives = BrokerLives(parts.brokers, self._flusher, parts.events, self._turns, self._end_broker)
        self.steering = Steering(parts, self._lives, self._flusher, self._turns, self._settle, self.stop_broker)
        self.time = Advancing(parts, self._lives, self._purgatory, self._flusher, self._turns)
        self._requests.afterwards = self._settle if self.time.is_manual else None
        self._requests.touch = self._touch
        for at in () if parts.controller_listeners is None else parts.controller_listeners.end_points:
            parts.controller.advertise(at.host, at.port)
        self._log_ends: LogEndKeeper | None = None
        if parts.log_end_offsets is not None:
            self._log_ends = LogEndKeeper(parts.brokers.data, parts.log_end_offsets, self._flusher.notice)
            self._flusher.log_ends = self._log_ends
        every_records = parts.controller.settings.snapshot_records
        self._snapshots = SnapshotKeeper(parts.controller, parts.log, self._flusher, parts.events, every_records)
        self._work_wanted = trio.Event()
        self._ticker = self._new_ticker()
        parts.controller.subscribe(lambda _delta: self._touch())

    @property
    def image(self) -> MetadataImage:
        """The controller's metadata image. Read it only, and not across an `await`, because it changes in place."""
        return self._parts.controller.image

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT of the main listener of every broker that is up, in the order of ids, separated by commas."""
        return self._reached_at(self._parts.listeners.main)

    @property
    def listeners(self) -> Mapping[str, str]:
        """By the name of each other listener of the brokers: its addresses, in the form of `bootstrap_servers`."""
        return {name: self._reached_at(name) for name in self._parts.listeners.others}

    @property
    def controller_bootstrap_servers(self) -> str | None:
        """HOST:PORT of the controller's listener; None if it has none."""
        controller, nodes = self._parts.listeners.controller, self._parts.controller_listeners
        return str(nodes.addresses[controller.name]) if controller and nodes else None

    def advertised(self, broker_id: int) -> Address:
        """The address of a broker's main listener, or of its first listener if it has no main one."""
        addresses = self.addresses_of(broker_id)
        return addresses.get(self._parts.listeners.main) or next(iter(addresses.values()))

    def addresses_of(self, broker_id: int) -> Mapping[str, Address]:
        """The address of each listener of a broker, by name."""
        return self._listeners[broker_id].addresses

    def open_own_stream(self, broker_id: int) -> trio.SocketStream:
        """A stream to a broker on which the cluster itself asks: no listener, no TLS, no SASL, no principal."""
        ours, theirs = map(trio.SocketStream, trio.socket.socketpair())
        self._tasks.start_soon(self.serve_stream, Client("broker", broker_id, principal=None), theirs)
        return ours

    def now_ms(self) -> int:
        """The controller's clock."""
        return self._parts.clock_ms()

    async def start(self, nursery: trio.Nursery) -> None:
        """Bring all brokers up and accept connections."""
        self._tasks = nursery
        self._lives.send_in(nursery, self._parts.inter_broker, self._touch)
        for task in (self._flusher.flush_forever, self._ticker.tick_forever, self._work_forever):
            nursery.start_soon(task)
        for keeper in (self._log_ends, self._snapshots):
            if keeper is not None:
                nursery.start_soon(keeper.keep_forever)
        for broker_id, listeners in self._listeners.items():
            self.brokers.add(broker_id, self._rack(broker_id), listeners.end_points)
        await self._lives.join(list(self.brokers.by_id.values()))
        self._touch()
        for rule in self._parts.fault_rules:
            self.faults.add(rule)
        for broker_id, listeners in self._listeners.items():
            self._accept(listeners, broker_id)
        if self._parts.controller_listeners is not None:
            self._accept(self._parts.controller_listeners, None)

    async def drain(self) -> None:
        """Close the listeners and send the last answers, for `ServerLimits.shutdown_seconds` at most."""
        self._close_listeners()
        self._requests.stop_waiting()
        with trio.move_on_after(self._limits.shutdown_seconds):
            await self.admission.drain()

    def close(self, *, flush: bool) -> None:
        """Close ports and files. Call this when no task runs any more. With `flush`, first sync the log, store the end
        offsets of partition logs and take a snapshot."""
        self._close_listeners()
        try:
            if flush:
                self._flusher.sync_now()
                if self._log_ends is not None:
                    self._log_ends.keep_now()
                self._release_lines(self._parts.log.durable_offset)
                self._snapshots.take_now()  # last, because no answer waits for it and it may take a second
        finally:
            if self._parts.request_log is not None:
                self._parts.request_log.close()

    async def snapshot(self) -> Snapshot:
        """Take a snapshot of the metadata log up to its current end. Raises SnapshotFailed."""
        return await self._snapshots.take()

    async def stop_broker(self, broker_id: int, mode: Literal["shutdown", "crash"] = "shutdown") -> None:
        """Stop a broker. Returns when its connections are closed; after a "shutdown" the broker is also fenced."""
        async with self._change(broker_id, is_up=True) as broker:
            if mode == "shutdown":
                await self._lives.leave(broker)
            else:
                self._lives.crash(broker)
            self._listeners[broker_id].pause()
            await self._close_connections(broker_id)

    async def start_broker(self, broker_id: int) -> None:
        """Start a broker again on its ports. Returns when it is unfenced and its listeners accept connections. After a
        crash, this takes until the session of the previous incarnation has expired."""
        async with self._change(broker_id, is_up=False) as broker:
            await self._bring_up(broker, self._listeners[broker_id])

    async def add_broker(self, rack: str | None = None) -> int:
        """Start another broker and return its id. Without `rack`, its rack is the next of the configured ones."""
        # An id of a removed broker is used again only from the highest one of the start on: these have own ports.
        broker_id = self.brokers.next_id(max(self._started, default=1))
        # If the listeners have port numbers, its ports follow those of the others; otherwise they are free ports.
        wanted = self._parts.listeners.of_broker(broker_id, self._started)
        listeners = NodeListeners(wanted, [PortListener(one.bind) for one in wanted])
        try:
            listeners.open()
            broker = self.brokers.add(broker_id, rack or self._rack(broker_id), listeners.end_points)
            self._listeners[broker_id] = listeners
            async with self._change(broker_id, is_up=False):
                await self._bring_up(broker, listeners)
        except BaseException:
            self.brokers.forget(broker_id)
            self._listeners.pop(broker_id, None)
            listeners.close()
            raise
        return broker_id

    async def remove_broker(self, broker_id: int) -> None:
        """Shut a broker down, if it is up, and remove its registration."""
        if self.brokers.find(broker_id).is_up:
            await self.stop_broker(broker_id)
        async with self._change(broker_id, is_up=False) as broker:
            await self._lives.unregister(broker)
            self.brokers.forget(broker_id)
            self._listeners.pop(broker_id).close()

    async def serve_stream(
        self, client: Client, stream: trio.abc.Stream, security: "ListenerSecurity | None" = None
    ) -> None:
        """Serve one client on any stream. An error ends this connection only, unless it is a fatal error. `security` is
        that of the listener; None: PLAINTEXT."""
        connection = self._doors.connection(client, stream, security)
        try:
            await connection.serve()
        except Exception as error:
            if self._parts.is_fatal(error):
                raise
            self._events.exception_rarely("bug: connection failed", error, broker_id=client.broker_id)
        finally:
            self.brokers.connection_closed(client.connection_id)
            self._touch()

    def _accept(self, listeners: NodeListeners, broker_id: int | None) -> None:
        kind: Kind = "controller" if broker_id is None else "broker"
        quotas = ConnectionQuotas(self._parts.controller, broker_id, tuple(listener.name for listener, _ in listeners))

        async def serve_accepted(listener: Listener, address: str, stream: trio.SocketStream) -> None:
            client = Client(kind, broker_id, address, listener_name=listener.name, port=peer_port(stream))
            await self.serve_stream(client, stream, listener.security)

        node = Acceptance(quotas, self._parts.clock_ms, serve_accepted)
        for listener, port in listeners:
            serve, admit = partial(node.serve, listener), partial(node.admit, listener.name)
            self._tasks.start_soon(port.serve, serve, self._tasks, self._relieve_shortage, self.admission.room, admit)

    def _end_broker(self, broker: SimulatedBroker) -> None:
        """A broker went down because the controller had it shut down, or knows it no longer."""
        self._events.warning("a broker was shut down or unregistered by a client", broker_id=broker.broker_id)
        self._listeners[broker.broker_id].pause()
        self._tasks.start_soon(self._close_connections, broker.broker_id)

    async def _bring_up(self, broker: SimulatedBroker, listeners: NodeListeners) -> None:
        listeners.open()
        try:
            await self._lives.join([broker])
        except BaseException:
            listeners.pause()
            raise
        self._accept(listeners, broker.broker_id)

    @asynccontextmanager
    async def _change(self, broker_id: int, *, is_up: bool) -> AsyncIterator[SimulatedBroker]:
        """Raise BrokerError if another change of this broker is in progress, or if the broker is not `is_up`."""
        broker = self.brokers.find(broker_id)
        if broker_id in self._changing:
            raise BrokerError(f"broker {broker_id} is being started or stopped already")
        if broker.is_up != is_up:
            raise BrokerError(f"broker {broker_id} is {'down' if is_up else 'up'} already")
        self._changing.add(broker_id)
        try:
            yield broker
        finally:
            self._changing.discard(broker_id)
            self._settle()

    def _rack(self, broker_id: int) -> str | None:
        racks = self._parts.racks
        return racks[place_of(broker_id, self._started) % len(racks)] if racks else None

    def _reached_at(self, listener_name: str) -> str:
        up = [self._listeners[broker_id] for broker_id, one in sorted(self.brokers.by_id.items()) if one.is_up]
        return ",".join(str(at) for listeners in up if (at := listeners.addresses.get(listener_name)) is not None)

    async def _close_connections(self, broker_id: int) -> None:
        for connection in list(self.admission.connections):
            if connection.client.broker_id == broker_id:
                connection.close()
        await trio.lowlevel.checkpoint()

    def _close_listeners(self) -> None:
        for listeners in (*self._listeners.values(), self._parts.controller_listeners):
            if listeners is not None:
                listeners.close()

    def _relieve_shortage(self, error: OSError) -> None:
        self._events.warning_rarely("connections cannot be accepted", reason=error.strerror)
        self.admission.close_idlest()

    def _release_lines(self, durable_offset: int) -> None:
        if self._parts.request_log is not None:
            self._parts.request_log.release(durable_offset, trio.current_time())
            self.wakeups.touch()

    def _new_ticker(self) -> Ticker:
        parts, sweeper = self._parts, Sweeper((self.admission, self._doors.unauthenticated), self._limits)
        work = PeriodicWork(
            parts, self._lives, self._flusher, self.wakeups, self.time, sweeper, self._settle, self._want_work
        )
        tick_seconds = self._limits.tick_seconds
        return Ticker(work.every_tick, tick_seconds, self._events, parts.fatal_errors, work.next_due)

    def _touch(self) -> None:
        """Something has happened that may have left something to the next tick."""
        self._ticker.touch()

    def _settle(self) -> None:
        self._touch()
        if self.time.settle():
            self._want_work()

    def _want_work(self) -> None:
        self._work_wanted.set()

    async def _work_forever(self) -> None:
        """Do background work step by step. Requests are served between two steps."""
        while True:
            await self._work_wanted.wait()
            self._work_wanted = trio.Event()
            while self._parts.has_work:
                # Also before the first step, because the tick that found the work has just done one.
                await self._turns.let_others_in()
                async with self._turns.of_changes:
                    self._parts.work()
                self._flusher.notice()
            self._settle()  # with a manual clock nothing else delivers what the work has decided
