"""`klamm serve` as it is treated here: started on a directory that may hold anything, and killed at any moment.

`klamm.ServerProcess` is for servers that are expected to start and to end well. Of this one everything is wanted that
it says: its ready lines, its exit code, and all that it wrote to stderr.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import trio

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60.0
STOP_SECONDS = 60.0
MAX_SAID_CHARACTERS = 600


class NotReady(Exception):
    """The server did not come up: what it said, as one line."""


class Server:
    """One process. It ends with us, because its stdin does."""

    def __init__(self, arguments: Sequence[str], stderr: Path, *, control: bool) -> None:
        self._command = [sys.executable, "-P", "-m", "klamm", "serve", "--listen", "127.0.0.1:0", "--stop-with-stdin"]
        self._command += ["--control", "127.0.0.1:0"] if control else []
        self._command += arguments
        self._lines = 2 if control else 1
        self._stderr = stderr
        self.bootstrap_servers = ""
        self.control_url: str | None = None
        self.was_ready = False

    async def start(self) -> None:
        """Start the process; it is not ready yet."""
        with self._stderr.open("wb") as stderr:
            self._process = await trio.lowlevel.open_process(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                start_new_session=True,
            )

    async def await_ready(self) -> None:
        """Return when clients may connect. Raises NotReady."""
        assert self._process.stdout is not None
        told = b""
        with trio.move_on_after(START_SECONDS):
            while told.count(b"\n") < self._lines:
                chunk = await self._process.stdout.receive_some(4096)
                if not chunk:
                    code = await self._process.wait()
                    raise NotReady(f"ended with exit code {code} before it was ready: {self.said() or 'no word'}")
                told += chunk
        lines = dict(line.split("=", 1) for line in told.decode().splitlines())
        if len(lines) < self._lines:
            raise NotReady(f"was not ready within {START_SECONDS:g} s: {self.said() or 'no word'}")
        self.bootstrap_servers, self.control_url = lines["bootstrap.servers"], lines.get("control")
        self.was_ready = True

    def kill(self) -> None:
        """SIGKILL, at once. May be called from any thread, and after its end."""
        self._process.send_signal(signal.SIGKILL)

    async def stop(self) -> int:
        """SIGTERM, and its exit code."""
        self._process.send_signal(signal.SIGTERM)
        with trio.move_on_after(STOP_SECONDS):
            await self._process.wait()
        return await self.reap()

    async def reap(self) -> int:
        """Kill it if it lives; its exit code, and nothing of it is left."""
        with trio.CancelScope(shield=True):
            self.kill()
            code = await self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    await pipe.aclose()
        return code

    def said(self) -> str:
        """The end of what it wrote to stderr, on one line."""
        lines = self._stderr.read_text(errors="replace").split("\n")
        return " | ".join(line.strip() for line in lines if line.strip())[-MAX_SAID_CHARACTERS:]
