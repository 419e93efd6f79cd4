"""What clients do with real 4.3 brokers that have joined Klamm: topics, records and groups."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from types import MappingProxyType
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

from tools.toolchain_checks.joined_brokers import BROKERS
from tools.toolchain_checks.report import CheckFailed, expect, expect_none

PARTITIONS: Final = 3
RECORDS: Final = 500
CLIENT_SECONDS: Final = 120.0
RECOVERY_SECONDS: Final = 240.0
POLL_SECONDS: Final = 0.2
WRITE_SECONDS: Final = 0.002
"""Between two records of the producer that writes while Klamm is killed."""

_NUMBERS: Final = count()

T = TypeVar("T")


class Clients:
    """Clients of confluent-kafka with the same configs."""

    def __init__(self, bootstrap_servers: str, security: Mapping[str, Any] = MappingProxyType({})) -> None:
        # A client logs each broker that is gone; only what is critical is of interest.
        self.config: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "log_level": 2, **security}
        self._admin = AdminClient(self.config)

    def brokers(self) -> set[int]:
        """The ids of the brokers that are not fenced."""
        return set(self._admin.list_topics(timeout=CLIENT_SECONDS).brokers)

    def address(self, broker_id: int) -> str:
        """Where a broker listens that is not fenced."""
        found = self._admin.list_topics(timeout=CLIENT_SECONDS).brokers[broker_id]
        return f"{found.host}:{found.port}"

    def create(self, topic: str) -> None:
        """A topic with a replica on each broker."""
        self._admin.create_topics([NewTopic(topic, PARTITIONS, len(BROKERS))])[topic].result(CLIENT_SECONDS)
        self.wait_for(f"leaders of {topic}", lambda: len(self.partitions(topic)) == PARTITIONS)

    def partitions(self, topic: str) -> dict[int, PartitionMetadata]:
        """The partitions of the topic that have a leader."""
        found = self._admin.list_topics(topic, timeout=CLIENT_SECONDS).topics[topic].partitions
        return {index: partition for index, partition in found.items() if partition.leader >= 0}

    def leader(self, topic: str, partition: int) -> int:
        """-1: there is none."""
        found = self.partitions(topic).get(partition)
        return -1 if found is None else found.leader

    def all_partitions(self) -> Iterator[PartitionMetadata]:
        """Those of all topics."""
        for topic in self._admin.list_topics(timeout=CLIENT_SECONDS).topics.values():
            yield from topic.partitions.values()

    def all_in_sync(self, topic: str) -> bool:
        """Whether all brokers are in each ISR."""
        return all(sorted(partition.isrs) == list(BROKERS) for partition in self.partitions(topic).values())

    def producer(self, **more: str) -> Producer:
        """An idempotent producer."""
        return Producer({**self.config, "enable.idempotence": True, **more})

    def produce(self, topic: str, count: int, name: str, *, idempotent: bool = True) -> list[str]:
        """The errors."""
        producer, failed = self.producer(**({} if idempotent else {"enable.idempotence": "false"})), list[str]()
        for index in range(count):
            producer.produce(
                topic,
                f"{name}-{index}".encode(),
                on_delivery=lambda error, _message: failed.append(str(error)) if error else None,
            )
        left = producer.flush(CLIENT_SECONDS)
        return [*failed, *(["no answer"] * left)]

    @contextmanager
    def writing(self, topic: str) -> Iterator[list[str]]:
        """The values of the acknowledged records of a producer that writes until the block ends; then all are."""
        acknowledged, failed, is_over = list[str](), list[str](), threading.Event()
        producer = self.producer()

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

    def expect_consumed(
        self, topic: str, values: list[str], protocol: str = "classic", partitions: int = PARTITIONS
    ) -> str:
        """A new group of this protocol reads these committed records, each once, and commits its offsets. Returns the
        group's id."""
        group = f"readers of {topic}, {next(_NUMBERS)}"
        consumer = Consumer(
            {
                **self.config,
                "group.id": group,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        consumer.subscribe([topic])
        found, ended, deadline = Counter[str](), set[int | None](), time.monotonic() + RECOVERY_SECONDS
        try:
            while len(ended) < partitions and time.monotonic() < deadline:
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
        return group

    @staticmethod
    def wait_for(what: str, look: Callable[[], T]) -> T:
        """What `look` returns when it is true. Raises `CheckFailed`."""
        deadline, reason = time.monotonic() + RECOVERY_SECONDS, ""
        while time.monotonic() < deadline:
            try:
                if found := look():
                    return found
            except KafkaException as error:
                reason = f": {error}"
            time.sleep(POLL_SECONDS)
        raise CheckFailed(f"{what} did not appear within {RECOVERY_SECONDS:.0f} s{reason}")


def exchange_records(clients: Clients, protocols: Sequence[str]) -> None:
    """Records of an idempotent producer and of transactions in the topic `first`, which groups of these protocols
    read."""
    clients.create("first")
    found = {tuple(sorted(partition.replicas)) for partition in clients.partitions("first").values()}
    expect(found == {BROKERS}, f"the replicas are {found}")
    expect_none(clients.produce("first", RECORDS, "idempotent"), "records are not acknowledged")
    producer = clients.producer(**{"transactional.id": "toolchain"})
    producer.init_transactions(CLIENT_SECONDS)
    for name, end in (("committed", producer.commit_transaction), ("aborted", producer.abort_transaction)):
        producer.begin_transaction()
        for index in range(RECORDS):
            producer.produce("first", f"{name}-{index}".encode())
        producer.flush(CLIENT_SECONDS)
        end(CLIENT_SECONDS)
    wanted = [f"{name}-{index}" for name in ("idempotent", "committed") for index in range(RECORDS)]
    for protocol in protocols:
        clients.expect_consumed("first", wanted, protocol)
