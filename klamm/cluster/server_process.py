"""`klamm serve` as a child process, for programs that do not run trio, such as tests with any Kafka client.

This module relies only on what the command line documents: the ready lines on stdout, SIGTERM, and the exit code.
Programs that run trio use `klamm.Cluster` instead.
"""

import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal, Self, Unpack

from klamm.cluster.arguments import ClusterArguments
from klamm.cluster.client_config_methods import ClientConfigVerbs
from klamm.cluster.client_configs import Access, access_of
from klamm.cluster.given_arguments import gives, has_throw_away_tls, listener_names, listens, values_of
from klamm.cluster.security_options import decode_user
from klamm.cluster.warm_process import NoWarmProcess, WarmFork, shared_warm_process
from klamm.cluster.words import words_of
from klamm.control.clock_verbs import ClockVerbs
from klamm.control.fault_verbs import FaultVerbs
from klamm.control.request_verbs import RequestVerbs
from klamm.control.scenario_verbs import ScenarioVerbs
from klamm.control.steering_verbs import SteeringVerbs

if TYPE_CHECKING:
    from klamm.control.client import ControlClient, ControlledBroker, TakenSnapshot
    from klamm.control.recorded import IsolationLevel, Record

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "KLAMM_COMMAND"
"""The variable with the command that runs `klamm`, quoted as in a shell, such as "pipx run klamm"."""
READY_SECONDS = 30.0
STOP_SECONDS = 20.0
WAIT_SECONDS = 10.0
POLL_SECONDS = 0.01
SHOWN_BYTES = 4000
"""The bytes at the end of stderr that are part of an error message."""
MAX_STDERR_BYTES = 1 << 20
SERVERS = "bootstrap.servers"
LISTENER = "listener."
"""The start of the ready line of each further broker listener, `listener.NAME=HOST:PORT,…`."""
CONTROLLERS = "controller.quorum.bootstrap.servers"
TLS_FILES = "tls.files"
"""The start of the ready line with the directory of the throw-away certificates."""
CONTROL = "control"
CONTROL_CA = "control.ca"

__tracebackhide__ = True
"""pytest shows the line of the test that called, not the frames of this module."""


class ServerFailed(Exception):
    """The server failed to start or to stop. The text contains the end of its stderr."""


