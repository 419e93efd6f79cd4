"""What a machine gives to the server, made so that a seed alone decides it: turns of tasks, threads, sockets.

trio shuffles who runs next, and its own hypothesis plugin shows how that is made to follow a seed. Work that goes to a
thread is done by the event loop, after a while that the seed decides. Ports are rooms in memory. The code of the server
is the real one; three names through which it reaches the machine are replaced while a simulation runs.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from random import Random
from typing import Any, ClassVar, TypeVar
from unittest.mock import patch

import trio
import trio.testing
from trio._core import _run

from klamm.server import server
from klamm.server.listener import PortListener
from klamm.server.listeners import Listener
from klamm.server.node_listeners import NodeListeners
from tests.simulation.cluster.disk import Disk

T = TypeVar("T")
THREAD_SECONDS = (0.0, 0.0, 0.0005, 0.004, 0.03, 0.3)
"""How long a thread may take to begin, and to say that it is done."""
PEER = ("10.0.0.1", 40_000)


def random_of(seed: int, what: str) -> Random:
    """Chance for one thing alone: who draws more of it changes nothing for the others."""
    return Random(f"{seed} {what}")


@contextmanager
def surroundings(seed: int, disk: Disk) -> Iterator[None]:
    """As long as this lasts, a trio program that is started does the same every time."""
    threads = random_of(seed, "threads")

    async def run_sync(sync_fn: Callable[..., T], *args: object, **_options: object) -> T:
        await trio.lowlevel.checkpoint_if_cancelled()
        with trio.CancelScope(shield=True):
            await trio.sleep(threads.choice(THREAD_SECONDS))
            result = sync_fn(*args)
            await trio.sleep(threads.choice(THREAD_SECONDS))
        return result

    with ExitStack() as undo:
        for owner, name, stand_in in (
            (_run, "_ALLOW_DETERMINISTIC_SCHEDULING", True),
            (_run, "_r", random_of(seed, "turns")),
            (trio.to_thread, "run_sync", run_sync),
            (server, "PortListener", MemoryListener),
        ):
            undo.enter_context(patch.object(owner, name, stand_in))
        undo.enter_context(disk.watched())
        MemoryListener.ports.clear()
        yield


class _Socket:
    """As much of a socket as the server looks at."""

    def getpeername(self) -> tuple[str, int]:
        return PEER


class MemoryStream(trio.abc.HalfCloseableStream):
    """The server's end of a connection: bytes arrive in pieces of any size."""

    def __init__(self, stream: "trio.StapledStream[Any, Any]", chunks: Random) -> None:
        self.socket = _Socket()
        self._stream = stream
        self._chunks = chunks

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        size = self._chunks.choice((1, 3, 17, 64, 500, 65_536))
        return await self._stream.receive_some(min(size, max_bytes or size))

    async def aclose(self) -> None:
        await self._stream.aclose()

    def reset(self) -> None:
        """Nobody accepted the connection."""
        self._stream.send_stream.close()
        self._stream.receive_stream.close()


class Refused(Exception):
    """Nobody listens there."""


class MemoryListener(PortListener):
    """A port without sockets."""

    ports: ClassVar["dict[int, MemoryListener]"] = {}
    """Who listens where, in the one simulation of this process."""
    _room: "trio.MemorySendChannel[MemoryStream] | None" = None
    _coming: "trio.MemoryReceiveChannel[MemoryStream] | None" = None

    @property
    def is_open(self) -> bool:
        return self._room is not None

    def open(self) -> None:
        self._room, self._coming = trio.open_memory_channel[MemoryStream](1_000)
        self.ports[self.address.port] = self

    async def serve(
        self,
        serve_stream: Callable[[Any], Coroutine[Any, Any, None]],
        nursery: trio.Nursery,
        on_shortage: Callable[[OSError], None],
        room: Callable[[], int],
        admit: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        if self._coming is not None:
            async for stream in self._coming:
                nursery.start_soon(serve_stream, stream)

    def close(self) -> None:
        if self._room is not None:
            self._room.close()
            self._room = None
            with suppress(trio.WouldBlock, trio.EndOfChannel, trio.ClosedResourceError):
                while self._coming is not None:
                    self._coming.receive_nowait().reset()

    def pause(self) -> None:
        self.close()

    def connect(self, chunks: Random) -> trio.abc.HalfCloseableStream:
        """The client's end of a new connection; raises Refused."""
        if self._room is None:
            raise Refused
        make = chunks.choice((trio.testing.memory_stream_pair, trio.testing.lockstep_stream_pair))
        ours, theirs = make()
        self._room.send_nowait(MemoryStream(theirs, chunks))
        return ours


def open_memory_node(listeners: Sequence[Listener]) -> NodeListeners:
    node = NodeListeners(listeners, [MemoryListener(one.bind) for one in listeners])
    node.open()
    return node


def connect(port: int, chunks: Random) -> trio.abc.HalfCloseableStream:
    """The client's end of a new connection; raises Refused."""
    if port not in MemoryListener.ports:
        raise Refused
    return MemoryListener.ports[port].connect(chunks)
