"""Servers to measure, each in a process of its own: Klamm, kfake, Apache Kafka, and a bare trio echo.

A server is a context manager: entering it waits for its ready line and times that; leaving it stops the process and
whatever it started, within a deadline. Ports lie outside the kernel's range for outgoing connections, on loopback.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.toolchain_checks.ports import free_ports

ROOT = Path(__file__).resolve().parent.parent
READY_SECONDS = 60.0
STOP_SECONDS = 20.0
TOLD_BYTES = 2_000
NANOSECONDS = 1e9
READY_PREFIX = b"bootstrap.servers="
BROKERS = 3
"""The default number of Klamm's brokers."""


class ServerFailed(Exception):
    """A server did not start; the text has the end of what it wrote to stderr."""


def cpu_seconds_of(process_id: int) -> float:
    """The CPU seconds of all threads of a process so far, without those that have ended."""
    total = 0
    for thread in Path(f"/proc/{process_id}/task").iterdir():
        with contextlib.suppress(OSError):
            total += int((thread / "schedstat").read_text().split()[0])
    return total / NANOSECONDS


def clean_environment(bytecode_dir: Path, root: Path = ROOT) -> dict[str, str]:
    """The environment for a process that imports Klamm from `root`, without the caller's PYTHON… and KAFKA_… variables:
    the former would be measured, too, and the latter are configs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KAFKA_"))}
    return {**kept, "PYTHONPATH": str(root), "PYTHONPYCACHEPREFIX": str(bytecode_dir)}


class ServerProcess:
    """A server that writes `bootstrap.servers=HOST:PORT,…` to stdout when it is ready."""

    name = "server"

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._command = command
        self._environment = environment
        self.seconds_to_ready = 0.0
        self.addresses: list[tuple[str, int]] = []

    def __enter__(self) -> Self:
        self._stderr = tempfile.TemporaryFile()
        started = time.perf_counter()
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=self._environment,
            start_new_session=True,
        )
        try:
            servers = self._await_ready(time.monotonic() + READY_SECONDS)
            self.seconds_to_ready = time.perf_counter() - started
            pairs = [server.rpartition(":") for server in servers.split(",")]
            self.addresses = [(host.strip("[]"), int(port)) for host, _, port in pairs]
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        if error is not None and (reported := self._told()):
            error.add_note(f"{self.name} wrote:\n{reported}")
        self._end()

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def resident_bytes(self) -> int:
        """The memory of the process that is in RAM (VmRSS)."""
        return self._kibibytes("status", "VmRSS:")

    @property
    def proportional_bytes(self) -> int:
        """The same with shared pages divided by the number of processes that share them (PSS); 0 where the kernel lacks
        it."""
        with contextlib.suppress(OSError):
            return self._kibibytes("smaps_rollup", "Pss:")
        return 0

    @property
    def cpu_seconds(self) -> float:
        """The CPU seconds of all threads of the process so far, without those that have ended."""
        return cpu_seconds_of(self._process.pid)

    def _kibibytes(self, file: str, label: str) -> int:
        for line in Path(f"/proc/{self._process.pid}/{file}").read_text().splitlines():
            if line.startswith(label):
                return int(line.split()[1]) * 1024
        return 0

    def end(self, number: signal.Signals, seconds: float) -> None:
        """Send the process a signal, and wait until it has ended. Leaving the block afterwards does no harm."""
        self._process.send_signal(number)
        self._process.wait(seconds)

    def _await_ready(self, deadline: float) -> str:
        """The text after `bootstrap.servers=`; `deadline` is on the monotonic clock."""
        reported = self._read_until(b"\n", deadline)
        line = reported.partition(b"\n")[0]
        if not line.startswith(READY_PREFIX):
            raise self._failure(f"wrote {line!r}")
        return line.removeprefix(READY_PREFIX).decode()

    def _read_until(self, wanted: bytes, deadline: float) -> bytes:
        """What the process has written to stdout when `wanted` is in it."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        reported = b""
        while wanted not in reported:
            if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise self._failure(f"was not ready within {READY_SECONDS:g} s")
            chunk = os.read(descriptor, 4096)
            if not chunk:
                raise self._failure(f"ended with exit code {self._process.wait()} before it was ready")
            reported += chunk
        return reported

    def _failure(self, reason: str) -> ServerFailed:
        return ServerFailed(f"{self.name} {reason}\n{self._told()}".strip())

    def _told(self) -> str:
        """The end of what the server wrote to stderr."""
        self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - TOLD_BYTES))
        return self._stderr.read().decode(errors="replace").strip()

    def _end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._stderr.close()


class Klamm(ServerProcess):
    """`klamm serve` with the Python that runs the comparison, its bytecode kept in `bytecode_dir`.

    A developer's PYTHON… variables would be measured, too (without bytecode a start takes three times as long), and
    KAFKA_… ones are configs.
    """

    name = "klamm"

    def __init__(
        self,
        bytecode_dir: Path,
        *options: str,
        brokers: int = BROKERS,
        command: Sequence[str] | None = None,
        root: Path = ROOT,
    ) -> None:
        reported = ("serve", "--listen", f"127.0.0.1:{free_ports(brokers)}", "--brokers", str(brokers))
        super().__init__(
            [*(command or (sys.executable, "-P", "-m", "klamm")), *reported, *options],
            clean_environment(bytecode_dir, root),
        )


class OtherKlamm(Klamm):
    """Klamm of another working tree in place of kfake, with kfake's options, to compare two states of Klamm."""

    def __init__(self, root: Path, bytecode_dir: Path, *options: str, brokers: int = BROKERS) -> None:
        ours = ["--data-dir" if option == "-data-dir" else option for option in options]
        super().__init__(bytecode_dir, *ours, brokers=brokers, root=root)
        self.name = "kfake"


class Kfake(ServerProcess):
    """franz-go's kfake, by default with three brokers like Klamm."""

    name = "kfake"

    def __init__(self, program: Path, *options: str, brokers: int = BROKERS) -> None:
        super().__init__([str(program), "-first-port", str(free_ports(brokers)), "-brokers", str(brokers), *options])


class Echo(ServerProcess):
    """A bare trio server that answers each frame with one of `answer_bytes`: the least time of any server on trio."""

    name = "trio echo"

    def __init__(self, answer_bytes: int) -> None:
        super().__init__([sys.executable, "-P", "-m", "bench.echo_server", str(free_ports(1)), str(answer_bytes)])