class ServerProcess(FaultVerbs, RequestVerbs, ClockVerbs, SteeringVerbs, ScenarioVerbs, ClientConfigVerbs):
    """A running `klamm serve` for programs without trio, such as a fixture for tests with any Kafka client:

        @pytest.fixture(scope="session")
        def bootstrap_servers():
            with klamm.ServerProcess(brokers=3) as server:
                yield server.bootstrap_servers

    Args:
        arguments: command-line arguments of `klamm serve`, such as `"--broker-set", "2:num.partitions=4"`.
        options: options with the names and values of `klamm.Cluster`, such as `brokers=3` or `broker_configs={2:
            {"num.partitions": "4"}}`. Without an address in the options, the arguments or the file `config`, the
            brokers listen on free ports of 127.0.0.1. Variables do not change this.
        command: the command that runs `klamm`. The default is the variable KLAMM_COMMAND, or `python -m klamm` with
            this process's Python.
        control: start the control interface (docs/control.md). The methods of this class need it. Other programs can
            use it at `control_url`.
        environment: variables of the server, in addition to those of this process.
        stop_seconds: the time limit for the server to end after SIGTERM, in seconds.
        warm: fork the server from a process that has imported Klamm. That process starts with the first such server and
            ends with this process. Further servers are ready in about 30 ms. If `command` does not support this, as in
            a container, `warm` has no effect.

    Entering and leaving the block may raise `ServerFailed`. If this process is killed, the server stops by itself. The
    methods that change brokers return when the metadata shows the change. They raise `ControlError`."""

    def __init__(
        self,
        *arguments: str,
        command: Sequence[str] | None = None,
        control: bool = False,
        environment: Mapping[str, str] | None = None,
        stop_seconds: float = STOP_SECONDS,
        warm: bool = False,
        **options: Unpack[ClusterArguments],
    ) -> None:
        try:
            words = words_of(options)
        except ValueError as error:
            raise ServerFailed(f"klamm serve was not started: {error}") from error
        arguments = (*(word for some in words.values() for word in some), *arguments)
        listen = () if listens(arguments) else ("--listen", "127.0.0.1:0")
        controls = ("--control", "127.0.0.1:0") if control and not gives(arguments, "--control") else ()
        given = ("serve", "--stop-with-stdin", *listen, *controls, *arguments)
        by_variable = shlex.split(os.environ.get(COMMAND, ""))
        self._klamm = tuple(command or by_variable or (sys.executable, "-P", "-m", "klamm"))
        self._named_by_variable = not command and bool(by_variable)
        self._given = given
        self._warm = warm
        # A checkout has to be on the path. Where Klamm is installed, its parent directory must not precede the standard
        # library.
        checkout = str(ROOT) if (ROOT / "pyproject.toml").exists() else None
        path = os.pathsep.join(filter(None, (checkout, os.environ.get("PYTHONPATH"))))
        self._environment = {**os.environ, "PYTHONPATH": path, **(environment or {})}
        lines = sum(gives(given, option) for option in ("--controller-listener", "--control"))
        lines += "auto" in values_of(given, "--control-tls")
        self._expected_lines = len(listener_names(given)) + lines + has_throw_away_tls(given)
        self._tls_files: Path | None = None
        self._stop_seconds = stop_seconds
        self._is_up = False
        self._stderr: IO[bytes] | None = None
        self._last_stderr = b""
        self._bootstrap_servers = ""
        self.listeners: dict[str, str] = {}
        self.controller_bootstrap_servers = ""
        self.control_url = self._control_ca = ""

    def __repr__(self) -> str:
        if not self._is_up:
            return "<klamm.ServerProcess, not running>"
        control = f", control={self.control_url}" if self.control_url else ""
        return f"<klamm.ServerProcess {self._bootstrap_servers}, process {self.process_id}{control}>"

    def __enter__(self) -> Self:
        self._stderr, self._last_stderr = tempfile.TemporaryFile(), b""
        try:
            self._process = self._start(self._stderr.fileno())
        except ServerFailed:
            self._stderr.close()
            self._stderr = None
            raise
        try:
            self._await_ready()
        except BaseException:
            self._end()
            raise
        self._is_up = True
        return self

    def _start(self, stderr: int) -> "subprocess.Popen[bytes] | WarmFork":
        """The server's process, with pipes to its stdin and from its stdout."""
        if self._warm:
            with suppress(NoWarmProcess):
                warm = shared_warm_process(self._klamm, self._environment)
                return warm.start(self._given, self._environment, stderr)
        # In a process group of its own its children can be found, and Ctrl-C in this process's terminal does not
        # reach it.
        try:
            return subprocess.Popen(
                [*self._klamm, *self._given],
                stdin=subprocess.PIPE,  # it is closed when this process ends in any way, and then the server stops
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=self._environment,
                start_new_session=True,
            )
        except OSError as error:
            named = f"the variable {COMMAND} names a command that" if self._named_by_variable else "the command"
            raise ServerFailed(
                f"klamm serve was not started: {named} cannot be run: {self._klamm[0]}: {error.strerror}"
            ) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process.returncode is None and error is None:
            self.stop()
        else:
            self._end()

    @property
    def bootstrap_servers(self) -> str:
        """The brokers' addresses, HOST:PORT,…, for a client's `bootstrap.servers`. Raises ServerFailed before the
        start."""
        if not self._bootstrap_servers:
            raise ServerFailed("klamm serve is not started: bootstrap_servers is known inside the with block")
        return self._bootstrap_servers

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def control(self) -> "ControlClient":
        """A client of the control interface. Raises `ControlError` without `control=True`, and outside the block."""
        from klamm.control.client import ControlClient, ControlUnreachable
        from klamm.control.tokens import read_token

        if not self.control_url:
            missing = "needs control=True" if self._is_up else "is available only inside the with block"
            raise ControlUnreachable(f"the control interface of klamm serve {missing}")
        files = [value for value in values_of(self._given, "--control-token") if value and not value.startswith("-")]
        token = read_token(Path(files[-1])) if files else None
        return ControlClient(self.control_url, token, ca_file=self._control_ca or None)

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        """The JSON of the response to a request of the control interface, such as `ask("GET", "/brokers")`."""
        return self.control.ask(method, path, body)

    def stderr_text(self) -> str:
        """The server's stderr, at most its last MiB: warnings, tracebacks, and the output of a policy.

        It can also be called after the block.
        """
        return self._written(MAX_STDERR_BYTES).decode(errors="replace")

    def brokers(self) -> "tuple[ControlledBroker, ...]":
        """All simulated brokers, by id."""
        return self.control.brokers()

    def stop_broker(self, broker_id: int, mode: Literal["shutdown", "crash"] = "shutdown") -> None:
        """Stop a broker. After a shutdown, it is fenced. After a crash, it is fenced when its session expires."""
        self.control.stop_broker(broker_id, mode)

    def kill_broker(self, broker_id: int) -> None:
        """Crash a broker: its connections are closed at once, and it is fenced when its session expires."""
        self.control.kill_broker(broker_id)

    def start_broker(self, broker_id: int) -> None:
        """Start a stopped broker on its former ports. After a crash, this waits until its former session has
        expired."""
        self.control.start_broker(broker_id)

    def add_broker(self, rack: str | None = None) -> int:
        """Start one more broker, in `rack` or in the next rack in turn. Returns its id."""
        return self.control.add_broker(rack)

    def remove_broker(self, broker_id: int) -> None:
        """Shut a broker down, if it is up, and unregister it."""
        self.control.remove_broker(broker_id)

    def snapshot(self) -> "TakenSnapshot":
        """Write a snapshot of the metadata log to the data directory."""
        return self.control.snapshot()

    def restart_twin(self) -> str:
        """Discard the changes in a twin (`--follow`), and begin again with the present metadata of its source. Returns
        the bootstrap servers when the twin has restarted. The attributes with addresses have the new ones."""
        self.control.restart_twin()
        self._await_ready()
        return self.bootstrap_servers

    def create_topic(
        self,
        name: str,
        num_partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, str | float] | None = None,
    ) -> None:
        """Create a topic. Returns when the metadata has it. None means the broker's default."""
        self.control.create_topic(name, num_partitions, replication_factor, configs)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records. Returns when the metadata no longer has it."""
        self.control.delete_topic(name)

    def records(
        self,
        topic: str,
        partition: int | None = None,
        *,
        isolation_level: "IsolationLevel" = "read_uncommitted",
        max_bytes: int | None = None,
    ) -> "tuple[Record, ...]":
        """All records of a topic or of one partition, uncompressed, as `klamm.ControlClient.records` returns them.
        `max_bytes`: None is 64 MiB."""
        most = {} if max_bytes is None else {"max_bytes": max_bytes}
        return self.control.records(topic, partition, isolation_level=isolation_level, **most)

    def wait_until(self, condition: Callable[[], object], timeout_seconds: float = WAIT_SECONDS) -> None:
        """Call `condition` every few milliseconds until its value is true. Raises `TimeoutError` after
        `timeout_seconds`. Exceptions of `condition` are raised, too."""
        deadline = time.monotonic() + timeout_seconds
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the condition was not true within {timeout_seconds:g} s")
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """Send SIGTERM and wait. Raises `ServerFailed` if the exit code is not 0, or if a child process remains."""
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(self._stop_seconds)
        except subprocess.TimeoutExpired:
            failure = self._failure(f"did not end within {self._stop_seconds:g} s of SIGTERM")
            self._end()
            raise failure from None
        left_over = self._group_lives()
        failure = self._failure(f"ended with exit code {code}" if code else "left a process behind")
        self._end()
        if code or left_over:
            raise failure

    def _access(self, user: str | None, mechanism: str) -> Access:
        users = dict(map(decode_user, values_of(self._given, "--user")))
        security = next(iter(values_of(self._given, "--security")), None)
        if gives(self._given, "--tls"):
            security = "sasl_ssl" if users else "ssl"
        return access_of(self.bootstrap_servers, security, users, user, mechanism, self._tls_files)

    def _await_ready(self) -> None:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        deadline = time.monotonic() + READY_SECONDS
        written = b""
        while written.count(b"\n") < self._expected_lines:
            if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise self._failure(f"was not ready within {READY_SECONDS:g} s")
            chunk = os.read(descriptor, 4096)
            if not chunk:
                raise self._failure(f"ended with exit code {self._process.wait()} before it was ready")
            written += chunk
        self.listeners = {}
        for line in written.decode().splitlines():
            self._take_ready_line(line)

    def _take_ready_line(self, line: str) -> None:
        name, _, value = line.partition("=")
        if name == SERVERS:
            self._bootstrap_servers = value
        elif name.startswith(LISTENER):
            self.listeners[name.removeprefix(LISTENER)] = value
        elif name == CONTROLLERS:
            self.controller_bootstrap_servers = value
        elif name == TLS_FILES:
            self._tls_files = Path(value)
        elif name == CONTROL_CA:
            self._control_ca = value
        elif name == CONTROL:
            self.control_url = value
        else:
            raise self._failure(f"wrote to stdout: {line!r}")

    def _group_lives(self) -> bool:
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def _failure(self, reason: str) -> ServerFailed:
        text = self._written(SHOWN_BYTES).decode(errors="replace")
        if self._klamm[0] == sys.executable and "the package 'trio' is missing" in text:
            reason, text = f"needs trio, which this Python lacks: {COMMAND} can name a command that runs klamm", ""
        return ServerFailed(f"klamm serve {reason}\n{text}".strip())

    def _written(self, most_bytes: int) -> bytes:
        """The last bytes of the server's stderr."""
        if self._stderr is None:
            return self._last_stderr[-most_bytes:]
        # Not read(): both processes share the file position, and the server writes at it.
        descriptor = self._stderr.fileno()
        return os.pread(descriptor, most_bytes, max(0, os.fstat(descriptor).st_size - most_bytes))

    def _end(self) -> None:
        """Kill the process group if it still runs, and close the pipes."""
        if self._group_lives():
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._is_up = False
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        if self._stderr is not None:
            self._last_stderr = self._written(MAX_STDERR_BYTES)
            self._stderr.close()
            self._stderr = None
