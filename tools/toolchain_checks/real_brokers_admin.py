"""Administration of real 4.3 brokers that have joined Klamm: what Kafka's tools print about the pair, and changes that
brokers have to carry out: a config, new partitions, a reassignment.
"""

import json
import re
import subprocess
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.joined_brokers import BROKERS, KLAMM, VARIABLES, JoinedBrokers
from tools.toolchain_checks.program import with_variables
from tools.toolchain_checks.report import CheckFailed, expect

SECONDS: Final = 120.0
POLL_SECONDS: Final = 0.2
LARGEST, LARGER = 1_000, 4_000
"""`max.message.bytes` of a topic, and a record that does not fit."""
RECORDS: Final = 200
QUORUM_TOOL: Final = "org.apache.kafka.tools.MetadataQuorumCommand"
_LEADER = re.compile(r"^LeaderId:\s+3000$", re.MULTILINE)
_OBSERVER = re.compile(r"^(\d+)\s+\S+\s+(\d+)\s+(\d+)\s+.*\bObserver\b", re.MULTILINE)

T = TypeVar("T")


class Administration:
    """Changes on topics of its own, in any order. Each partition has several replicas, so that a later check may stop
    any broker."""

    def __init__(self, cluster: JoinedBrokers, java: Java) -> None:
        self._cluster = cluster
        self._java = java
        self._config: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2}
        self._admin = AdminClient(dict(self._config))

    def ask_kafkas_tool(self) -> None:
        """kafka-metadata-quorum describes the quorum, asked at the controller and at a broker."""
        controller = ["--bootstrap-controller", self._cluster.controller, "describe", "--status"]
        status = self._java.run("quorum-status", QUORUM_TOOL, controller, SECONDS).read_text(encoding="utf-8")
        expect(_LEADER.search(status) is not None, f"the leader is not 3000:\n{status}")
        broker = ["--bootstrap-server", self._cluster.bootstrap_servers, "describe", "--replication"]
        table = self._java.run("quorum-replication", QUORUM_TOOL, broker, SECONDS).read_text(encoding="utf-8")
        observers = {int(row[1]) for row in _OBSERVER.finditer(table)}
        expect(observers == set(BROKERS), f"the observers are {observers}:\n{table}")

    def change_config(self) -> None:
        """A record that is too large for the topic is refused by its leader."""
        self._create("small", [[1, 2, 3]])
        expect(self._send("small", LARGER) is None, "a record is refused without the config")
        entry = ConfigEntry("max.message.bytes", str(LARGEST), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, "small", incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(SECONDS)
        self._await("a refused record", lambda: self._send("small", LARGER) or None)
        found = self._send("small", LARGER)
        expect(found == KafkaError.MSG_SIZE_TOO_LARGE, f"the error is {found}")
        expect(self._send("small", LARGEST // 2) is None, "a smaller record is refused")

    def add_partitions(self) -> None:
        """New partitions take records."""
        self._create("wide", [[1, 2, 3]])
        self._admin.create_partitions([NewPartitions("wide", 3)])["wide"].result(SECONDS)
        self._await("leaders of three partitions", lambda: len(self._leaders("wide")) == 3 or None)
        for partition in range(3):
            expect(self._send("wide", 10, partition) is None, f"partition {partition} takes no record")

    def reassign(self) -> None:
        """`klamm reassign-partitions` moves a partition from one broker to another, with its records."""
        self._create("moved", [[1, 3]])
        for _ in range(RECORDS):
            expect(self._send("moved", 100) is None, "a record is refused")
        before = self._cluster.log_of(1, "moved", 0)
        wanted = {"version": 1, "partitions": [{"topic": "moved", "partition": 0, "replicas": [2, 3]}]}
        path = self._java.folder / "reassignment.json"
        path.write_text(json.dumps(wanted), encoding="utf-8")
        for action in ("--execute", "--watch", "--verify"):
            command = [*KLAMM, "reassign-partitions", "--bootstrap-server", self._cluster.bootstrap_servers, action]
            found = subprocess.run(
                [*command, "--reassignment-json-file", str(path)],
                capture_output=True,
                text=True,
                env=with_variables(VARIABLES),
                timeout=SECONDS,
                check=False,
            )
            expect(found.returncode == 0, f"{action}: exit code {found.returncode}\n{found.stdout}{found.stderr}")
        expect(self._leaders("moved") == {0: 2}, f"the leader is {self._leaders('moved')}")
        after = self._cluster.log_of(2, "moved", 0)
        expect(before == after != b"", f"the logs have {len(before)} and {len(after)} bytes")

    def _create(self, topic: str, assignment: list[list[int]]) -> None:
        made = NewTopic(topic, len(assignment), replica_assignment=assignment)
        self._admin.create_topics([made])[topic].result(SECONDS)
        self._await(f"leaders of {topic}", lambda: len(self._leaders(topic)) == len(assignment) or None)

    def _leaders(self, topic: str) -> dict[int, int]:
        partitions = self._admin.list_topics(topic, timeout=SECONDS).topics[topic].partitions
        return {index: one.leader for index, one in partitions.items() if one.leader >= 0}

    def _send(self, topic: str, size: int, partition: int = 0) -> int | None:
        """The code of the error of a record of so many bytes; None: it was written."""
        codes: list[int | None] = []
        producer = Producer({**self._config, "message.max.bytes": 1_000_000})
        producer.produce(
            topic,
            b"x" * size,
            partition=partition,
            on_delivery=lambda error, _message: codes.append(error.code() if error else None),
        )
        producer.flush(SECONDS)
        expect(len(codes) == 1, f"{topic} gives no answer")
        return codes[0]

    @staticmethod
    def _await(what: str, look: Callable[[], T | None]) -> T:
        deadline = time.monotonic() + SECONDS
        while (found := look()) is None:
            if time.monotonic() > deadline:
                raise CheckFailed(f"{what}: not within {SECONDS:.0f} s")
            time.sleep(POLL_SECONDS)
        return found
