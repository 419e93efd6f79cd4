"""Klamm as the controller of three real 4.3 brokers in three racks; each process can be killed and started again.

All data and output are below one folder. When the block ends for any reason, all processes are ended.
"""

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tools.toolchain_checks.java_process import POLL_SECONDS, STOP_SECONDS, Java, JavaProcess
from tools.toolchain_checks.ports import free_ports
from tools.toolchain_checks.program import ended_group, run_program, with_variables
from tools.toolchain_checks.report import CheckFailed

BROKERS = (1, 2, 3)
RACKS = {1: "a", 2: "b", 3: "c"}
ASKING = 3
"""The broker that asks for the controller (`controller.quorum.bootstrap.servers`). The others know it from their
configs (`controller.quorum.voters`)."""
CLUSTER_ID = "KlammToolchainCluster1"
START_SECONDS = 240.0
KLAMM_START_SECONDS = 240.0
KLAMM = (sys.executable, "-P", "-m", "klamm")
VARIABLES = {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
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
    ) -> None:
        self._faults = faults
        self._java = java
        self._stack = stack
        self._configs = configs
        self._first_port = free_ports(len(BROKERS) + 2) if first_port is None else first_port
        self._runs = 0
        self.brokers: dict[int, JavaProcess] = {}
        self.klamm: subprocess.Popen[bytes] | None = None
        self.controller = f"127.0.0.1:{self._first_port}"
        self._control = f"127.0.0.1:{self._first_port + len(BROKERS) + 1}"
        self.bootstrap_servers = ",".join(f"127.0.0.1:{self._first_port + broker_id}" for broker_id in BROKERS)

    def start_klamm(self) -> None:
        """Start Klamm on its data directory, and wait until its listener is open."""
        output, errors = self._java.folder / "klamm.out", self._java.folder / "klamm.err"
        sets = [part for config in self._configs for part in ("--set", config)]
        command = [*KLAMM, "serve", "--brokers", "0", "--cluster-id", CLUSTER_ID, "--dynamic-quorum"]
        command += ["--controller-listener", self.controller, "--data-dir", str(self._java.folder / "klamm"), *sets]
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
        with urllib.request.urlopen(f"http://{self._control}/faults", timeout=KLAMM_START_SECONDS) as answer:
            rules: list[dict[str, Any]] = json.load(answer)["faults"]
        return [rule["hits"] for rule in rules]

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

    def _data_dir(self, broker_id: int) -> Path:
        return self._java.folder / f"broker-{broker_id}"

    def _write_properties(self, broker_id: int) -> Path:
        """Have Klamm write the file, and format the log directory if it is new."""
        path, data_dir = self._java.folder / f"broker-{broker_id}.properties", self._data_dir(broker_id)
        command = [*KLAMM, "broker-properties", "--id", str(broker_id), "--rack", RACKS[broker_id]]
        command += ["--controller", self.controller, "--listen", f"127.0.0.1:{self._first_port + broker_id}"]
        command += ["--cluster-id", CLUSTER_ID, "--log-dir", str(data_dir)]
        if broker_id == ASKING:
            command.append("--dynamic-quorum")
        printed = run_program(command, KLAMM_START_SECONDS, environment=with_variables(VARIABLES))
        more = "".join(f"{name}={value}\n" for name, value in _BROKERS_CONFIGS.items())
        path.write_text(printed + more, encoding="latin-1")
        if not (data_dir / "meta.properties").exists():
            arguments = ["format", "--cluster-id", CLUSTER_ID, "--config", str(path)]
            self._java.run(f"format-{broker_id}", "kafka.tools.StorageTool", arguments, START_SECONDS)
        return path


@contextmanager
def joined_brokers(
    java: Java,
    configs: Sequence[str],
    first_port: int | None = None,
    faults: Sequence[Mapping[str, object]] = (),
) -> Iterator[JoinedBrokers]:
    """Klamm with these configs and fault rules, and brokers that are registered and unfenced. Klamm has the first port,
    and the brokers have the next ones; None: free ports."""
    java.folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        cluster = JoinedBrokers(java, stack, configs, first_port, faults)
        cluster.start_klamm()
        for broker_id in BROKERS:
            cluster.start_broker(broker_id)
        for broker_id in BROKERS:
            cluster.await_started(broker_id)
        yield cluster


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
