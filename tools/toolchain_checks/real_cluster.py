"""A real Apache Kafka 4.3 cluster: three brokers in three racks. The controller is a part of the first broker's node,
or a node of its own.

The nodes' output and data are in folders of their own; when the block ends, all processes are ended. Brokers can be
stopped and started again on their data.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from tools.toolchain_checks.java_process import Java, JavaProcess
from tools.toolchain_checks.ports import free_ports

BROKERS = (1, 2, 3)
CONTROLLER = 3000
START_SECONDS = 240.0
FORMAT_SECONDS = 240.0
CLUSTER_ID = "KlammToolchainCluster0"
LOG_FOLDER = "__cluster_metadata-0"
_STARTED = "Kafka Server started"
LOGGED = {
    "org.slf4j.simpleLogger.log.kafka.server": "info",
    "org.slf4j.simpleLogger.log.org.apache.kafka.server": "info",
}


@dataclass(slots=True)
class RealCluster:
    """The running nodes."""

    java: Java
    first_port: int
    """The controller's; the brokers listen on the next ones."""
    controller_node: int
    """The id of the node that has the controller."""
    processes: dict[int, JavaProcess] = field(default_factory=dict)
    """By the id of the node; those that were stopped are not in it."""
    _stack: ExitStack = field(default_factory=ExitStack)
    _starts: int = 0

    @property
    def bootstrap_servers(self) -> str:
        """The brokers that are up."""
        return ",".join(f"127.0.0.1:{self.first_port + one}" for one in sorted(self.processes) if one in BROKERS)

    @property
    def controller(self) -> str:
        """HOST:PORT of the controller's listener."""
        return f"127.0.0.1:{self.first_port}"

    @property
    def metadata_log(self) -> Path:
        """The folder of the controller's metadata log."""
        return data_dir_of(self.java, self.controller_node) / LOG_FOLDER

    def stop(self, node_id: int, mode: Literal["shutdown", "crash"] = "shutdown") -> None:
        """End a node as SIGTERM or SIGKILL does. Returns when its process has ended."""
        process = self.processes.pop(node_id)
        if mode == "shutdown":
            process.stop()
        else:
            process.process.kill()
            process.process.wait()

    def begin_start(self, node_id: int) -> JavaProcess:
        """Start the process of a node on its data, without waiting until it serves."""
        self._starts += 1
        properties = data_dir_of(self.java, node_id).parent / "server.properties"
        name = f"node-{node_id}-{self._starts}"
        process = self._stack.enter_context(self.java.running(name, "kafka.Kafka", [str(properties)], LOGGED))
        self.processes[node_id] = process
        return process

    def start(self, node_id: int) -> None:
        """Start a node on its data. Returns when it serves."""
        wait_started(self.begin_start(node_id))

    def close(self) -> None:
        """End all processes."""
        self._stack.close()


@contextmanager
def real_cluster(
    java: Java, *, own_controller: bool = False, configs: Mapping[str, str] | None = None
) -> Iterator[RealCluster]:
    """Brokers that are formatted, started and unfenced. `configs` are further static configs of all nodes."""
    controller_node = CONTROLLER if own_controller else BROKERS[0]
    cluster = RealCluster(java, free_ports(len(BROKERS) + 1), controller_node)
    try:
        nodes = (CONTROLLER, *BROKERS) if own_controller else BROKERS
        for node_id in nodes:
            properties = _write_properties(cluster, node_id, configs or {})
            arguments = ["format", "-t", CLUSTER_ID, "-c", str(properties)]
            java.run(f"format-{node_id}", "kafka.tools.StorageTool", arguments, FORMAT_SECONDS)
            cluster.begin_start(node_id)
        for process in list(cluster.processes.values()):
            wait_started(process)
        yield cluster
    finally:
        cluster.close()


def data_dir_of(java: Java, node_id: int) -> Path:
    """The data directory of a node, also after the cluster has ended."""
    return java.folder / f"broker-{node_id}" / "data"


def wait_started(process: JavaProcess) -> None:
    """Wait until a node serves."""
    process.wait_for("it had started", partial(_has_started, process.errors), START_SECONDS)


def _has_started(told: Path) -> bool | None:
    return _STARTED in told.read_text(encoding="utf-8", errors="replace") or None


def _write_properties(cluster: RealCluster, node_id: int, configs: Mapping[str, str]) -> Path:
    data_dir = data_dir_of(cluster.java, node_id)
    data_dir.parent.mkdir()
    is_broker, is_controller = node_id in BROKERS, node_id == cluster.controller_node
    roles = [role for role, has_it in (("broker", is_broker), ("controller", is_controller)) if has_it]
    config = {
        "process.roles": ",".join(roles),
        "node.id": str(node_id),
        "controller.quorum.voters": f"{cluster.controller_node}@{cluster.controller}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(data_dir),
        "log.cleaner.dedupe.buffer.size": "4194304",
        **configs,
    }
    listeners = [f"CONTROLLER://{cluster.controller}"] if is_controller else []
    if is_broker:
        listener = f"PLAINTEXT://127.0.0.1:{cluster.first_port + node_id}"
        listeners = [listener, *listeners]
        config |= {
            "broker.rack": f"r{node_id}",
            "inter.broker.listener.name": "PLAINTEXT",
            "advertised.listeners": listener,
        }
    config["listeners"] = ",".join(listeners)
    properties = data_dir.parent / "server.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in config.items()), encoding="utf-8")
    return properties
