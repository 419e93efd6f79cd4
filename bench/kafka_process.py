"""Apache Kafka as a peer: one node that is broker and controller, with the JVM options of its own start script.

It has no ready line: it counts as ready when its log says that it has started. Formatting its storage is not timed.
"""

import subprocess
import time
from pathlib import Path

from bench.processes import ServerFailed, ServerProcess
from scripts.toolchain_checks.ports import free_ports

POLL_SECONDS = 0.005
FORMAT_SECONDS = 60
STARTED = "Kafka Server started"
# What bin/kafka-server-start.sh and bin/kafka-run-class.sh of the distribution set.
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


class Kafka(ServerProcess):
    """A new node with its data in `folder`, which must be empty."""

    name = "Kafka"

    def __init__(self, class_path: str, folder: Path) -> None:
        port = free_ports(2)
        self._server = f"127.0.0.1:{port}"
        self._log = folder / "kafka.log"
        self._properties = folder / "server.properties"
        self._class_path = class_path
        self._folder = folder
        self._write_properties(port)
        logging = f"-Dorg.slf4j.simpleLogger.logFile={self._log}"
        command = ["java", *JVM_OPTIONS, logging, "-cp", class_path, "kafka.Kafka", str(self._properties)]
        super().__init__(command)

    def format(self) -> "Kafka":
        """Prepare the storage, as everybody has to once before the first start."""
        tool = ["java", "-cp", self._class_path, "kafka.tools.StorageTool"]
        wanted = [*tool, "format", "--cluster-id", "a2xhbW0tYmVuY2gtMDAwMA", "--config", str(self._properties)]
        done = subprocess.run(wanted, capture_output=True, text=True, check=False, timeout=FORMAT_SECONDS)
        if done.returncode:
            raise ServerFailed(f"Kafka's storage could not be formatted: {done.stderr or done.stdout}")
        return self

    def _write_properties(self, port: int) -> None:
        properties = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{port + 1}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": self._folder / "data",
            "offsets.topic.replication.factor": 1,
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))

    def _await_ready(self, deadline: float) -> str:
        while time.monotonic() < deadline:
            if self._log.exists() and STARTED in self._log.read_text(errors="replace"):
                return self._server
            if self._process.poll() is not None:
                raise self._failure(f"ended with exit code {self._process.returncode} before it was ready")
            time.sleep(POLL_SECONDS)
        raise self._failure("was not ready in time")
