"""A server in the same trio program, and a client that sends and receives bytes: the helpers of all tests of the
server."""

import io
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import trio
from trio.testing import memory_stream_pair

from klamm.broker.assembly import assemble
from klamm.controller.client import Client
from klamm.controller.core import Controller
from klamm.controller.log import LogError, MemoryLog
from klamm.controller.settings import Settings
from klamm.protocol.api import Api
from klamm.protocol.codec.frames import FrameBuffer, encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request
from klamm.protocol.fields import Message
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.topics import create_topics, metadata
from klamm.protocol.uuid import Uuid
from klamm.server.addresses import Address
from klamm.server.event_log import EventLog
from klamm.server.limits import ServerLimits
from klamm.server.listener import PortListener, open_listeners
from klamm.server.listeners import Listener, ListenerPlan, default_plan
from klamm.server.log_end_keeper import LogEndStore
from klamm.server.node_listeners import NodeListeners
from klamm.server.parts import ServerParts
from klamm.server.policy_asker import Judge
from klamm.server.request_log import RequestLog
from klamm.server.security import ListenerSecurity
from klamm.server.server import Server, open_server

LOOPBACK = Address("127.0.0.1", 0)
START_MS = 1_700_000_000_000
ANSWER_SECONDS = 10.0
"""Seconds on the test's clock. A request without an answer after this time counts as unanswered."""
SETTLE_REAL_SECONDS = 30.0


def make_memory_log(log_class: type[MemoryLog] = MemoryLog) -> MemoryLog:
    return log_class("AAAAAAAAAAAAAAAAAAAAAQ", Uuid(15 * b"\1" + b"\2"), START_MS)


@dataclass(kw_only=True)
class RunningServer:
    """A running server, and the parts of it that tests inspect."""

    server: Server
    controller: Controller
    log: MemoryLog
    stderr: io.StringIO
    nursery: trio.Nursery
    listeners: list[PortListener]
    controller_port: int
    peers: list["Peer"] = field(default_factory=list)

    def connect_in_memory(self, client: Client | None = None, security: ListenerSecurity | None = None) -> "Peer":
        """A connection without sockets: only the test decides which bytes arrive when."""
        ours, theirs = memory_stream_pair()
        self.nursery.start_soon(self.server.serve_stream, client or Client("broker", 1), theirs, security)
        return self._keep(Peer(ours))

    async def close_peers(self) -> None:
        """Close the connections of the test, even if it is cancelled."""
        with trio.CancelScope(shield=True):
            for peer in self.peers:
                await peer.aclose()

    async def connect(self, broker_id: int = 1) -> "Peer":
        return self._keep(Peer(await trio.open_tcp_stream("127.0.0.1", self.listeners[broker_id - 1].address.port)))

    async def connect_to_controller(self) -> "Peer":
        return self._keep(Peer(await trio.open_tcp_stream("127.0.0.1", self.controller_port)))

    def _keep(self, peer: "Peer") -> "Peer":
        self.peers.append(peer)
        return peer


def _plan(listen: Address, advertised: Address | None) -> ListenerPlan:
    plan = default_plan(listen, LOOPBACK)
    if advertised is None:
        return plan
    return replace(plan, brokers=[replace(plan.brokers[0], advertised=advertised)])


def _of_brokers(plan: ListenerPlan, ports: Sequence[PortListener]) -> list[NodeListeners]:
    return [NodeListeners(plan.of_broker(number, ()), [port]) for number, port in enumerate(ports, 1)]


def _of_controller(plan: ListenerPlan) -> list[Listener]:
    return [] if plan.controller is None else [plan.controller]


def _clock() -> Callable[[], int]:
    started = trio.current_time()
    return lambda: START_MS + int((trio.current_time() - started) * 1000)


@contextmanager
def _sockets(
    plan: ListenerPlan, listen: Address, brokers: int, given: Sequence[NodeListeners] | None
) -> Iterator[tuple[list[PortListener], Sequence[NodeListeners], PortListener]]:
    """Ports for `brokers` brokers (all listeners of each; those in `given`, if there are any) and for the controller.
    All of them are closed at the end, because a port left open by a failed test would make a later test fail."""
    with ExitStack() as undo:
        for node in given or ():
            undo.callback(node.close)
        listeners = open_listeners(listen, brokers) if brokers else []
        for port in listeners:
            undo.callback(port.close)
        (at,) = open_listeners(LOOPBACK, 1)
        undo.callback(at.close)
        nodes = _of_brokers(plan, listeners)
        yield listeners, given or nodes, at


