"""Real 4.3 brokers join Klamm (docs/real-brokers.md): clients work on them, a broker and Klamm are killed, and a topic
with a placeholder (KIP-409) gets its replica when the broker returns.
"""

import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from confluent_kafka import (
    Consumer,
    ElectionType,
    KafkaError,
    KafkaException,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    PartitionMetadata,
    ResourceType,
)

from tools.toolchain_checks.java_process import Java
from tools.toolchain_checks.joined_brokers import BROKERS, JoinedBrokers, joined_brokers
from tools.toolchain_checks.real_brokers_admin import Administration
from tools.toolchain_checks.report import CheckFailed, Report, expect, expect_none

CONFIGS: Final = ("broker.session.timeout.ms=12000", "enable.under.replicated.topic.creation=true")
PARTITIONS: Final = 3
RECORDS: Final = 500
FAULTS: Final = (
    {"api": "BrokerHeartbeat", "error": "NOT_CONTROLLER", "times": 3, "skip": 20},
    {"api": "AlterPartition", "error": "OPERATION_NOT_ATTEMPTED", "times": 2},
)
"""What Klamm refuses in each of its runs. The brokers have to try again."""
CLIENT_SECONDS: Final = 120.0
RECOVERY_SECONDS: Final = 240.0
POLL_SECONDS: Final = 0.2
WRITE_SECONDS: Final = 0.002
"""Between two records of the producer that writes while Klamm is killed."""
FENCED, MOVED = 3, 2
"""The broker that is killed, and the one that is stopped."""
_FAULT = re.compile(r"Encountered .*\bfault\b")
_NOT_APPROVED = "Timed out waiting for the controller to approve controlled shutdown"

T = TypeVar("T")


def check_real_brokers(report: Report, java: Java, folder: Path) -> None:
    """All output goes to `folder`, which is new."""
    whole_run = "three real 4.3 brokers in three racks join klamm serve --brokers 0"
    with report.check(whole_run), joined_brokers(replace(java, folder=folder), CONFIGS, faults=FAULTS) as cluster:
        story = _Story(cluster)
        with report.check(
            "a group reads what an idempotent and a transactional producer wrote, without aborted records"
        ):
            story.exchange_records()
        with report.check("a share group gets every record once"):
            story.share_records()
        administration = Administration(cluster, replace(java, folder=folder))
        with report.check("kafka-metadata-quorum describes Klamm as the leader, and three brokers as observers"):
            administration.ask_kafkas_tool()
        with report.check("max.message.bytes of a topic has effect on its leader"):
            administration.change_config()
        with report.check("partitions that are added to a topic take records"):
            administration.add_partitions()
        with report.check("klamm reassign-partitions moves a partition with its records, and watches it"):
            administration.reassign()
        with report.check("a broker is killed, and a topic is made with a placeholder for it, which takes records"):
            story.make_placeholder()
        with report.check("the broker returns, and the placeholder becomes a replica with all records"):
            story.fill_placeholder()
        with report.check("refused heartbeats and AlterPartition requests were sent again"):
            wanted = [rule["times"] for rule in FAULTS]
            expect(cluster.hits() == wanted, f"the rules applied {cluster.hits()} times")
        with report.check("after an election of preferred leaders that broker leads again"):
            story.elect_preferred()
        with report.check("Klamm is killed and started again while a producer writes: no record is lost or doubled"):
            story.kill_klamm()
        with report.check("a broker that gets SIGTERM ends when its partitions have other leaders"):
            story.stop_broker()
        with report.check("the brokers met no fault, and Klamm ends with exit code 0 and has nothing to warn of"):
            expect_none([line for line in cluster.brokers_lines() if _FAULT.search(line)], "faults")
            story.stop_klamm()


