"""A real 4.3 controller takes over the brokers of Klamm, on a copy of its data directory, and Klamm takes them back."""

import re
import shutil

from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.joined_brokers import JoinedBrokers
from tools.toolchain_checks.real_brokers_clients import RECORDS, Clients
from tools.toolchain_checks.report import expect_none

START_SECONDS = 240.0
_ACTIVE = "Becoming the active controller"
_FAULT = re.compile(r"\bfault\b", re.IGNORECASE)
_LOGGED = {"org.slf4j.simpleLogger.log.org.apache.kafka.controller.QuorumController": "info"}


class Takeover:
    """The brokers live on, and find each controller at the same address."""

    def __init__(self, cluster: JoinedBrokers, java: Java) -> None:
        self._cluster = cluster
        self._java = java
        self._clients = Clients(cluster.bootstrap_servers)
        self._data_dir = java.folder / "taken-over"

    def give(self) -> None:
        """Klamm stops, and the real controller has the brokers for a while."""
        self._cluster.stop_klamm()
        shutil.copytree(self._cluster.data_dir, self._data_dir)
        properties = self._java.folder / "controller.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._configs().items()), encoding="utf-8")
        with self._java.running("real-controller", "kafka.Kafka", [str(properties)], _LOGGED) as controller:

            def logged() -> str:
                return controller.errors.read_text(encoding="utf-8", errors="replace")

            controller.wait_for("it was the active controller", lambda: _ACTIVE in logged() or None, START_SECONDS)
            self._work("under-kafka")
            expect_none([line for line in logged().splitlines() if _FAULT.search(line)], "faults of the controller")
            controller.stop()

    def take_back(self, *options: str) -> None:
        """Klamm starts on the log that the real controller has gone on with."""
        self._cluster.data_dir = self._data_dir
        self._cluster.start_klamm(*options)
        self._work("under-klamm-again")
        self._expect_records("under-kafka")

    def _work(self, topic: str) -> None:
        self._clients.create(topic)
        expect_none(self._clients.produce(topic, RECORDS, topic), "records are not acknowledged")
        self._expect_records(topic)
        self._clients.wait_for("replicas in sync", lambda: self._clients.all_in_sync(topic))

    def _expect_records(self, topic: str) -> None:
        self._clients.expect_consumed(topic, [f"{topic}-{index}" for index in range(RECORDS)])

    def _configs(self) -> dict[str, str]:
        return {
            "process.roles": "controller",
            "node.id": "3000",
            "controller.quorum.bootstrap.servers": self._cluster.controller,
            "listeners": f"CONTROLLER://{self._cluster.controller}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "log.dirs": str(self._data_dir),
            "broker.session.timeout.ms": "12000",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
