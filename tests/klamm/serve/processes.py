"""`klamm` as a process, for tests: its output is text, its environment has none of this process's configs.

A process is forked from a warm one that has imported Klamm (`klamm.cluster.warm_process`), because that takes a tenth
of a cold start. What is about the start itself (imports, flags of Python, limits of the process) starts cold.
"""

import io
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from klamm.cluster.warm_process import WarmFork, shared_warm_process
from klamm.protocol.api import Api
from klamm.protocol.codec.frames import FrameBuffer, encode_frame
from klamm.protocol.codec.requests import decode_response, encode_request
from klamm.protocol.fields import Message
from klamm.protocol.messages.topics import create_topics, metadata

ROOT = Path(__file__).parents[3]
SECONDS = 30.0
LONGEST_SECONDS = 4 * SECONDS
FREE = ("--listen", "127.0.0.1:0")
HEAVY = (
    *("typer", "rich", "pyspark", "asyncio", "hypercorn", "starlette", "h11", "http", "click", "pygments"),
    *("pyarrow", "pandas", "matplotlib", "jinja2", "klamm.pipeline", "cramjam"),
)
_NEEDS_PYTHON = ("PYTHON", "MALLOC", "LD_")
"""Variables that act on a process when it starts."""
_EXITS = {"-h", "--help"}
"""Options of commands at which argparse ends the process itself, which a fork of a warm process does not do."""


def command(*arguments: str, flags: tuple[str, ...] = ()) -> list[str]:
    return [sys.executable, *flags, "-P", "-m", "klamm", *arguments]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
    return {**kept, "PYTHONPATH": str(ROOT), **(more or {})}


class Forked:
    """A fork of the warm process, with the part of `subprocess.Popen` that tests use."""

    def __init__(self, *arguments: str, more: Mapping[str, str] | None = None) -> None:
        reading, writing = os.pipe()
        try:
            warm = shared_warm_process(command(), environment())
            self._fork: WarmFork = warm.start(arguments, environment(more), writing)
        finally:
            os.close(writing)
        self.stdin = self._fork.stdin
        self.stdout: IO[str] = io.TextIOWrapper(io.BufferedReader(self._fork.stdout))
        self.stderr: IO[str] = os.fdopen(reading, "r")

    @property
    def pid(self) -> int:
        return self._fork.pid

    @property
    def returncode(self) -> int | None:
        return self._fork.returncode

    def poll(self) -> int | None:
        """The exit code; None while the process lives."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        return self._fork.wait(timeout)

    def send_signal(self, number: int) -> None:
        self._fork.send_signal(number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What is left of the output, when the process has ended."""
        self.stdin.close()
        read: dict[IO[str], str] = {}
        readers = [
            threading.Thread(target=lambda one=one: read.update({one: one.read()}), daemon=True)
            for one in (self.stdout, self.stderr)
            if not one.closed
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(timeout)
            if reader.is_alive():
                raise subprocess.TimeoutExpired("klamm", timeout or 0.0)
        self.wait(timeout)
        for one in read:
            one.close()
        return read.get(self.stdout, ""), read.get(self.stderr, "")


Process = subprocess.Popen[str] | Forked


@contextmanager
def serving(
    *arguments: str,
    more: Mapping[str, str] | None = None,
    flags: tuple[str, ...] = (),
    before: Callable[[], None] | None = None,
    cold: bool = False,
) -> Iterator[Process]:
    """A `klamm serve`, stopped when the block ends. `before` runs in the new process, before Python starts. With
    `flags` of Python or `before` the start is cold in any case."""
    process: Process
    if cold or flags or before or any(name.startswith(_NEEDS_PYTHON) for name in more or {}):
        process = subprocess.Popen(
            command("serve", *arguments, flags=flags),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(more),
            preexec_fn=before,  # noqa: PLW1509 - no threads run here
        )
    else:
        process = Forked("serve", *arguments, more=more)
    # A test that waits for a line that never comes fails instead of waiting.
    watch = threading.Timer(LONGEST_SECONDS, process.kill)
    watch.daemon = True
    watch.start()
    try:
        yield process
    finally:
        watch.cancel()
        process.kill()
        process.communicate()


def refused(*arguments: str, more: Mapping[str, str] | None = None, cold: bool = False) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a call that ends by itself."""
    if cold or _EXITS & set(arguments[1:]) or any(name.startswith(_NEEDS_PYTHON) for name in more or {}):
        done = subprocess.run(
            command(*arguments), capture_output=True, text=True, env=environment(more), timeout=SECONDS, check=False
        )
        return done.returncode, done.stdout, done.stderr
    process = Forked(*arguments, more=more)
    stdout, stderr = process.communicate(SECONDS)
    return process.wait(), stdout, stderr


def addresses(line: str, name: str = "bootstrap.servers") -> list[tuple[str, int]]:
    assert line.startswith(f"{name}="), line
    assert line.endswith("\n")
    pairs = [address.rsplit(":", 1) for address in line.strip().removeprefix(f"{name}=").split(",")]
    return [(host.strip("[]"), int(port)) for host, port in pairs]


def first_line(process: Process) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def ask(address: tuple[str, int], api: Api[Message, Message], version: int, request: Message) -> Message:
    """One request, on its own connection."""
    frames = FrameBuffer(1 << 24)
    with socket.create_connection(address, SECONDS) as sock:
        sock.sendall(encode_frame(encode_request(api, version, 1, "test", request)))
        while (frame := frames.next_frame()) is None:
            chunk = sock.recv(65536)
            assert chunk, "closed without an answer"
            frames.feed(chunk)
    response: Message = decode_response(api, version, frame)[1]
    return response


def create(address: tuple[str, int], name: str) -> int:
    topic = create_topics.CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
    response = ask(address, create_topics.API, 7, create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=1000))
    assert isinstance(response, create_topics.CreateTopicsResponse)
    return response.topics[0].error_code


def create_if_served(address: tuple[str, int], name: str) -> bool:
    """Create a topic. Returns False if there is no answer."""
    try:
        return create(address, name) == 0
    except (AssertionError, ConnectionError):
        return False


def topics(address: tuple[str, int]) -> dict[str | None, int]:
    response = ask(address, metadata.API, 12, metadata.MetadataRequest(topics=None))
    assert isinstance(response, metadata.MetadataResponse)
    return {topic.name: len(topic.partitions) for topic in response.topics}
