"""Clients that mean no good, many at once: each kind is a function that goes on until it is cancelled.

    python -m bench.hostile_clients HOST:PORT --each 12 [--only silent,greedy]

A process of its own, so that what they cost is not the good client's. It writes `ready` when each has begun, and at
SIGTERM one line of JSON: how often each kind connected, was shut out, and what it sent and received. Where a client is
thrown out it comes again. The same functions run in the tests, over any stream.
"""

import argparse
import json
import signal
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from random import Random
from typing import TypeAlias

import trio

from bench.raw_client import (
    api_versions_frame,
    create_topics_frame,
    delete_topics_frame,
    metadata_frame,
    topic_metadata_frame,
)

Connect: TypeAlias = Callable[[], Awaitable[trio.abc.Stream]]
RECEIVE_BYTES = 256 * 1024
GARBAGE_BYTES = 4096
LARGEST_SIZE = 2**31 - 1
ALLOWED_SIZE = 100 * 1024 * 1024
"""The default of socket.request.max.bytes."""
PART_OF_ALLOWED_BYTES = 2 * 1024 * 1024
GREEDY_REQUESTS = 2_000
"""The number of requests that are sent in a row before the next answer is read."""
UNREAD_REQUESTS = 500
SECONDS_PER_BYTE = 1.0
RESET_AT_CLOSE = struct.pack("ii", 1, 0)


@dataclass(slots=True)
class Tally:
    """The results of one kind."""

    connected: int = 0
    shut_out: int = 0
    """How often the server ended a connection."""
    sent_bytes: int = 0
    received_bytes: int = 0


class Hostile:
    """One client. `kind` is called with a new connection each time that it has none, until it is cancelled."""

    def __init__(self, connect: Connect, tally: Tally, seed: int) -> None:
        self.tally = tally
        self.seed = seed
        self.rng = Random(seed)
        self._connect = connect

    async def run(self, kind: "Kind", *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Connect, misbehave, and connect again when the connection has ended."""
        started = False
        while True:
            with suppress(OSError):
                stream = await self._connect()
                self.tally.connected += 1
                if not started:
                    started = True
                    task_status.started()
                try:
                    await kind(self, stream)
                except* (trio.BrokenResourceError, trio.ClosedResourceError):
                    self.tally.shut_out += 1
                finally:
                    await trio.aclose_forcefully(stream)
            await trio.lowlevel.checkpoint()

    async def send(self, stream: trio.abc.Stream, data: bytes) -> None:
        await stream.send_all(data)
        self.tally.sent_bytes += len(data)

    async def receive_all(self, stream: trio.abc.Stream) -> None:
        """Read until the server ends the connection."""
        while chunk := await stream.receive_some(RECEIVE_BYTES):
            self.tally.received_bytes += len(chunk)
        self.tally.shut_out += 1


Kind: TypeAlias = Callable[[Hostile, trio.abc.Stream], Awaitable[None]]


async def silent(client: Hostile, stream: trio.abc.Stream) -> None:
    """Sends nothing."""
    await client.receive_all(stream)


async def slow(client: Hostile, stream: trio.abc.Stream) -> None:
    """Sends a good request, a byte each second."""
    while True:
        for byte in api_versions_frame():
            await client.send(stream, bytes([byte]))
            await trio.sleep(SECONDS_PER_BYTE)


async def never_reading(client: Hostile, stream: trio.abc.Stream) -> None:
    """Sends large requests again and again, and reads no answers."""
    while True:
        await client.send(stream, metadata_frame(all_topics=True) * UNREAD_REQUESTS)


async def garbage(client: Hostile, stream: trio.abc.Stream) -> None:
    """Sends bytes that are no request: any bytes, or any bytes in a frame."""
    data = client.rng.randbytes(GARBAGE_BYTES)
    if client.rng.random() < 0.5:
        data = len(data).to_bytes(4, "big") + data
    await client.send(stream, data)
    await client.receive_all(stream)


async def giant(client: Hostile, stream: trio.abc.Stream) -> None:
    """Declares a frame larger than allowed, or one of the largest size of which only a part arrives."""
    if client.seed % 2:
        await client.send(stream, LARGEST_SIZE.to_bytes(4, "big"))
    else:
        await client.send(stream, ALLOWED_SIZE.to_bytes(4, "big") + bytes(PART_OF_ALLOWED_BYTES))
    await client.receive_all(stream)


async def half_a_frame(client: Hostile, stream: trio.abc.Stream) -> None:
    """Stops in the middle of a good request."""
    frame = api_versions_frame()
    await client.send(stream, frame[: len(frame) // 2])
    await client.receive_all(stream)


async def storm(client: Hostile, stream: trio.abc.Stream) -> None:
    """Connects, sends a request, and disconnects without the answer, again and again."""
    await client.send(stream, api_versions_frame())
    if isinstance(stream, trio.SocketStream):
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)


async def greedy(client: Hostile, stream: trio.abc.Stream) -> None:
    """Sends allowed requests, thousands in a row, and reads the answers."""
    name = f"greedy-{client.seed}"
    asks = (
        api_versions_frame(),
        topic_metadata_frame(name),
        create_topics_frame(name, 1, 1),
        delete_topics_frame(name),
    )
    frames = b"".join(client.rng.choice(asks) for _ in range(GREEDY_REQUESTS))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.receive_all, stream)
        while True:
            await client.send(stream, frames)


KINDS: Mapping[str, Kind] = {
    kind.__name__.replace("_", "-"): kind
    for kind in (silent, slow, never_reading, garbage, giant, half_a_frame, storm, greedy)
}


async def run_kinds(connect: Connect, each: Mapping[str, int], tallies: Mapping[str, Tally]) -> None:
    """Run this many clients of each kind until SIGTERM; writes `ready` to stdout when all have connected."""
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            for name, count in each.items():
                for seed in range(count):
                    await nursery.start(Hostile(connect, tallies[name], seed).run, KINDS[name])
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            async for _ in signals:
                nursery.cancel_scope.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.hostile_clients")
    parser.add_argument("address", metavar="HOST:PORT")
    parser.add_argument("--each", metavar="N", type=int, default=12)
    parser.add_argument("--only", metavar="A,B", default=",".join(KINDS))
    options = parser.parse_args()
    host, _, port = options.address.rpartition(":")
    names = options.only.split(",")
    tallies = {name: Tally() for name in names}

    async def connect() -> trio.abc.Stream:
        return await trio.open_tcp_stream(host, int(port))

    trio.run(run_kinds, connect, dict.fromkeys(names, options.each), tallies)
    sys.stdout.write(json.dumps({name: asdict(tally) for name, tally in tallies.items()}) + "\n")


if __name__ == "__main__":
    main()
