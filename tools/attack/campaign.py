"""A campaign of hostile requests against a server process: what each one costs, and the worst of them.

Each attempt draws a listener, an API, a version, a shape and a size, half of the time near one of the worst so far
(greedy). It sends the request on a connection of its own while another client asks for ApiVersions all the time.
"""

import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import klamm
from klamm.broker.dispatch import APIS
from klamm.protocol.api import Api, Listener
from klamm.protocol.codec.requests import encode_request
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.topics import create_topics
from tools.attack.worst_requests import KNOWN_TOPIC, Shape, shapes, worst_request

SIZES: Final = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
ANSWER_SECONDS: Final = 60.0
WORST: Final = 10
CONTROLLER_SHARE: Final = 0.25
"""The share of attempts, of those that are not variants of a former one, that go to the controller."""
Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request, to a broker or to the controller."""

    api: Api[Any, Any]
    version: int
    shape: Shape
    about_bytes: int
    listener: Listener

    def __str__(self) -> str:
        requested = "" if self.listener == "broker" else " to the controller"
        return f"{self.api.name} v{self.version}{requested} ({self.shape}) of about {self.about_bytes:,} bytes"


@dataclass(frozen=True, slots=True)
class Cost:
    """What one attempt cost."""

    attempt: Attempt
    bytes_in: int
    bytes_out: int
    """0: the connection was closed."""
    seconds: float
    longest_wait: float
    """The longest wait of the other client meanwhile, in seconds."""
    memory_bytes: int
    """Resident memory afterwards, above that of the start."""

    @property
    def amplification(self) -> float:
        return self.bytes_out / self.bytes_in


MEASURES: Final[dict[str, Callable[[Cost], float]]] = {
    "bytes out per byte in": lambda cost: cost.amplification,
    "others' longest wait (ms)": lambda cost: cost.longest_wait * 1000,
    "memory above start (MiB)": lambda cost: cost.memory_bytes / 2**20,
}


def attack(seconds: float, seed: int, *, options: Sequence[str] = (), most_bytes: int = SIZES[-1]) -> list[Cost]:
    """Attack a new server, on both of its listeners, for this long. Raises AssertionError if the server no longer
    answers, or if its log reports a bug."""
    rng = random.Random(seed)
    sizes = [size for size in SIZES if size <= most_bytes]
    costs: list[Cost] = []
    with klamm.ServerProcess("--brokers", "1", "--controller-listener", "127.0.0.1:0", *options) as server:
        address = address_of(server.bootstrap_servers)
        requested: dict[Listener, Address] = {
            "broker": address,
            "controller": address_of(server.controller_bootstrap_servers),
        }
        topic = create_topics.CreatableTopic(name=KNOWN_TOPIC, num_partitions=1, replication_factor=1)
        request = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=1000)
        exchange(address, encode_request(create_topics.API, 7, 1, "attack", request))
        start = resident_bytes(server.process_id)
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            attempt = _drawn(rng, costs, sizes)
            costs.append(_tried(requested[attempt.listener], address, attempt, server.process_id, start))
            assert "bug:" not in (reported := server.stderr_text()), f"{attempt}: {reported}"
    return costs


def address_of(text: str) -> Address:
    """The host and the port of an end point."""
    host, _, port = text.partition(":")
    return host, int(port)


def _drawn(rng: random.Random, costs: Sequence[Cost], sizes: Sequence[int]) -> Attempt:
    if costs and rng.random() < 0.5:  # a variant of one of the worst so far
        measure = rng.choice(list(MEASURES.values()))
        near = rng.choice(sorted(costs, key=measure, reverse=True)[:WORST]).attempt
        shape = rng.choice(shapes(near.api, near.version))
        return Attempt(near.api, near.version, shape, rng.choice(sizes), near.listener)
    listener: Listener = "controller" if rng.random() < CONTROLLER_SHARE else "broker"
    api = rng.choice([api for api in APIS if listener in api.listeners])
    version = rng.choice(api.kept_versions)
    return Attempt(api, version, rng.choice(shapes(api, version)), rng.choice(sizes), listener)


def _tried(address: Address, of_others: Address, attempt: Attempt, pid: int, start: int) -> Cost:
    frame = worst_request(attempt.api, attempt.version, attempt.shape, attempt.about_bytes)
    return try_frame(address, of_others, attempt, frame, pid, start)


def try_frame(address: Address, of_others: Address, attempt: Attempt, frame: bytes, pid: int, start: int) -> Cost:
    """Send a request while another client asks `of_others`; `start` is the resident memory of the process before."""
    done = threading.Event()
    waits: list[float] = []
    other = threading.Thread(target=_ask_until, args=(of_others, done, waits))
    other.start()
    began = time.monotonic()
    try:
        bytes_out = exchange(address, frame)
    finally:
        seconds = time.monotonic() - began
        done.set()
        other.join()
    assert waits, "the server no longer answers others"
    return Cost(attempt, len(frame), bytes_out, seconds, max(waits), resident_bytes(pid) - start)


def _ask_until(address: Address, done: threading.Event, waits: list[float]) -> None:
    frame = encode_request(api_versions.API, 0, 1, "other", api_versions.ApiVersionsRequest())
    with socket.create_connection(address, ANSWER_SECONDS) as connection:
        while not waits or not done.is_set():
            began = time.monotonic()
            connection.sendall(len(frame).to_bytes(4, "big") + frame)
            if not _received(connection):
                return
            waits.append(time.monotonic() - began)


def exchange(address: Address, frame: bytes) -> int:
    """The size of the answer in bytes; 0 if the server closed the connection or did not answer."""
    with socket.create_connection(address, ANSWER_SECONDS) as connection, suppress(OSError):
        connection.sendall(len(frame).to_bytes(4, "big") + frame)
        return _received(connection)
    return 0


def _received(connection: socket.socket) -> int:
    head = connection.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        return 0
    left = size = int.from_bytes(head, "big")
    while left:
        piece = connection.recv(min(left, 1 << 20))
        if not piece:
            return 0
        left -= len(piece)
    return size


def resident_bytes(pid: int, what: str = "VmRSS") -> int:
    """The resident memory of a process; VmHWM: at its highest."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(what))