@asynccontextmanager
async def open_test_server(
    *,
    brokers: int = 1,
    racks: tuple[str, ...] = (),
    limits: ServerLimits | None = None,
    log: Any = None,
    settings: Settings | None = None,
    request_log: Path | None = None,
    controller_class: type[Controller] = Controller,
    judge_topic: Judge | None = None,
    log_end_offsets: LogEndStore | None = None,
    listen: Address = LOOPBACK,
    advertised: Address | None = None,
    has_bugs: bool = False,
    plan: ListenerPlan | None = None,
    broker_listeners: Sequence[NodeListeners] | None = None,
    large_in_threads: bool = False,
) -> AsyncIterator[RunningServer]:
    """A server on loopback ports, with a controller listener. It has stopped when the block ends. Unless `has_bugs`,
    the test fails if the server reported a bug, because a bug in a connection or a tick ends nothing and shows in no
    answer."""
    settings, log, clock_ms = settings or Settings(seed=1), log or make_memory_log(), _clock()
    events = EventLog("console", stderr := io.StringIO())
    controller, hosted = assemble(controller_class, settings, log, clock_ms)
    plan = plan or _plan(listen, advertised)
    with _sockets(plan, listen, 0 if broker_listeners else brokers, broker_listeners) as (listeners, nodes, at):
        parts = ServerParts(
            controller=controller,
            brokers=hosted,
            log=log,
            clock_ms=clock_ms,
            listeners=plan,
            broker_listeners=dict(enumerate(nodes, 1)),
            controller_listeners=NodeListeners(_of_controller(plan), [at]),
            racks=racks,
            limits=limits or ServerLimits(),
            events=events,
            request_log=RequestLog(request_log, log.cluster_id, events) if request_log else None,
            judge_topic=judge_topic,
            log_end_offsets=log_end_offsets,
            large_in_threads=large_in_threads,
            fatal_errors=(LogError,),
        )
        async with open_server(parts) as server, trio.open_nursery() as nursery:
            running = RunningServer(
                server=server,
                controller=controller,
                log=log,
                stderr=stderr,
                nursery=nursery,
                listeners=listeners,
                controller_port=at.address.port,
            )
            try:
                yield running
            finally:
                await running.close_peers()
                nursery.cancel_scope.cancel()
        assert has_bugs or "bug: " not in stderr.getvalue(), stderr.getvalue()


class Peer:
    """A client that sends the given bytes unchanged and reads whole answers."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._frames = FrameBuffer(1 << 30)
        self._correlation_id = 0

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def receive(self, within_seconds: float = ANSWER_SECONDS) -> bytes | None:
        """The next answer without its size; None if the server has closed the connection."""
        with trio.fail_after(within_seconds):
            while (frame := self._frames.next_frame()) is None:
                try:
                    chunk = await self.stream.receive_some(65536)
                except trio.BrokenResourceError:  # A reset closes the connection, too.
                    return None
                if not chunk:
                    assert self._frames.buffered_bytes == 0, "the server closed in the middle of an answer"
                    return None
                self._frames.feed(bytes(chunk))
        return frame

    async def ask(self, api: Api[Any, Any], version: int, request: Message) -> Any:
        """Send a request, and decode its answer."""
        self._correlation_id += 1
        await self.send(encode_frame(encode_request(api, version, self._correlation_id, "peer", request)))
        frame = await self.receive()
        assert frame is not None, "closed instead of answered"
        correlation_id, response = decode_response(api, version, frame)
        assert correlation_id == self._correlation_id
        return response

    async def is_served(self) -> bool:
        """Whether the server answers a request on this connection."""
        response = await self.ask(api_versions.API, 0, api_versions.ApiVersionsRequest())
        return bool(response.error_code == 0)

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self.stream)


def request_frame(api: Api[Any, Any], version: int, correlation_id: int, request: Message) -> bytes:
    """A request as it is sent, with its size."""
    return encode_frame(encode_request(api, version, correlation_id, "peer", request))


def api_versions_frame(correlation_id: int) -> bytes:
    return request_frame(api_versions.API, 0, correlation_id, api_versions.ApiVersionsRequest())


def metadata_frame(correlation_id: int) -> bytes:
    return request_frame(metadata.API, 1, correlation_id, metadata.MetadataRequest(topics=()))


def create_topic_frame(correlation_id: int, topic_name: str, partitions: int = 1) -> bytes:
    return request_frame(create_topics.API, 7, correlation_id, create_topic(topic_name, partitions))


def create_topic(topic_name: str, partitions: int = 1) -> create_topics.CreateTopicsRequest:
    topic = create_topics.CreatableTopic(name=topic_name, num_partitions=partitions, replication_factor=1)
    return create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=1000)


def correlation_ids(frames: list[bytes]) -> list[int]:
    return [int.from_bytes(frame[:4], "big", signed=True) for frame in frames]


def garbage(seed: int, length: int) -> bytes:
    return Random(seed).randbytes(length)


async def settled(condition: Callable[[], bool]) -> None:
    """Let the other tasks, and threads, run until `condition` holds. Time does not pass on a test's clock."""
    give_up_at = time.monotonic() + SETTLE_REAL_SECONDS
    while not condition():
        assert time.monotonic() < give_up_at, "it does not happen"
        await trio.lowlevel.checkpoint()
