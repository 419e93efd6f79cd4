"""Runs Java programs, each in its own process group, with limits on time and heap, and its output in files.

At most one runs at a time. When the block ends for any reason, the whole process group is ended.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tools.toolchain_checks.program import ended_group
from tools.toolchain_checks.report import CheckFailed

POLL_SECONDS = 0.05
STOP_SECONDS = 60.0
TOLD_BYTES = 3000
# Processes that live for seconds: the serial collector, the fast compiler, no more memory than a CI machine has.
_OPTIONS = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Duser.timezone=UTC",
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Java:
    """How to run a class of the jars; the output of programs goes into `folder`."""

    program: str
    class_path: str
    folder: Path

    @contextmanager
    def running(
        self, name: str, main_class: str, arguments: Sequence[str], properties: Mapping[str, str] | None = None
    ) -> Iterator["JavaProcess"]:
        """The running program; its output is in `name`.out and `name`.err."""
        output, errors = self.folder / f"{name}.out", self.folder / f"{name}.err"
        defined = [f"-D{key}={value}" for key, value in (properties or {}).items()]
        with output.open("wb") as out, errors.open("wb") as err:
            process = subprocess.Popen(
                [self.program, *_OPTIONS, *defined, "-cp", self.class_path, main_class, *arguments],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                cwd=self.folder,
                env={**os.environ, "TERM": "dumb", "LC_ALL": "C.UTF-8"},
                start_new_session=True,
            )
        try:
            with ended_group(process):
                yield JavaProcess(name, process, output, errors)
        finally:
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.close()

    def run(self, name: str, main_class: str, arguments: Sequence[str], seconds: float) -> Path:
        """Run a program to its end. Returns the file with its output. Raises `CheckFailed` unless it ends with exit
        code 0 within `seconds`."""
        with self.running(name, main_class, arguments) as process:
            process.wait_end(seconds)
        return process.output


@dataclass(frozen=True, slots=True)
class JavaProcess:
    """One running program."""

    name: str
    process: subprocess.Popen[bytes]
    output: Path
    errors: Path

    def tell(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.failure("reads no more") from None

    def wait_for(self, what: str, look: Callable[[], T | None], seconds: float) -> T:
        """Wait until `look` finds something; raises `CheckFailed` if the program or the time ends before that."""
        deadline = time.monotonic() + seconds
        while (found := look()) is None:
            if self.process.poll() is not None:
                raise self.failure(f"ended with exit code {self.process.returncode} before {what}")
            if time.monotonic() > deadline:
                raise self.failure(f"was too slow: {what} did not happen within {seconds:.0f} s")
            time.sleep(POLL_SECONDS)
        return found

    def wait_end(self, seconds: float) -> None:
        """Wait until the program ends by itself, with exit code 0."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise self.failure(f"did not end within {seconds:.0f} s") from None
        if code:
            raise self.failure(f"ended with exit code {code}")

    def stop(self) -> None:
        """Send SIGTERM and wait for the end; raises `CheckFailed` if it does not come."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise self.failure(f"did not end within {STOP_SECONDS:.0f} s of SIGTERM") from None
        if code not in (0, 128 + signal.SIGTERM):  # The latter is a JVM's exit code after SIGTERM.
            raise self.failure(f"ended with exit code {code} after SIGTERM")

    def failure(self, reason: str) -> CheckFailed:
        """A failed check that shows the end of the program's output."""
        reported = "\n".join(
            path.read_bytes()[-TOLD_BYTES:].decode(errors="replace") for path in (self.output, self.errors)
        ).strip()
        return CheckFailed(f"{self.name} {reason}\n{reported}")
