"""A broker of Apache Kafka 4.3 joins Klamm with SSL or SASL_SSL on every listener, beside two simulated brokers.

    python -m tools.real_clusters.secured_brokers [--protocol SSL]... [--keep DIR]

The broker logs in at the controller's listener. A transaction writes to topics on the real broker and on simulated
ones, which therefore connect to each other in both directions, and groups read it. A second broker with other
credentials does not get in. All have an authorizer. Prints a line for each check; exit code 0 if all passed.
"""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient, NewTopic

from klamm.cluster.throw_away_tls import ThrowAwayTls, new_throw_away_tls
from tools.real_clusters.cases import check_cases
from tools.toolchain_checks.java_process import Java, JavaProcess
from tools.toolchain_checks.joined_brokers import CLUSTER_ID, KLAMM, START_SECONDS, VARIABLES
from tools.toolchain_checks.kafka_jars import fetch_class_path, find_program
from tools.toolchain_checks.ports import free_ports
from tools.toolchain_checks.program import ended_group, with_variables
from tools.toolchain_checks.real_brokers_clients import CLIENT_SECONDS, RECORDS, Clients
from tools.toolchain_checks.real_cluster import wait_started
from tools.toolchain_checks.report import CheckFailed, Report, expect, expect_none

PROTOCOLS: Final = ("SSL", "SASL_SSL")
REAL, STRANGER, SIMULATED = 1, 2, (11, 12)
PASSWORD, WRONG_PASSWORD = "right-word", "wrong-word"
TOPICS: Final = {"real-orders": (REAL,), "simulated-orders": SIMULATED}
READY: Final = "controller.quorum.bootstrap.servers="
REFUSED_SECONDS: Final = 20.0
QUORUM_TOOL: Final = "org.apache.kafka.tools.MetadataQuorumCommand"
_PACKAGE: Final = "org.apache.kafka.common.security"
_PLAIN: Final = f"{_PACKAGE}.plain.PlainLoginModule required"
_SCRAM: Final = f"{_PACKAGE}.scram.ScramLoginModule required"
_LOGGED: Final = {"org.slf4j.simpleLogger.log.kafka.server": "info"}
_PARTITIONS: Final = 2
_PORTS: Final = 5


@dataclass(frozen=True, slots=True)
class Way:
    """How all connect to all."""

    protocol: str
    keys: Path
    """A private key and its certificate, of an authority that `trusted` has or does not have."""
    trusted: Path
    password: str = PASSWORD

    @property
    def configs(self) -> dict[str, str]:
        """The configs of Klamm and of the real broker."""
        configs = {
            "listener.security.protocol.map": f"CONTROLLER:{self.protocol},BETWEEN:{self.protocol}",
            "inter.broker.listener.name": "BETWEEN",
            "controller.listener.names": "CONTROLLER",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.keys),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:broker;User:CN=Klamm broker",
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "3",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        }
        if self.protocol == "SSL":
            return {**configs, "ssl.client.auth": "required"}
        login = f'username="broker" password="{self.password}"'
        return {
            **configs,
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": f'{_PLAIN} {login} user_broker="{PASSWORD}";',
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.between.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.between.scram-sha-512.sasl.jaas.config": f"{_SCRAM} {login};",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        }

    @property
    def client(self) -> dict[str, Any]:
        """The configs of confluent-kafka."""
        configs = {"security.protocol": self.protocol, "ssl.ca.location": str(self.trusted)}
        if self.protocol == "SSL":
            return {**configs, "ssl.certificate.location": str(self.keys), "ssl.key.location": str(self.keys)}
        login = {"sasl.username": "broker", "sasl.password": self.password}
        return {**configs, "sasl.mechanism": "SCRAM-SHA-512", **login}

    @property
    def controllers_client(self) -> dict[str, str]:
        """The configs of Kafka's tools at the controller's listener."""
        stores = {name: value for name, value in self.configs.items() if name.startswith("ssl.") and "auth" not in name}
        jaas = f'{_PLAIN} username="broker" password="{self.password}";'
        login = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas} if self.protocol == "SASL_SSL" else {}
        return {"security.protocol": self.protocol, **stores, **login}


