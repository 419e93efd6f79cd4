"""Other people's placers, each in a process of its own that stays: Kafka's two in JVMs, kfake's in a Go program.

Commands go in by stdin and nanoseconds come back, a line each; bench/peers/placement/PlacementPeer.java says which.
Placements go through files of int32. The clock is the peer's own: what a line or a file takes is not timed.
"""

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from bench.processes import ServerFailed

PEERS: Final = Path(__file__).resolve().parent / "peers"
BUILD_SECONDS: Final = 900
ANSWER_SECONDS: Final = 300.0
TOLD_BYTES: Final = 2_000
NANOSECONDS: Final = 1e9
# With these Kafka's placers were quickest here: up to twice as quick as with the collector of its start script.
JVM_OPTIONS: Final = ("-Xms3g", "-Xmx3g", "-XX:+UseParallelGC")


class Maker(Enum):
    """Whose placer it is."""

    KLAMM = "Klamm"
    KAFKA = "Kafka"
    KFAKE = "kfake"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a peer is to place: brokers are 0, 1, …, broker b in rack number b % racks; 0 racks are none."""

    partitions: int
    replication_factor: int
    brokers: int
    racks: int


class PlacementPeer:
    """A placer that answers, one command at a time."""

    def __init__(self, name: str, command: Sequence[str], maker: Maker, tool: str | None = None) -> None:
        self.name = name
        self.maker = maker
        self.tool = tool
        """Who reassigns with this placer; None if nobody does."""
        self._command = command
        self._unread = b""

    def __enter__(self) -> Self:
        self._stderr = tempfile.TemporaryFile()
        self._folder = tempfile.TemporaryDirectory(prefix="klamm-bench-placement-")
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, start_new_session=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._stderr):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self._folder.cleanup()

    def time_place(self, shape: Shape, seed: int, calls: int, fresh: bool) -> float:
        """Seconds of `calls` placements; `fresh`: each makes its brokers anew."""
        return self._place(shape, seed, calls, fresh, "-")

    def placement(self, shape: Shape, seed: int) -> npt.NDArray[np.int32]:
        """One more placement, handed over: int32[partitions, replication_factor]."""
        file = self._file("placed")
        self._place(shape, seed, 1, False, str(file))
        return _rows(file, shape)

    def reassign(self, shape: Shape, current: npt.NDArray[Any]) -> tuple[float, npt.NDArray[np.int32]]:
        """Seconds that another placement of `current` took, and that placement."""
        before, after = self._file("current"), self._file("reassigned")
        before.write_bytes(current.astype("<i4").tobytes())
        seconds = self._nanoseconds("reassign", shape, before, after) / NANOSECONDS
        return seconds, _rows(after, shape)

    def await_ready(self) -> None:
        if (line := self._line()) != "ready":
            raise self._failure(f"wrote {line!r}")

    def _place(self, shape: Shape, seed: int, calls: int, fresh: bool, file: str) -> float:
        return self._nanoseconds("place", shape, seed, calls, int(fresh), file) / NANOSECONDS

    def _nanoseconds(self, command: str, shape: Shape, *words: object) -> int:
        numbers = (shape.partitions, shape.replication_factor, shape.brokers, shape.racks)
        line = " ".join(str(word) for word in (command, *numbers, *words)) + "\n"
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure("ended") from None
        return int(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        deadline = time.monotonic() + ANSWER_SECONDS
        while b"\n" not in self._unread:
            if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise self._failure(f"did not answer within {ANSWER_SECONDS:g} s")
            chunk = os.read(descriptor, 4096)
            if not chunk:
                raise self._failure(f"ended with exit code {self._process.wait()}")
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode()

    def _failure(self, reason: str) -> ServerFailed:
        self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - TOLD_BYTES))
        return ServerFailed(f"{self.name} {reason}\n{self._stderr.read().decode(errors='replace')}".strip())

    def _file(self, name: str) -> Path:
        return Path(self._folder.name) / name


@contextmanager
def started_peers(kfake_program: Path, kafka_class_path: str | None) -> Iterator[list[PlacementPeer]]:
    """The peers, started and ready: Kafka's two first, if its class path is given."""
    with ExitStack() as stack:
        peers = list(_started(kfake_program, kafka_class_path, stack))
        for peer in peers:
            peer.await_ready()
        yield peers


def _started(kfake_program: Path, kafka_class_path: str | None, stack: ExitStack) -> Iterator[PlacementPeer]:
    def start(name: str, command: Sequence[str], maker: Maker, tool: str | None = None) -> PlacementPeer:
        return stack.enter_context(PlacementPeer(name, command, maker, tool))

    if kafka_class_path is not None:
        striped, admin_utils = _build(kafka_class_path)
        java, version = ["java", *JVM_OPTIONS, "-cp"], _version(admin_utils, "kafka-server-common")
        yield start(f"AdminUtils {version}", [*java, admin_utils, "AdminUtilsPeer"], Maker.KAFKA)
        version = _version(striped, "kafka-metadata")
        tool = f"ReassignPartitionsCommand {_version(striped, 'kafka-tools')}"
        yield start(f"StripedReplicaPlacer {version}", [*java, striped, "StripedPeer"], Maker.KAFKA, tool)
    yield start("kfake", [str(kfake_program.with_name(f"{kfake_program.name}-placement"))], Maker.KFAKE)


def _build(kafka_class_path: str) -> list[str]:
    """Class paths of the two programs, which are built if that was not done."""
    command = [str(PEERS / "placement" / "build"), kafka_class_path]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=BUILD_SECONDS)
    return done.stdout.splitlines()


def _version(class_path: str, jar: str) -> str:
    folder = Path(class_path.rsplit(os.pathsep, maxsplit=1)[-1]).parent
    (found,) = folder.glob(f"{jar}-[0-9]*.jar")
    return found.stem.removeprefix(f"{jar}-")


def _rows(file: Path, shape: Shape) -> npt.NDArray[np.int32]:
    return np.fromfile(file, dtype="<i4").reshape(shape.partitions, shape.replication_factor).astype(np.int32)