class _Story:
    """What clients and processes do, in this order."""

    def __init__(self, cluster: JoinedBrokers) -> None:
        self._cluster = cluster
        # A client logs each broker that is gone; only what is critical is of interest.
        self._config: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2}
        self._admin = AdminClient(self._config)

    def exchange_records(self) -> None:
        self._create("first")
        found = {tuple(sorted(partition.replicas)) for partition in self._partitions("first").values()}
        expect(found == {BROKERS}, f"the replicas are {found}")
        expect_none(self._produce("first", RECORDS, "idempotent"), "records are not acknowledged")
        producer = self._producer(**{"transactional.id": "toolchain"})
        producer.init_transactions(CLIENT_SECONDS)
        for name, end in (("committed", producer.commit_transaction), ("aborted", producer.abort_transaction)):
            producer.begin_transaction()
            for index in range(RECORDS):
                producer.produce("first", f"{name}-{index}".encode())
            producer.flush(CLIENT_SECONDS)
            end(CLIENT_SECONDS)
        wanted = [f"{name}-{index}" for name in ("idempotent", "committed") for index in range(RECORDS)]
        self._expect_consumed("first", wanted)

    def share_records(self) -> None:
        """A member that acknowledges all that it gets, from the beginning of a topic on."""
        self._create("shared")
        entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
        group = ConfigResource(ResourceType.GROUP, "sharers", incremental_configs=[entry])
        self._admin.incremental_alter_configs([group])[group].result(CLIENT_SECONDS)
        expect_none(self._produce("shared", RECORDS, "shared"), "records are not acknowledged")
        consumer = ShareConsumer({**self._config, "group.id": "sharers"})
        consumer.subscribe(["shared"])
        found, deadline = Counter[str](), time.monotonic() + RECOVERY_SECONDS
        try:
            while found.total() < RECORDS and time.monotonic() < deadline:
                for message in consumer.poll(POLL_SECONDS):
                    expect(message.error() is None, str(message.error()))
                    found[(message.value() or b"").decode()] += 1
        finally:
            consumer.close()
        expect(found == Counter(f"shared-{index}" for index in range(RECORDS)), f"{found.total()} records are read")

    def make_placeholder(self) -> None:
        self._cluster.kill_broker(FENCED)
        self._await("a fenced broker", lambda: len(self._admin.list_topics(timeout=CLIENT_SECONDS).brokers) == 2)
        self._create("placed")
        for partition in self._partitions("placed").values():
            missing = [replica for replica in partition.replicas if replica < 0]
            expect(len(partition.replicas) == 3 and len(missing) == 1, f"the replicas are {partition.replicas}")
        expect_none(self._produce("placed", RECORDS, "placed"), "records are not acknowledged")

    def fill_placeholder(self) -> None:
        self._cluster.start_broker(FENCED)
        self._await("replicas in sync", lambda: self._all_in_sync("placed") and self._all_in_sync("first"))
        found = 0
        for partition in range(PARTITIONS):
            logs = [self._cluster.log_of(broker_id, "placed", partition) for broker_id in BROKERS]
            expect(logs[0] == logs[1] == logs[2], f"the logs have {[len(log) for log in logs]} bytes")
            found += len(logs[0])
        expect(found > 0, "no log has a record")  # a producer may use one partition alone
        self._expect_consumed("placed", [f"placed-{index}" for index in range(RECORDS)], "consumer")

    def elect_preferred(self) -> None:
        preferred = [
            TopicPartition("first", index)
            for index, partition in self._partitions("first").items()
            if partition.replicas[0] == FENCED != partition.leader
        ]
        expect(bool(preferred), f"broker {FENCED} has not lost a partition")
        elected = self._admin.elect_leaders(ElectionType.PREFERRED, preferred).result(CLIENT_SECONDS)
        expect(not any(elected.values()), f"the answer is {elected}")
        self._await("its leaderships", lambda: all(self._leader(one) == FENCED for one in preferred))

    def _leader(self, at: TopicPartition) -> int:
        found = self._partitions(at.topic).get(at.partition)
        return -1 if found is None else found.leader

    def kill_klamm(self) -> None:
        self._create("steady")
        with self._writing("steady") as acknowledged:
            self._await("the first records", lambda: len(acknowledged) >= RECORDS)
            self._cluster.kill_klamm()
            before = len(acknowledged)
            self._await("records without Klamm", lambda: len(acknowledged) >= before + RECORDS)
            self._cluster.start_klamm()
            self._create("after")
            expect_none(self._produce("after", RECORDS, "after"), "records are not acknowledged")
        self._expect_consumed("steady", acknowledged)
        self._expect_consumed("after", [f"after-{index}" for index in range(RECORDS)])

    def stop_broker(self) -> None:
        self._await("replicas in sync", lambda: all(map(self._all_in_sync, ("first", "steady", "after"))))
        led = [partition for partition in self._all_partitions() if partition.leader == MOVED]
        expect(bool(led), f"broker {MOVED} leads no partition")
        self._cluster.brokers[MOVED].stop()
        expect_none([line for line in self._cluster.brokers_lines() if _NOT_APPROVED in line], "refusals")
        # At once: no session has to expire.
        left = [str(partition) for partition in self._all_partitions() if partition.leader in (MOVED, -1)]
        expect_none(left, "partitions without another leader")
        expect_none(self._produce("first", RECORDS, "last"), "records are not acknowledged")

    def stop_klamm(self) -> None:
        process = self._cluster.klamm
        assert process is not None
        process.send_signal(signal.SIGTERM)
        code = process.wait(CLIENT_SECONDS)
        lines = self._cluster.klamms_lines()
        expect(code == 0, f"its exit code is {code}\n{lines}")
        expect_none([line for line in lines.splitlines() if "ahead of the metadata log" in line], "warnings")
        expect("Traceback" not in lines, lines)

    def _create(self, topic: str) -> None:
        self._admin.create_topics([NewTopic(topic, PARTITIONS, len(BROKERS))])[topic].result(CLIENT_SECONDS)
        self._await(f"leaders of {topic}", lambda: len(self._partitions(topic)) == PARTITIONS)

    def _partitions(self, topic: str) -> dict[int, PartitionMetadata]:
        """The partitions of the topic that have a leader."""
        found = self._admin.list_topics(topic, timeout=CLIENT_SECONDS).topics[topic].partitions
        return {index: partition for index, partition in found.items() if partition.leader >= 0}

    def _all_partitions(self) -> Iterator[PartitionMetadata]:
        for topic in self._admin.list_topics(timeout=CLIENT_SECONDS).topics.values():
            yield from topic.partitions.values()

    def _all_in_sync(self, topic: str) -> bool:
        return all(sorted(partition.isrs) == list(BROKERS) for partition in self._partitions(topic).values())

    def _producer(self, **more: str) -> Producer:
        return Producer({**self._config, "enable.idempotence": True, **more})

    def _produce(self, topic: str, count: int, name: str) -> list[str]:
        """The errors."""
        producer, failed = self._producer(), list[str]()
        for index in range(count):
            producer.produce(
                topic,
                f"{name}-{index}".encode(),
                on_delivery=lambda error, _message: failed.append(str(error)) if error else None,
            )
        left = producer.flush(CLIENT_SECONDS)
        return [*failed, *(["no answer"] * left)]

    @contextmanager
    def _writing(self, topic: str) -> Iterator[list[str]]:
        """The values of the acknowledged records of a producer that writes until the block ends; then all are."""
        acknowledged, failed, is_over = list[str](), list[str](), threading.Event()
        producer = self._producer()

        def keep(value: str) -> Callable[[object, object], None]:
            return lambda error, _message: failed.append(str(error)) if error else acknowledged.append(value)

        def write() -> None:
            index = 0
            while not is_over.wait(WRITE_SECONDS):
                producer.produce(topic, f"{index}".encode(), on_delivery=keep(f"{index}"))
                producer.poll(0)
                index += 1

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield acknowledged
        finally:
            is_over.set()
            thread.join()
        left = producer.flush(CLIENT_SECONDS)
        expect_none([*failed, *(["no answer"] * left)], "records are not acknowledged")

    def _expect_consumed(self, topic: str, values: list[str], protocol: str = "classic") -> None:
        """A new group of this protocol reads these committed records, each once, and commits its offsets."""
        consumer = Consumer(
            {
                **self._config,
                "group.id": f"readers of {topic}",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        consumer.subscribe([topic])
        found, ended, deadline = Counter[str](), set[int | None](), time.monotonic() + RECOVERY_SECONDS
        try:
            while len(ended) < PARTITIONS and time.monotonic() < deadline:
                for message in consumer.consume(RECORDS, POLL_SECONDS):
                    if (error := message.error()) is None:
                        found[(message.value() or b"").decode()] += 1
                    else:
                        expect(error.code() == KafkaError._PARTITION_EOF, str(error))
                        ended.add(message.partition())
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()
        differences = Counter(values)
        differences.subtract(found)
        expect_none([f"{value}: {-n:+}" for value, n in differences.items() if n], f"records of {topic} that differ")

    def _await(self, what: str, look: Callable[[], T]) -> T:
        deadline, reason = time.monotonic() + RECOVERY_SECONDS, ""
        while time.monotonic() < deadline:
            try:
                if found := look():
                    return found
            except KafkaException as error:
                reason = f": {error}"
            time.sleep(POLL_SECONDS)
        raise CheckFailed(f"{what} did not appear within {RECOVERY_SECONDS:.0f} s{reason}")
