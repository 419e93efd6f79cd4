"""A real Apache Kafka 4.3 cluster: three brokers in three racks, the first of them also the controller.

Their output and data are in folders of their own; when the block ends, all processes are ended.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tools.toolchain_checks.java_process import Java, JavaProcess
from tools.toolchain_checks.ports import free_ports

BROKERS = (1, 2, 3)
START_SECONDS = 240.0
FORMAT_SECONDS = 240.0
CLUSTER_ID = "KlammToolchainCluster0"
_STARTED = "Kafka Server started"
_LOGGED = {
    "org.slf4j.simpleLogger.log.kafka.server": "info",
    "org.slf4j.simpleLogger.log.org.apache.kafka.server": "info",
}


@dataclass(frozen=True, slots=True)
class RealCluster:
    """The running brokers."""

    bootstrap_servers: str
    controller: str
    """HOST:PORT of the controller's listener, on the first broker's node."""
    processes: tuple[JavaProcess, ...]


@contextmanager
def real_cluster(java: Java) -> Iterator[RealCluster]:
    """Brokers that are formatted, started and unfenced."""
    first = free_ports(len(BROKERS) + 1)
    with ExitStack() as stack:
        processes = []
        for broker_id in BROKERS:
            properties = _write_properties(data_dir_of(java, broker_id), broker_id, first)
            arguments = ["format", "-t", CLUSTER_ID, "-c", str(properties)]
            java.run(f"format-{broker_id}", "kafka.tools.StorageTool", arguments, FORMAT_SECONDS)
            running = java.running(f"broker-{broker_id}", "kafka.Kafka", [str(properties)], _LOGGED)
            processes.append(stack.enter_context(running))
        for process in processes:
            process.wait_for("it had started", partial(_has_started, process.errors), START_SECONDS)
        servers = ",".join(f"127.0.0.1:{first + broker_id}" for broker_id in BROKERS)
        yield RealCluster(servers, f"127.0.0.1:{first}", tuple(processes))


def data_dir_of(java: Java, broker_id: int) -> Path:
    """The data directory of a broker, also after the cluster has ended."""
    return java.folder / f"broker-{broker_id}" / "data"


def _has_started(told: Path) -> bool | None:
    return _STARTED in told.read_text(encoding="utf-8", errors="replace") or None


def _write_properties(data_dir: Path, broker_id: int, first_port: int) -> Path:
    data_dir.parent.mkdir()
    listener, controller = f"PLAINTEXT://127.0.0.1:{first_port + broker_id}", f"127.0.0.1:{first_port}"
    is_controller = broker_id == BROKERS[0]
    config = {
        "process.roles": "broker,controller" if is_controller else "broker",
        "node.id": str(broker_id),
        "broker.rack": f"r{broker_id}",
        "controller.quorum.voters": f"{BROKERS[0]}@{controller}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "listeners": f"{listener},CONTROLLER://{controller}" if is_controller else listener,
        "advertised.listeners": listener,
        "log.dirs": str(data_dir),
        "log.cleaner.dedupe.buffer.size": "4194304",
    }
    properties = data_dir.parent / "server.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in config.items()), encoding="utf-8")
    return properties
