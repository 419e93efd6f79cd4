"""Klamm as the controller of three real 4.3 brokers in three racks; each process can be killed and started again.

All data and output are below one folder. When the block ends for any reason, all processes are ended.
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType

from klamm.control.client import ControlClient
from tools.toolchain_checks.java_process import POLL_SECONDS, STOP_SECONDS, Java, JavaProcess
from tools.toolchain_checks.ports import free_ports
from tools.toolchain_checks.program import ended_group, run_program, with_variables
from tools.toolchain_checks.report import CheckFailed

BROKERS = (1, 2, 3)
RACKS = {1: "a", 2: "b", 3: "c"}
ASKING = 3
"""The broker that asks for the controller (`controller.quorum.bootstrap.servers`). The others know it from their
configs (`controller.quorum.voters`)."""
METADATA_FOLDER = "__cluster_metadata-0"
CLUSTER_ID = "KlammToolchainCluster1"
MOST_SIMULATED = 4
MOST_STRANGERS = 2
_PORTS = 2 * len(BROKERS) + 2 + MOST_SIMULATED + MOST_STRANGERS
START_SECONDS = 240.0
KLAMM_START_SECONDS = 240.0
KLAMM = (sys.executable, "-P", "-m", "klamm")
VARIABLES = {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
_LOGIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_READY = "controller.quorum.bootstrap.servers="
_STARTED = "Kafka Server started"
_LOGGED = {
    "org.slf4j.simpleLogger.log.kafka.server": "info",
    "org.slf4j.simpleLogger.log.org.apache.kafka.server": "info",
}
_BROKERS_CONFIGS = {
    "broker.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "4194304",
}


class JoinedBrokers:
    """The running cluster; see `joined_brokers`."""

    def __init__(
        self,
        java: Java,
        stack: ExitStack,
        configs: Sequence[str],
        first_port: int | None,
        faults: Sequence[Mapping[str, object]] = (),
        users: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._faults = faults
        self._users = users
        self._java = java
        self._stack = stack
        self._configs = configs
        self._first_port = free_ports(_PORTS) if first_port is None else first_port
        self._runs = 0
        self._strangers = 0
        self.data_dir = java.folder / "klamm"
        """Klamm's, in its next run."""
        self.brokers: dict[int, JavaProcess] = {}
        self.klamm: subprocess.Popen[bytes] | None = None
        self.controller = f"127.0.0.1:{self._first_port}"
        self._control = f"127.0.0.1:{self._first_port + len(BROKERS) + 1}"
        self.bootstrap_servers = ",".join(f"127.0.0.1:{self._first_port + broker_id}" for broker_id in BROKERS)
        self.users_servers = ",".join(map(self._users_address, BROKERS))
        """Where users log in."""
        self.first_simulated = f"127.0.0.1:{self._first_port + 2 * len(BROKERS) + 2}"
        """The address of the first of the simulated brokers, which can be `MOST_SIMULATED`."""

    def start_klamm(self, *options: str) -> None:
        """Start Klamm on its data directory, and wait until its listener is open. `options` are about simulated brokers
        (default: there are none)."""
        output, errors = self._java.folder / "klamm.out", self._java.folder / "klamm.err"
        sets = [part for config in self._configs for part in ("--set", config)]
        command = [*KLAMM, "serve", *(options or ("--brokers", "0")), "--cluster-id", CLUSTER_ID, "--dynamic-quorum"]
        command += ["--controller-listener", self.controller, "--data-dir", str(self.data_dir), *sets]
        if self._faults:
            rules = self._java.folder / "faults.json"
            rules.write_text(json.dumps(self._faults), encoding="utf-8")
            command += ["--faults", str(rules), "--control", self._control]
        with output.open("wb") as out, errors.open("ab") as err:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=with_variables(VARIABLES),
                start_new_session=True,
            )
        self.klamm = self._stack.enter_context(ended_group(process))
        deadline = time.monotonic() + KLAMM_START_SECONDS
        while _READY not in output.read_text(encoding="utf-8"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise CheckFailed(f"klamm serve is not ready\n{self.klamms_lines()}")
            time.sleep(POLL_SECONDS)

    def hits(self) -> list[int]:
        """How often each fault rule has applied since Klamm started."""
        return [rule.hits for rule in self.control.faults()]

    @property
    def control(self) -> ControlClient:
        """Klamm's control interface, which is there if there are fault rules."""
        return ControlClient(f"http://{self._control}")

    def stop_klamm(self) -> None:
        """Stop Klamm as SIGTERM does. Raises `CheckFailed` unless it ends with exit code 0."""
        assert self.klamm is not None
        self.klamm.send_signal(signal.SIGTERM)
        code = self.klamm.wait(STOP_SECONDS)
        if code:
            raise CheckFailed(f"its exit code is {code}\n{self.klamms_lines()}")

    def kill_klamm(self) -> None:
        """End Klamm with SIGKILL."""
        assert self.klamm is not None
        self.klamm.kill()
        self.klamm.wait()

    def klamms_lines(self) -> str:
        """What Klamm has written to stderr, in all its runs."""
        return (self._java.folder / "klamm.err").read_text(encoding="utf-8")

    def start_broker(self, broker_id: int) -> None:
        """Start the broker on its directory, and do not wait."""
        self._runs += 1
        properties = self._write_properties(broker_id)
        running = self._java.running(f"joined-{broker_id}-{self._runs}", "kafka.Kafka", [str(properties)], _LOGGED)
        self.brokers[broker_id] = self._stack.enter_context(running)

    def start_stranger(self, broker_id: int, cluster_id: str = CLUSTER_ID) -> JavaProcess:
        """Start a further broker, which may have the id of another one, on a directory of its own. At most
        `MOST_STRANGERS` are possible."""
        self._strangers += 1
        name = f"stranger-{self._strangers}"
        listen = f"127.0.0.1:{self._first_port + _PORTS - self._strangers}"
        properties = self._write_file(name, broker_id, listen, cluster_id, {})
        return self._stack.enter_context(self._java.running(name, "kafka.Kafka", [str(properties)], _LOGGED))

    def await_started(self, broker_id: int) -> None:
        """Wait until the broker is unfenced."""
        process = self.brokers[broker_id]
        process.wait_for(f"{_STARTED!r}", lambda: _STARTED in _text(process.errors) or None, START_SECONDS)

    def stop(self) -> list[str]:
        """Stop the brokers and then Klamm as SIGTERM does. Returns which of them had to be killed."""
        assert self.klamm is not None
        killed = []
        brokers = {f"broker {broker_id}": running.process for broker_id, running in self.brokers.items()}
        for group in (brokers, {"klamm": self.klamm}):
            for process in group.values():
                process.send_signal(signal.SIGTERM)
            for name, process in group.items():
                try:
                    process.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    killed.append(name)
        return killed

    def kill_broker(self, broker_id: int) -> None:
        """End the broker with SIGKILL."""
        process = self.brokers[broker_id].process
        process.send_signal(signal.SIGKILL)
        process.wait()

    def brokers_lines(self) -> Iterator[str]:
        """Every line that a broker has logged, in all its runs."""
        for path in sorted(self._java.folder.glob("joined-*.err")):
            yield from _text(path).splitlines()

    def log_of(self, broker_id: int, topic: str, partition: int) -> bytes:
        """The content of the broker's first segment of this partition; empty if there is none."""
        path = self._data_dir(broker_id) / f"{topic}-{partition}" / f"{0:020}.log"
        return path.read_bytes() if path.exists() else b""

    def metadata_log_of(self, broker_id: int) -> bytes:
        """The broker's copy of the metadata log."""
        segments = sorted((self._data_dir(broker_id) / METADATA_FOLDER).glob("*.log"))
        return b"".join(path.read_bytes() for path in segments)

    def _data_dir(self, broker_id: int) -> Path:
        return self._java.folder / f"broker-{broker_id}"

    def _write_properties(self, broker_id: int) -> Path:
        listen = f"127.0.0.1:{self._first_port + broker_id}"
        configs = self._users_configs(broker_id)
        return self._write_file(f"broker-{broker_id}", broker_id, listen, CLUSTER_ID, configs)

    def _write_file(self, name: str, broker_id: int, listen: str, cluster_id: str, configs: Mapping[str, str]) -> Path:
        """Have Klamm write the file, and format the log directory if it is new; both are called `name`."""
        path, data_dir = self._java.folder / f"{name}.properties", self._java.folder / name
        command = [*KLAMM, "broker-properties", "--id", str(broker_id), "--controller", self.controller]
        command += ["--listen", listen, "--cluster-id", cluster_id, "--log-dir", str(data_dir)]
        if broker_id in RACKS:
            command += ["--rack", RACKS[broker_id]]
        if broker_id == ASKING:
            command.append("--dynamic-quorum")
        printed = run_program(command, KLAMM_START_SECONDS, environment=with_variables(VARIABLES))
        more = "".join(f"{key}={value}\n" for key, value in {**_BROKERS_CONFIGS, **configs}.items())
        path.write_text(printed + more, encoding="latin-1")
        if not (data_dir / "meta.properties").exists():
            arguments = ["format", "--cluster-id", cluster_id, "--config", str(path)]
            self._java.run(f"format-{name}", "kafka.tools.StorageTool", arguments, START_SECONDS)
        return path

    def _users_configs(self, broker_id: int) -> dict[str, str]:
        """A listener for users with passwords, and an authorizer; without a login, clients are superusers."""
        if not self._users:
            return {}
        listeners = f"PLAINTEXT://127.0.0.1:{self._first_port + broker_id},USERS://{self._users_address(broker_id)}"
        passwords = " ".join(f'user_{name}="{password}"' for name, password in self._users.items())
        return {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.users.plain.sasl.jaas.config": f"{_LOGIN_MODULE} required {passwords};",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }

    def _users_address(self, broker_id: int) -> str:
        return f"127.0.0.1:{self._first_port + len(BROKERS) + 1 + broker_id}"


@contextmanager
def joined_brokers(
    java: Java,
    configs: Sequence[str],
    first_port: int | None = None,
    faults: Sequence[Mapping[str, object]] = (),
    users: Mapping[str, str] = MappingProxyType({}),
    options: Sequence[str] = (),
) -> Iterator[JoinedBrokers]:
    """Klamm with these configs, fault rules and options, and brokers that are registered and unfenced. Klamm has the
    first port, and the brokers have the next ones; None: free ports. `users`: their passwords, at a listener of their
    own."""
    java.folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        cluster = JoinedBrokers(java, stack, configs, first_port, faults, users)
        cluster.start_klamm(*options)
        for broker_id in BROKERS:
            cluster.start_broker(broker_id)
        for broker_id in BROKERS:
            cluster.await_started(broker_id)
        yield cluster


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
