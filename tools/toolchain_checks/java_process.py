"""Runs Java programs, each in its own process group, with limits on time and heap, and its output in files.

When the block of a program ends for any reason, its whole process group is ended. Kafka's tools run in one process, one
after the other, where `tools_in_one_process` has made that possible: a JVM of its own takes each of them a second.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from tools.toolchain_checks.program import ended_group
from tools.toolchain_checks.report import CheckFailed

POLL_SECONDS = 0.02
STOP_SECONDS = 240.0
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

_TOOLS = ("org.apache.kafka.tools.", "kafka.admin.", "kafka.tools.", "Messages")
"""The beginnings of the names of classes that can run one after the other in a process."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Java:
    """How to run a class of the jars; the output of programs goes into `folder`."""

    program: str
    class_path: str
    folder: Path
    tools: "ToolsProcess | None" = None
    """The process in which `run` calls Kafka's tools; None: each has its own."""

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

    def run(
        self, name: str, main_class: str, arguments: Sequence[str], seconds: float, lines: Iterable[str] = ()
    ) -> Path:
        """Run a program to its end, with these lines as its input. Returns the file with its output. Raises
        `CheckFailed` unless it ends with exit code 0 within `seconds`."""
        if self.tools is not None and main_class.startswith(_TOOLS):
            return self.tools.run(self.folder / name, main_class, arguments, seconds, lines)
        with self.running(name, main_class, arguments) as process:
            for line in lines:
                process.tell(line)
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
        return _failure(self.name, reason, self.output, self.errors)


class ToolsProcess:
    """One process of the class `Tools` (tools/conformance/java). It is started with the first call, and again after a
    call that did not end."""

    def __init__(self, java: Java, stack: ExitStack) -> None:
        self._java = java
        self._stack = stack
        self._starts = 0
        self._calls = 0
        self._process: JavaProcess | None = None

    def run(self, path: Path, main_class: str, arguments: Sequence[str], seconds: float, lines: Iterable[str]) -> Path:
        """Call the main method of a class. Its output is in `path` with the suffix .out. Raises `CheckFailed` unless it
        ends with exit code 0 within `seconds`."""
        given, output, errors = (path.parent / f"{path.name}.{suffix}" for suffix in ("in", "out", "err"))
        given.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        process = self._running()
        self._calls += 1
        files = {"input": str(given), "output": str(output), "errors": str(errors)}
        process.tell(json.dumps({"main": main_class, "arguments": list(arguments), **files}))
        try:
            code = process.wait_for(f"the end of {path.name}", lambda: self._code(process), seconds)
        except CheckFailed as failure:
            process.process.kill()
            process.process.wait()
            raise _failure(path.name, f"did not end: {failure}", output, errors) from None
        if code:
            raise _failure(path.name, f"ended with exit code {code}", output, errors)
        return output

    def _running(self) -> JavaProcess:
        if self._process is None or self._process.process.poll() is not None:
            self._starts += 1
            self._calls = 0
            name = f"tools-{self._starts}"
            self._process = self._stack.enter_context(self._java.running(name, "Tools", ()))
        return self._process

    def _code(self, process: JavaProcess) -> int | None:
        """The exit code of the last call; None: it has not ended."""
        codes = [
            line for line in process.output.read_text(encoding="utf-8").splitlines(keepends=True) if line[-1:] == "\n"
        ]
        codes = [line.split()[1] for line in codes if line.startswith("exit ")]
        return int(codes[-1]) if len(codes) == self._calls else None


@contextmanager
def tools_in_one_process(java: Java) -> Iterator[Java]:
    """The same with a process for all tools, which ends with the block. `java` has the class `Tools`."""
    with ExitStack() as stack:
        yield replace(java, tools=ToolsProcess(java, stack))


def _failure(name: str, reason: str, output: Path, errors: Path) -> CheckFailed:
    reported = "\n".join(
        path.read_bytes()[-TOLD_BYTES:].decode(errors="replace") for path in (output, errors) if path.exists()
    ).strip()
    return CheckFailed(f"{name} {reason}\n{reported}")
