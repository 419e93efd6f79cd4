"""Starts `klamm serve` on a directory in any state, and kills it at any moment.

`klamm.ServerProcess` expects a server that starts and stops properly. This class instead gives all results of a start:
the ready lines, the exit code, and the whole stderr.
"""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import trio

from tools.hard_knocks.warm_start import WarmInterpreter

START_SECONDS = 60.0
STOP_SECONDS = 60.0
MAX_SAID_CHARACTERS = 600
READ_BYTES = 4096


class NotReady(Exception):
    """The server did not start: its output as one line."""


class Server:
    """One process. It ends with this process, because its stdin does."""

    def __init__(self, arguments: Sequence[str], stderr: Path, interpreter: WarmInterpreter, *, control: bool) -> None:
        self._arguments = ["--listen", "127.0.0.1:0", "--stop-with-stdin"]
        self._arguments += ["--control", "127.0.0.1:0"] if control else []
        self._arguments += arguments
        self._lines = 2 if control else 1
        self._stderr = stderr
        self._interpreter = interpreter
        self.bootstrap_servers = ""
        self.control_url: str | None = None
        self.was_ready = False
        self._code: int | None = None

    async def start(self) -> None:
        """Start the process; it is not ready yet."""
        stdin, self._stdin = os.pipe()
        reported, stdout = os.pipe()
        self._stdout = trio.lowlevel.FdStream(reported)
        with self._stderr.open("wb") as stderr:
            given = (stdin, stdout, stderr.fileno())
            with trio.CancelScope(shield=True):
                self._process_id = await self._interpreter.fork(self._arguments, given)
        os.close(stdin)
        os.close(stdout)

    async def await_ready(self) -> None:
        """Return when clients may connect. Raises NotReady."""
        reported = b""
        with trio.move_on_after(START_SECONDS):
            while reported.count(b"\n") < self._lines:
                chunk = await self._stdout.receive_some(READ_BYTES)
                if not chunk:
                    code = await self._wait()
                    raise NotReady(f"ended with exit code {code} before it was ready: {self.said() or 'no word'}")
                reported += chunk
        lines = dict(line.split("=", 1) for line in reported.decode().splitlines())
        if len(lines) < self._lines:
            raise NotReady(f"was not ready within {START_SECONDS:g} s: {self.said() or 'no word'}")
        self.bootstrap_servers, self.control_url = lines["bootstrap.servers"], lines.get("control")
        self.was_ready = True

    def kill(self) -> None:
        """SIGKILL, at once. May be called from any thread, also after the process has ended."""
        os.kill(self._process_id, signal.SIGKILL)

    async def stop(self) -> int:
        """SIGTERM. Returns the exit code; `reap` removes what is left."""
        os.kill(self._process_id, signal.SIGTERM)
        with trio.move_on_after(STOP_SECONDS):
            await self._wait()
        self.kill()
        return await self._wait()

    async def reap(self) -> int:
        """Kill the process if it runs. Returns its exit code."""
        with trio.CancelScope(shield=True):
            self.kill()
            code = await self._wait()
            await self._stdout.aclose()
            os.close(self._stdin)
        return code

    async def _wait(self) -> int:
        if self._code is None:
            self._code = await self._interpreter.wait()
        return self._code

    def said(self) -> str:
        """The end of its stderr, as one line."""
        lines = self._stderr.read_text(errors="replace").split("\n")
        return " | ".join(line.strip() for line in lines if line.strip())[-MAX_SAID_CHARACTERS:]
