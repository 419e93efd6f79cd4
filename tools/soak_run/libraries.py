"""The client libraries' part of the soak: topics are created, written, read, described and deleted.

Each library uses its own API, on connections that are closed at the end; the admin operations are those of the
demonstration (`tools.demo_clients`).
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition as PythonTopicPartition

from tools.demo_clients import AioKafkaClient, ConfluentClient, KafkaPythonClient, StoryClient
from tools.soak_run.conversation import WrongAnswer

PARTITIONS = 2
REPLICATION_FACTOR = 2
RECORDS = 200
RECORD_BYTES = 200
SECONDS = 60.0
POLL_SECONDS = 0.1
AIOKAFKA_METADATA_MAX_AGE_MS = 1000
"""aiokafka asks a leader for the first offset of a partition, and after NOT_LEADER_OR_FOLLOWER asks it again until its
metadata is refreshed (docs/clients.md)."""


def with_confluent(servers: str, topic_name: str, values: Sequence[bytes]) -> list[bytes]:
    """The records that confluent-kafka reads back."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
    for number, value in enumerate(values):
        producer.produce(topic_name, value, partition=number % PARTITIONS)
    if left := producer.flush(SECONDS):
        raise WrongAnswer(f"confluent-kafka: {left} records were not acknowledged")
    # It needs a group id, although it uses no group and commits nothing.
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "assigns itself", "enable.auto.commit": False, "log_level": 0}
    )
    read: list[bytes] = []
    try:
        consumer.assign([ConfluentTopicPartition(topic_name, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
        until = time.monotonic() + SECONDS
        while len(read) < len(values) and time.monotonic() < until:
            messages = consumer.consume(len(values), POLL_SECONDS)
            read += [message.value() or b"" for message in messages if message.error() is None]
    finally:
        consumer.close()
    return read


def with_kafka_python(servers: str, topic_name: str, values: Sequence[bytes]) -> list[bytes]:
    """The records that kafka-python reads back."""
    producer = KafkaProducer(bootstrap_servers=servers.split(","), enable_idempotence=True)
    try:
        sent = [producer.send(topic_name, value, partition=at % PARTITIONS) for at, value in enumerate(values)]
        for each in sent:
            each.get(timeout=SECONDS)
    finally:
        producer.close()
    consumer = KafkaConsumer(bootstrap_servers=servers.split(","), group_id=None, auto_offset_reset="earliest")
    read: list[bytes] = []
    try:
        consumer.assign([PythonTopicPartition(topic_name, index) for index in range(PARTITIONS)])
        until = time.monotonic() + SECONDS
        while len(read) < len(values) and time.monotonic() < until:
            for records in consumer.poll(timeout_ms=int(1000 * POLL_SECONDS)).values():
                read += [record.value for record in records]
    finally:
        consumer.close()
    return read


def make_aiokafka_consumer(servers: str) -> AIOKafkaConsumer:
    """A consumer that begins at the first offset, also of a partition whose leader moves meanwhile."""
    return AIOKafkaConsumer(
        bootstrap_servers=servers,
        group_id=None,
        auto_offset_reset="earliest",
        metadata_max_age_ms=AIOKAFKA_METADATA_MAX_AGE_MS,
    )


async def stop_aiokafka_consumer(consumer: AIOKafkaConsumer) -> None:
    """Its `stop` ends early, with open connections, after a fetch that failed and is to be repeated."""
    try:
        await consumer.stop()
    except asyncio.CancelledError:
        await consumer._client.close()


def with_aiokafka(servers: str, topic_name: str, values: Sequence[bytes]) -> list[bytes]:
    """The records that aiokafka reads back."""

    async def write_and_read() -> list[bytes]:
        async with AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True) as producer:
            sent = [
                await producer.send(topic_name, value, partition=number % PARTITIONS)
                for number, value in enumerate(values)
            ]
            await asyncio.gather(*sent)  # raises errors of records, which a flush does not
        consumer = make_aiokafka_consumer(servers)
        await consumer.start()
        read: list[bytes] = []
        try:
            consumer.assign([AioTopicPartition(topic_name, index) for index in range(PARTITIONS)])
            until = time.monotonic() + SECONDS
            while len(read) < len(values) and time.monotonic() < until:
                for records in (await consumer.getmany(timeout_ms=int(1000 * POLL_SECONDS))).values():
                    read += [record.value for record in records]
        finally:
            await stop_aiokafka_consumer(consumer)
        return read

    return asyncio.run(write_and_read())


@dataclass(frozen=True, slots=True)
class Library:
    """One client library: its admin, and how it writes and reads records."""

    name: str
    admin: Callable[[str], StoryClient]
    write_and_read: Callable[[str, str, Sequence[bytes]], list[bytes]]


LIBRARIES = (
    Library("confluent-kafka", ConfluentClient, with_confluent),
    Library("kafka-python", KafkaPythonClient, with_kafka_python),
    Library("aiokafka", AioKafkaClient, with_aiokafka),
)


def create(library: Library, servers: str, cycle: int) -> int:
    """Create the topic. Returns 0, like the others: libraries do not report their number of requests."""
    with closing(library.admin(servers)) as admin:
        admin.create(_topic_name(library, cycle), PARTITIONS, REPLICATION_FACTOR, {"retention.ms": str(10**6 + cycle)})
    return 0


def write_and_read(library: Library, servers: str, cycle: int) -> int:
    """Write records and read all of them back, while brokers stop and start."""
    values = [f"{cycle} {number} ".encode().ljust(RECORD_BYTES, b".") for number in range(RECORDS)]
    read = library.write_and_read(servers, _topic_name(library, cycle), values)
    if sorted(read) != sorted(values):
        lacking = sorted({values.index(value) % PARTITIONS for value in set(values) - set(read)})
        reported = f"{len(read)} records came of {len(values)}, partitions lacking some: {lacking}"
        raise WrongAnswer(f"{library.name}: {reported} in cycle {cycle}")
    return 0


def delete(library: Library, servers: str, cycle: int) -> int:
    """Check that the topic exists, and delete it."""
    with closing(library.admin(servers)) as admin:
        if not admin.describe(_topic_name(library, cycle)):
            raise WrongAnswer(f"{library.name}: its topic of cycle {cycle} is gone")
        admin.delete(_topic_name(library, cycle))
    return 0


def _topic_name(library: Library, cycle: int) -> str:
    return f"{library.name}-{cycle}"
