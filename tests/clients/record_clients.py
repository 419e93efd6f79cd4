"""How each library writes and reads records: one class per library, no decisions in it.

The writers are idempotent and ask for acks=all; where the library has several codecs at hand, there is one writer for
each, with a partition of its own. The readers assign themselves all partitions, from the beginning.
"""

import asyncio
import gc
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition as PythonTopicPartition

SECONDS = 30.0
READ_SECONDS = 0.02
"""How long a look at what there is to read may take: the pace of a story."""
MOST_READ = 500

T = TypeVar("T")


class Record(NamedTuple):
    """One to be written."""

    partition: int
    key: bytes
    value: bytes


class Placed(NamedTuple):
    """One as it was acknowledged, or read."""

    offset: int
    record: Record


class RecordClient(Protocol):
    """Writers and a reader of one topic."""

    codecs: ClassVar[Sequence[str]]
    """Of the partitions, in order of their indexes."""
    acknowledged: list[Placed]
    failed: list[Any]
    """Why records were not acknowledged, or none were read."""

    def write(self, records: Sequence[Record]) -> None:
        """Hand records to the library."""

    def read(self) -> list[Placed]:
        """What has come by now, soon."""

    def close(self) -> None: ...


class ConfluentRecords:
    """It has all codecs built in."""

    codecs: ClassVar[Sequence[str]] = ("none", "gzip", "snappy", "lz4", "zstd")

    def __init__(self, bootstrap_servers: str, topic_name: str) -> None:
        # What librdkafka writes to stderr when a broker goes is expected here.
        common = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        self.acknowledged: list[Placed] = []
        self.failed: list[Any] = []
        self._topic_name = topic_name
        idempotent = {"enable.idempotence": True, "acks": "all", "linger.ms": 2}
        self._producers = [Producer({**common, **idempotent, "compression.type": codec}) for codec in self.codecs]
        # A group's name it has to have; nothing is asked of a group.
        self._consumer = Consumer(
            {**common, "group.id": "assigns itself", "enable.auto.commit": False, "check.crcs": True}
        )
        self._consumer.assign(
            [ConfluentTopicPartition(topic_name, index, OFFSET_BEGINNING) for index in range(len(self.codecs))]
        )

    def write(self, records: Sequence[Record]) -> None:
        for record in records:
            producer = self._producers[record.partition]
            producer.produce(
                self._topic_name, record.value, record.key, record.partition, on_delivery=self._on_delivery
            )

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.append(_placed(message))
        else:
            self.failed.append(error)

    def read(self) -> list[Placed]:
        for producer in self._producers:
            producer.poll(0.0)  # this is where it calls back
        messages = self._consumer.consume(MOST_READ, READ_SECONDS)
        self.failed += filter(None, (message.error() for message in messages))
        return [_placed(message) for message in messages if message.error() is None]

    def close(self) -> None:
        self._consumer.close()


def _placed(message: Message) -> Placed:
    offset, partition, key, value = message.offset(), message.partition(), message.key(), message.value()
    assert offset is not None
    assert partition is not None
    return Placed(offset, Record(partition, key or b"", value or b""))


class KafkaPythonRecords:
    """The codecs of the standard library; for the others it needs further packages."""

    codecs: ClassVar[Sequence[str]] = ("none", "gzip")

    def __init__(self, bootstrap_servers: str, topic_name: str) -> None:
        servers = bootstrap_servers.split(",")
        self.acknowledged: list[Placed] = []
        self.failed: list[Any] = []
        self._topic_name = topic_name
        self._producers = [
            KafkaProducer(
                bootstrap_servers=servers,
                enable_idempotence=True,
                compression_type=None if codec == "none" else codec,
                linger_ms=2,
            )
            for codec in self.codecs
        ]
        self._consumer = KafkaConsumer(bootstrap_servers=servers, group_id=None, auto_offset_reset="earliest")
        self._consumer.assign([PythonTopicPartition(topic_name, index) for index in range(len(self.codecs))])

    def write(self, records: Sequence[Record]) -> None:
        for record in records:
            producer = self._producers[record.partition]
            sent = producer.send(self._topic_name, record.value, record.key, partition=record.partition)
            sent.add_callback(self._on_success, record)
            sent.add_errback(self.failed.append)

    def _on_success(self, record: Record, metadata: Any) -> None:
        self.acknowledged.append(Placed(metadata.offset, record))

    def read(self) -> list[Placed]:
        found = self._consumer.poll(timeout_ms=int(1000 * READ_SECONDS), max_records=MOST_READ)
        return _all_placed(found)

    def close(self) -> None:
        while self._producers:
            self._producers.pop().close()
        self._consumer.close()
        del self._consumer
        gc.collect()  # a refused connection costs it an unclosed socket; no other test is to be told of it


class AiokafkaRecords:
    """The codecs of the standard library; for the others it needs a further package."""

    codecs: ClassVar[Sequence[str]] = ("none", "gzip")

    def __init__(self, bootstrap_servers: str, topic_name: str) -> None:
        self.acknowledged: list[Placed] = []
        self.failed: list[Any] = []
        self._topic_name = topic_name
        self._runner = asyncio.Runner()
        self._sent: dict[asyncio.Future[Any], Record] = {}
        self._run(self._start(bootstrap_servers))

    async def _start(self, bootstrap_servers: str) -> None:
        self._producers = [
            AIOKafkaProducer(
                bootstrap_servers=bootstrap_servers,
                enable_idempotence=True,
                compression_type=None if codec == "none" else codec,
                linger_ms=2,
            )
            for codec in self.codecs
        ]
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap_servers, group_id=None, auto_offset_reset="earliest"
        )
        for client in (*self._producers, self._consumer):
            await client.start()
        self._consumer.assign([AioTopicPartition(self._topic_name, index) for index in range(len(self.codecs))])

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(call)

    def write(self, records: Sequence[Record]) -> None:
        self._run(self._write(records))

    async def _write(self, records: Sequence[Record]) -> None:
        for record in records:
            producer = self._producers[record.partition]
            sent = await producer.send(self._topic_name, record.value, record.key, partition=record.partition)
            self._sent[sent] = record
            sent.add_done_callback(self._on_done)

    def _on_done(self, sent: "asyncio.Future[Any]") -> None:
        record = self._sent.pop(sent)
        error = sent.exception()
        if error is None:
            self.acknowledged.append(Placed(sent.result().offset, record))
        else:
            self.failed.append(error)

    def read(self) -> list[Placed]:
        call = self._consumer.getmany(timeout_ms=int(1000 * READ_SECONDS), max_records=MOST_READ)
        return _all_placed(self._run(call))

    def close(self) -> None:
        for client in (*self._producers, self._consumer):
            self._run(client.stop())
        self._runner.close()


def _all_placed(found: Mapping[Any, Sequence[Any]]) -> list[Placed]:
    """What kafka-python and aiokafka have alike."""
    return [Placed(one.offset, Record(one.partition, one.key, one.value)) for part in found.values() for one in part]


def move_with_kafka_python(topic_name: str, bootstrap_servers: str, targets: Mapping[int, Sequence[int]]) -> None:
    """By the only one of these libraries that can ask for a reassignment itself."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers.split(","))
    admin.alter_partition_reassignments(
        {PythonTopicPartition(topic_name, index): list(replicas) for index, replicas in targets.items()}
    )
    admin.close()
