"""Apache Kafka as a peer, with the JVM options of its own start script: one node, or three as one cluster.

A node has no ready line: it counts as ready when its log says that it has started, which it says when the controller
has let it in. Formatting its storage is not timed.
"""

import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.processes import ServerFailed, ServerProcess
from tools.toolchain_checks.ports import free_ports

POLL_SECONDS = 0.005
FORMAT_SECONDS = 60
CLUSTER_ID = "a2xhbW0tYmVuY2gtMDAwMA"
STARTED = "Kafka Server started"
CONTROLLER = 1
"""The node that is both broker and controller; the others are only brokers."""
# The options of bin/kafka-server-start.sh and bin/kafka-run-class.sh of the distribution.
JVM_OPTIONS = (
    "-Xms1G",
    "-Xmx1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)


def format_storage(class_path: str, cluster_id: str, properties: Path) -> None:
    """Prepare a node's storage, which is necessary once before its first start. Raises ServerFailed."""
    tool = ["java", "-cp", class_path, "kafka.tools.StorageTool"]
    wanted = [*tool, "format", "--cluster-id", cluster_id, "--config", str(properties)]
    done = subprocess.run(wanted, capture_output=True, text=True, check=False, timeout=FORMAT_SECONDS)
    if done.returncode:
        raise ServerFailed(f"Kafka's storage could not be formatted: {done.stderr or done.stdout}")


class KafkaProcess(ServerProcess):
    """A process of Apache Kafka, whose log says when it is ready. Subclasses set `_server` and `_log`."""

    _server: str
    """HOST:PORT of the listener that is reported as the bootstrap server."""
    _log: Path
    """The file to which the process writes its log."""

    def _await_ready(self, deadline: float) -> str:
        while time.monotonic() < deadline:
            if self._log.exists() and STARTED in self._log.read_text(errors="replace"):
                return self._server
            if self._process.poll() is not None:
                raise self._failure(f"ended with exit code {self._process.returncode} before it was ready")
            time.sleep(POLL_SECONDS)
        raise self._failure("was not ready in time")


class Kafka(KafkaProcess):
    """A new node with its data in `folder`, which must be empty. Brokers of one cluster share `first_port`, where the
    controller listens; broker i listens i ports further on."""

    name = "Kafka"

    def __init__(self, class_path: str, folder: Path, node_id: int = CONTROLLER, first_port: int | None = None) -> None:
        controller_port = free_ports(2) if first_port is None else first_port
        self._server = f"127.0.0.1:{controller_port + node_id}"
        self._log = folder / "kafka.log"
        self._properties = folder / "server.properties"
        self._class_path = class_path
        self._folder = folder
        self._write_properties(node_id, f"127.0.0.1:{controller_port}")
        logging = f"-Dorg.slf4j.simpleLogger.logFile={self._log}"
        command = ["java", *JVM_OPTIONS, logging, "-cp", class_path, "kafka.Kafka", str(self._properties)]
        super().__init__(command)

    def format(self) -> Self:
        """Prepare the storage, which is necessary once before the first start."""
        format_storage(self._class_path, CLUSTER_ID, self._properties)
        return self

    def _write_properties(self, node_id: int, controller: str) -> None:
        broker_listener, controller_listener = f"PLAINTEXT://{self._server}", f"CONTROLLER://{controller}"
        is_controller = node_id == CONTROLLER
        properties = {
            "process.roles": "broker,controller" if is_controller else "broker",
            "node.id": node_id,
            "controller.quorum.voters": f"{CONTROLLER}@{controller}",
            "listeners": f"{broker_listener},{controller_listener}" if is_controller else broker_listener,
            "advertised.listeners": broker_listener,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": self._folder / "data",
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "group.consumer.max.session.timeout.ms": 120_000,
            "group.consumer.session.timeout.ms": 120_000,
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))


class KafkaCluster:
    """Several nodes, each with a folder in `folder`, which must be empty. Brokers can be stopped."""

    name = "Kafka"

    def __init__(self, class_path: str, folder: Path, brokers: int) -> None:
        first_port = free_ports(brokers + 1)
        self._nodes: dict[int, Kafka] = {}
        for node_id in range(CONTROLLER, CONTROLLER + brokers):
            node_folder = folder / str(node_id)
            node_folder.mkdir()
            self._nodes[node_id] = Kafka(class_path, node_folder, node_id, first_port).format()
        self._running: list[int] = []

    def __enter__(self) -> Self:
        try:
            for node_id, node in self._nodes.items():
                node.__enter__()
                self._running.append(node_id)
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for node_id in reversed(self._running):
            self._nodes[node_id].__exit__(kind, error, traceback)
        self._running.clear()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [address for node in self._nodes.values() for address in node.addresses]

    def stop_broker(self, broker_id: int) -> None:
        """Shut a broker down; the controller first moves its leaders away."""
        self._running.remove(broker_id)
        self._nodes[broker_id].__exit__(None, None, None)
