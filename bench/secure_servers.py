"""Klamm and Apache Kafka with the same listeners: PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL, with the same key and
the same users of PLAIN and SCRAM-SHA-256. Each is one node, in memory and on a disk.
"""

import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.kafka_process import Kafka
from bench.processes import Klamm, ServerProcess
from bench.workbench import Workbench
from klamm.cluster.throw_away_tls import ThrowAwayTls, new_throw_away_tls
from tools.toolchain_checks.ports import free_ports

NAMES: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
USER, PASSWORD = "alice", "alice-secret"
_PLAIN: Final = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'


class Secured:
    """Where such a server listens, and how clients trust it."""

    def __init__(self, folder: Path, tls: ThrowAwayTls, first_port: int) -> None:
        self.addresses = {name: ("127.0.0.1", first_port + place) for place, name in enumerate(NAMES)}
        self.ca = folder / "ca.pem"
        self.ca.write_text(tls.ca)
        self._key = folder / "server.pem"
        self._key.write_text(tls.key + tls.chain)

    def properties(self) -> dict[str, str]:
        """The settings of the listeners."""
        listeners = ",".join(f"{name}://{host}:{port}" for name, (host, port) in self.addresses.items())
        return {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._key),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": _PLAIN,
            "listener.name.sasl_ssl.plain.sasl.jaas.config": _PLAIN,
        }

    def context(self) -> ssl.SSLContext:
        """A client's context for TLS 1.3 without resumed sessions."""
        context = ssl.create_default_context(cafile=self.ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return context


class SecureKafka(Kafka):
    """A node of Apache Kafka with these listeners."""

    def __init__(self, class_path: str, folder: Path, secured: Secured) -> None:
        self._secured = secured
        super().__init__(class_path, folder)

    def _write_properties(self, node_id: int, controller: str) -> None:
        super()._write_properties(node_id, controller)
        own = self._secured.properties()
        host, port = self._secured.addresses["PLAINTEXT"]
        self._server = f"{host}:{port}"
        own["listeners"] += f",CONTROLLER://{controller}"
        protocols = ",".join(f"{name}:{name}" for name in NAMES)
        own["listener.security.protocol.map"] = f"CONTROLLER:PLAINTEXT,{protocols}"
        with self._properties.open("a") as file:
            file.writelines(f"{name}={value}\n" for name, value in own.items())


def secure_kafka(bench: Workbench, folder: Path) -> tuple[Secured, ServerProcess]:
    """A new node of Apache Kafka, formatted."""
    secured = Secured(folder, new_throw_away_tls((), ()), free_ports(len(NAMES)))
    assert bench.kafka_class_path is not None
    return secured, SecureKafka(bench.kafka_class_path, folder, secured).format()


def secure_klamm(bench: Workbench, folder: Path) -> tuple[Secured, ServerProcess]:
    """A new node of Klamm."""
    secured = Secured(folder, new_throw_away_tls((), ()), free_ports(len(NAMES)))
    file = folder / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in secured.properties().items()))
    command = [sys.executable, "-P", "-m", "klamm", "serve", "--brokers", "1", "--config", str(file)]
    return secured, ServerProcess(command, _environment(bench))


def _environment(bench: Workbench) -> Mapping[str, str]:
    environment = Klamm(bench.bytecode_dir, brokers=1)._environment
    assert environment is not None
    return environment
