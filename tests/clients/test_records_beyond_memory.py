"""Records beyond the memory for them, written and read back whole with confluent-kafka."""

from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from klamm.cluster.server_process import ServerProcess

SECONDS = 60.0


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with ServerProcess(brokers=1, data_memory_bytes=1 << 20, warm=True) as server:
        yield server.bootstrap_servers


def create(servers: str, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(SECONDS)


def read_back(servers: str, name: str, partitions: int, expected: int, **settings: int) -> dict[int, list[bytes]]:
    """The values in each partition, read from the beginning."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", **settings})
    consumer.assign([TopicPartition(name, index, OFFSET_BEGINNING) for index in range(partitions)])
    found: dict[int, list[bytes]] = {index: [] for index in range(partitions)}
    count = 0
    while count < expected:
        messages = consumer.consume(500, SECONDS)
        assert messages, f"{count} of {expected} records came"
        for message in messages:
            partition, value = message.partition(), message.value()
            assert message.error() is None
            assert partition is not None
            assert value is not None
            assert message.offset() == len(found[partition])
            found[partition].append(value)
        count += len(messages)
    consumer.close()
    return found


def value_of(index: int, size: int) -> bytes:
    return index.to_bytes(4, "big") + bytes([index % 251]) * (size - 4)


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_five_thousand_records_come_back_whole(servers: str, codec: str) -> None:
    name, partitions, count = f"many-{codec}", 3, 5_000
    create(servers, name, partitions)
    producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "batch.num.messages": 20})
    for index in range(count):
        producer.produce(name, value_of(index, 2_000), partition=index % partitions)
    assert producer.flush(SECONDS) == 0
    found = read_back(servers, name, partitions, count)
    assert found == {
        partition: [value_of(index, 2_000) for index in range(partition, count, partitions)]
        for partition in range(partitions)
    }


def test_large_records_are_read_with_small_fetches(servers: str) -> None:
    """The case of librdkafka's test 0041: 2,000 records of a tenth of fetch.message.max.bytes and more, in one
    partition."""
    name, count, fetch_bytes = "large", 2_000, 200_000
    create(servers, name, 1)
    producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.kbytes": 300_000, "linger.ms": 0})
    sizes = [fetch_bytes // 10 + index * 37 % (fetch_bytes // 2) for index in range(count)]
    for index, size in enumerate(sizes):
        producer.produce(name, value_of(index, size))
    assert producer.flush(SECONDS) == 0
    found = read_back(servers, name, 1, count, **{"fetch.message.max.bytes": fetch_bytes})
    assert [len(value) for value in found[0]] == sizes
    assert all(value == value_of(index, size) for index, (value, size) in enumerate(zip(found[0], sizes, strict=True)))
