"""Consumers of real clients in groups: they join, share partitions, commit, and find their offsets again."""

import asyncio
import time
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer

from klamm.cluster.server_process import ServerProcess

PARTITIONS, RECORDS = 4, 200
SECONDS = 30


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    """Three brokers that let the first join of a group complete at once."""
    with ServerProcess("--brokers", "3", "--set", "group.initial.rebalance.delay.ms=0", warm=True) as running:
        yield running


@pytest.fixture
def topic(server: ServerProcess, topic_name: str) -> str:
    """A topic with records numbered from 0."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    admin.create_topics([NewTopic(topic_name, PARTITIONS, 3)])[topic_name].result()
    producer = Producer({"bootstrap.servers": server.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(topic_name, value=str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(SECONDS) == 0
    return topic_name


def _is_at_the_end(consumer: Consumer) -> bool:
    """Whether it has half of the partitions and has consumed all of their records."""
    positions = [one.offset for one in consumer.position(consumer.assignment())]
    return positions == [RECORDS // PARTITIONS] * (PARTITIONS // 2)


def test_two_confluent_consumers_share_the_partitions_and_commit(server: ServerProcess, topic: str) -> None:
    group_id = f"g-{topic}"
    configs: dict[str, str | bool] = {
        "bootstrap.servers": server.bootstrap_servers,
        "group.id": group_id,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumers = [Consumer(configs) for _ in range(2)]
    for consumer in consumers:
        consumer.subscribe([topic])
    seen: set[bytes] = set()
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        for consumer in consumers:
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                seen.add(message.value() or b"")
        # A partition that has changed hands is read again from its beginning: nothing was committed yet.
        if all(_is_at_the_end(consumer) for consumer in consumers):
            break
    assert len(seen) == RECORDS
    for consumer in consumers:
        consumer.commit(asynchronous=False)
        consumer.close()
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    described = admin.describe_consumer_groups([group_id])[group_id].result()
    assert described.state is ConsumerGroupState.EMPTY
    asked = ConsumerGroupTopicPartitions(group_id, [TopicPartition(topic, index) for index in range(PARTITIONS)])
    found = admin.list_consumer_group_offsets([asked])[group_id].result()
    assert [one.offset for one in found.topic_partitions] == [RECORDS // PARTITIONS] * PARTITIONS


def test_kafka_python_goes_on_where_its_group_committed(server: ServerProcess, topic: str) -> None:
    def consume(count: int) -> list[bytes]:
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=server.bootstrap_servers.split(","),
            group_id=f"g-{topic}",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=1,
            consumer_timeout_ms=SECONDS * 1000,
        )
        seen = []
        for message in consumer:
            seen.append(message.value)
            if len(seen) == count:
                break
        consumer.commit()
        consumer.close()
        return seen

    first, rest = consume(RECORDS // 2), consume(RECORDS - RECORDS // 2)
    assert sorted(first + rest) == sorted(str(number).encode() for number in range(RECORDS))


def test_aiokafka_goes_on_where_its_group_committed(server: ServerProcess, topic: str) -> None:
    """Two members at once, then one that comes later: every record is read once."""

    async def read(count: int, members: int) -> list[int]:
        consumers = [
            AIOKafkaConsumer(
                topic,
                bootstrap_servers=server.bootstrap_servers,
                group_id=f"aio-{topic}",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                max_poll_records=10,
            )
            for _ in range(members)
        ]
        await asyncio.gather(*(consumer.start() for consumer in consumers))
        found: list[int] = []
        try:
            async with asyncio.timeout(SECONDS):
                while len(found) < count:
                    for consumer in consumers:
                        batches = await consumer.getmany(timeout_ms=100, max_records=10)
                        found += [int(record.value) for records in batches.values() for record in records]
                        if batches:
                            await consumer.commit()
        finally:
            await asyncio.gather(*(consumer.stop() for consumer in consumers))
        return found

    async def read_twice() -> list[int]:
        first = await read(RECORDS // 2, members=1)
        return first + await read(RECORDS - len(first), members=2)

    assert sorted(asyncio.run(read_twice())) == list(range(RECORDS))
