"""Starts `klamm serve` quickly: as forks of a process that has already imported all of it (`klamm warm`).

The imports take most of the time of a start. The warm process makes them once, and each server is then a process of its
own, forked from it: it has the descriptors, the environment, the working directory and the session that
`subprocess.Popen` would have given it. The warm process ends with the process that started it, however that ends.

Forks are asked for over the socket that is the stdin of the warm process: one message of JSON for each, with four
descriptors: those that become 0, 1 and 2 of the server, and a socket on which the warm process reports the process id,
and later the exit status, as decimal numbers of one line each.

This module needs nothing but the standard library.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Final

READY_SECONDS: Final = 30.0
HELLO: Final = b"warm\n"
"""What the warm process sends once it can fork."""
HEAD_BYTES: Final = 4
"""Each message begins with its length in bytes, as a big-endian number; the descriptors come with the first byte."""
ENVIRONMENT_OF_PYTHON: Final = "PYTHON"
"""Variables whose names begin so act on an interpreter when it starts, which a fork does not do."""


class NoWarmProcess(Exception):
    """The command cannot start a warm process here, or the warm process has ended."""


class WarmFork:
    """A server that was forked from a warm process, with the part of `subprocess.Popen` that `ServerProcess` needs."""

    def __init__(self, pid: int, reports: socket.socket, stdin: int, stdout: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdin = os.fdopen(stdin, "wb", 0)
        self.stdout = os.fdopen(stdout, "rb", 0)
        self._reports = reports

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the server has ended."""
        if self.returncode is None and not select.select([self._reports], [], [], 0)[0]:
            os.kill(self.pid, number)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, negative after a signal. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._reports], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("klamm serve", timeout or 0.0)
            line = _read_line(self._reports)
            # Without a report the warm process was killed, and the exit status went to another parent.
            self.returncode = int(line) if line else -signal.SIGKILL
            self._reports.close()
        return self.returncode


class WarmProcess:
    """A process that servers are forked from. Its methods may be called by several threads."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start `command` with the argument `warm`. Raises NoWarmProcess if it does not become ready."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [*command, "warm"],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=dict(environment),
                    start_new_session=True,  # Ctrl-C in this process's terminal does not reach it
                )
            except OSError as error:
                ours.close()
                raise NoWarmProcess(str(error)) from error
        self._socket = ours
        self._lock = threading.Lock()
        ours.settimeout(READY_SECONDS)
        if self._hello() != HELLO:
            self.close()
            raise NoWarmProcess(f"{command[0]} did not become a warm process")

    @property
    def process_id(self) -> int:
        return self._process.pid

    def _hello(self) -> bytes:
        try:
            return _read_line(self._socket) + b"\n"
        except OSError:
            return b""

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], stderr: int) -> WarmFork:
        """Fork `klamm` with these arguments. Its stdin and stdout are pipes. Raises NoWarmProcess."""
        message = json.dumps(
            {
                "arguments": list(arguments),
                "environment": dict(environment),
                "directory": os.getcwd(),  # noqa: PTH109 - a text is needed
            }
        ).encode()
        stdin, ours_in = os.pipe()
        ours_out, stdout = os.pipe()
        ours, theirs = socket.socketpair()
        passed = [stdin, stdout, stderr, theirs.fileno()]
        try:
            with self._lock:
                socket.send_fds(self._socket, [len(message).to_bytes(HEAD_BYTES)], passed)
                self._socket.sendall(message)
            ours.settimeout(READY_SECONDS)
            theirs.close()
            line = _read_line(ours)
            if not line:
                raise NoWarmProcess("the warm process has ended")
        except (OSError, NoWarmProcess) as error:
            for descriptor in (ours_in, ours_out):
                os.close(descriptor)
            ours.close()
            raise NoWarmProcess(str(error)) from error
        finally:
            os.close(stdin)
            os.close(stdout)
            theirs.close()
        return WarmFork(int(line), ours, ours_in, ours_out)

    def close(self) -> None:
        """End the warm process. Servers that were forked from it go on."""
        self._socket.close()
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _read_line(source: socket.socket) -> bytes:
    """The next line without its end; empty at the end of the stream. Lines are short."""
    line = bytearray()
    while (byte := source.recv(1)) not in (b"", b"\n"):
        line += byte
    return bytes(line) if byte else b""


_Key = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]
_shared: dict[_Key, WarmProcess | None] = {}
_sharing = threading.Lock()


def shared_warm_process(command: Sequence[str], environment: Mapping[str, str]) -> WarmProcess:
    """The warm process of this process for this command and environment, which is started on the first call. It ends
    with this process. Raises NoWarmProcess, also on every later call for a command that failed once."""
    of_python = {name: value for name, value in environment.items() if name.startswith(ENVIRONMENT_OF_PYTHON)}
    key = tuple(command), tuple(sorted(of_python.items()))
    with _sharing:
        if key not in _shared:
            if not _shared:
                atexit.register(_close_shared)
            _shared[key] = None
            _shared[key] = WarmProcess(command, environment)
        found = _shared[key]
    if found is None:
        raise NoWarmProcess(f"{command[0]} did not become a warm process before")
    return found


def _close_shared() -> None:
    for warm in _shared.values():
        if warm is not None:
            warm.close()
    _shared.clear()


def _forget_shared() -> None:
    """In a fork of this process: the warm processes belong to the parent."""
    _shared.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget_shared)

__all__ = ["HEAD_BYTES", "HELLO", "NoWarmProcess", "WarmFork", "WarmProcess", "shared_warm_process"]