class SecuredCluster:
    """Klamm with two simulated brokers, and the address of each process."""

    def __init__(self, way: Way, java: Java, stack: ExitStack) -> None:
        self._way = way
        self._java = java
        self._stack = stack
        self._port = free_ports(_PORTS)
        self.controller = f"127.0.0.1:{self._port}"
        self.bootstrap_servers = f"127.0.0.1:{self._port + REAL}"
        self.errors = java.folder / "klamm.err"

    def start_klamm(self) -> None:
        """Returns when it listens."""
        output = self._java.folder / "klamm.out"
        given = {**self._way.configs, "listeners": f"BETWEEN://127.0.0.1:{self._port + STRANGER + 1}"}
        command = [*KLAMM, "serve", "--cluster-id", CLUSTER_ID, "--controller-listener", self.controller]
        command += ["--broker-ids", ",".join(map(str, SIMULATED)), "--real-topics", "real-*"]
        command += ["--data-dir", str(self._java.folder / "klamm"), "--config", str(self._properties("klamm", given))]
        if self._way.protocol == "SASL_SSL":
            command += ["--add-scram", f"SCRAM-SHA-512=[name=broker,password={PASSWORD}]"]
        with output.open("wb") as out, self.errors.open("wb") as err:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=with_variables(VARIABLES),
                start_new_session=True,
            )
        self._stack.enter_context(ended_group(process))
        deadline = time.monotonic() + START_SECONDS
        while READY not in output.read_text(encoding="utf-8"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise CheckFailed(f"klamm serve is not ready\n{self.errors.read_text(encoding='utf-8')}")
            time.sleep(0.1)

    def start_broker(self, broker_id: int, way: Way) -> JavaProcess:
        """Start a real broker, and do not wait."""
        name, listeners = f"broker-{broker_id}", f"BETWEEN://127.0.0.1:{self._port + broker_id}"
        given = {
            **way.configs,
            "process.roles": "broker",
            "node.id": str(broker_id),
            "controller.quorum.voters": f"3000@{self.controller}",
            "listeners": listeners,
            "advertised.listeners": listeners,
            "log.dirs": str(self._java.folder / name),
            "group.initial.rebalance.delay.ms": "0",
        }
        properties = self._properties(name, given)
        arguments = ["format", "--cluster-id", CLUSTER_ID, "--config", str(properties)]
        self._java.run(f"format-{broker_id}", "kafka.tools.StorageTool", arguments, START_SECONDS)
        return self._stack.enter_context(self._java.running(name, "kafka.Kafka", [str(properties)], _LOGGED))

    def ask_kafkas_tool(self) -> None:
        """kafka-metadata-quorum at the controller's listener."""
        properties = self._properties("tool", self._way.controllers_client)
        asking = ["--bootstrap-controller", self.controller, "--command-config", str(properties)]
        found = self._java.run("quorum", QUORUM_TOOL, [*asking, "describe", "--status"], CLIENT_SECONDS)
        expect("LeaderId:" in found.read_text(encoding="utf-8"), found.read_text(encoding="utf-8"))

    def _properties(self, name: str, given: Mapping[str, str]) -> Path:
        path = self._java.folder / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in given.items()), encoding="latin-1")
        return path


def main(arguments: Sequence[str]) -> int:
    """Run the checks of each protocol. Returns the exit code."""
    return check_cases(arguments, "secured_brokers", "--protocol", PROTOCOLS, _check, choices=PROTOCOLS)


def _check(report: Report, protocol: str, folder: Path) -> None:
    way, foreign = (_way(protocol, folder / f"{name}.pem", new_throw_away_tls((), ())) for name in ("own", "foreign"))
    wrong = replace(way, keys=foreign.keys) if protocol == "SSL" else replace(way, password=WRONG_PASSWORD)
    java = Java(find_program("java", "default-jre-headless"), fetch_class_path(), folder)
    with report.check(f"a real broker and simulated ones live with {protocol}"), _started(way, java) as cluster:
        clients = Clients(cluster.bootstrap_servers, way.client)
        with report.check(f"{protocol}: a broker with other credentials does not get in"):
            stranger = cluster.start_broker(STRANGER, wrong)
            with report.check(f"{protocol}: topics of both kinds take part in a transaction, and groups read them"):
                _exchange(clients)
            with report.check(f"{protocol}: kafka-metadata-quorum describes the quorum at the controller's listener"):
                cluster.ask_kafkas_tool()
            time.sleep(REFUSED_SECONDS)
            expect(clients.brokers() == {REAL, *SIMULATED}, f"the brokers are {clients.brokers()}")
            said = stranger.errors.read_text(encoding="utf-8", errors="replace")
            expect("uthentication" in said or "handshake" in said, f"it says\n{said[-1000:]}")
        warned = [line for line in cluster.errors.read_text(encoding="utf-8").splitlines() if "gives no answer" in line]
        expect_none(warned, "requests of simulated brokers without an answer")


def _way(protocol: str, path: Path, tls: ThrowAwayTls) -> Way:
    trusted = path.with_suffix(".trusted.pem")
    path.write_text(tls.key + tls.chain)
    trusted.write_text(tls.ca)
    return Way(protocol, path, trusted)


@contextmanager
def _started(way: Way, java: Java) -> Iterator[SecuredCluster]:
    with ExitStack() as stack:
        cluster = SecuredCluster(way, java, stack)
        cluster.start_klamm()
        wait_started(cluster.start_broker(REAL, way))
        yield cluster


def _exchange(clients: Clients) -> None:
    admin = AdminClient(clients.config)
    for topic, brokers in TOPICS.items():
        admin.create_topics([NewTopic(topic, _PARTITIONS, len(brokers))])[topic].result(CLIENT_SECONDS)
    clients.wait_for("leaders", lambda: all(len(clients.partitions(topic)) == _PARTITIONS for topic in TOPICS))
    for topic, brokers in TOPICS.items():
        found = {broker for partition in clients.partitions(topic).values() for broker in partition.replicas}
        expect(found == set(brokers), f"{topic} is on {found}")
    producer = clients.producer(**{"transactional.id": "both-kinds"})
    producer.init_transactions(CLIENT_SECONDS)
    for name, end in (("committed", producer.commit_transaction), ("aborted", producer.abort_transaction)):
        producer.begin_transaction()
        for index in range(RECORDS):
            for topic in TOPICS:
                producer.produce(topic, f"{name}-{index}".encode(), partition=index % _PARTITIONS)
        producer.flush(CLIENT_SECONDS)
        end(CLIENT_SECONDS)
    for topic in TOPICS:
        for protocol in ("classic", "consumer"):
            wanted = [f"committed-{index}" for index in range(RECORDS)]
            clients.expect_consumed(topic, wanted, protocol, _PARTITIONS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
