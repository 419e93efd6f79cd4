"""Records written and read by real clients: every codec, every kind of acknowledgement, consumers that assign
partitions themselves."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition as PythonTopicPartition

from klamm.cluster.server_process import ServerProcess
from tests.clients.conftest import NUM_PARTITIONS

SECONDS = 20.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = [(b"key %d" % number, b"value of record %d, " % number * 10) for number in range(100)]


@pytest.fixture
def topic(server: ServerProcess, topic_name: str) -> str:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    admin.create_topics([NewTopic(topic_name, NUM_PARTITIONS, 3)])[topic_name].result(SECONDS)
    return topic_name


@pytest.fixture
def consumer(server: ServerProcess) -> Iterator[Consumer]:
    """One that assigns itself; a group's name it has to have all the same."""
    made = Consumer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "group.id": "assigns itself",
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            "check.crcs": True,
            # What follows on a connection waits behind a Fetch that waits for records.
            "fetch.wait.max.ms": 10,
        }
    )
    yield made
    made.close()


def read(consumer: Consumer, topic_name: str, count: int) -> list[Message]:
    """So many records of all partitions, from the beginning."""
    consumer.assign([TopicPartition(topic_name, index, OFFSET_BEGINNING) for index in range(NUM_PARTITIONS)])
    found: list[Message] = []
    while len(found) < count:
        message = consumer.poll(SECONDS)
        assert message is not None, f"{len(found)} of {count} records were there"
        assert message.error() is None
        found.append(message)
    assert consumer.poll(0.0) is None
    return found


def write(server: ServerProcess, topic_name: str, **configs: Any) -> list[int | None]:
    """Write all records and return their offsets, as far as the producer is told."""
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "linger.ms": 5, **configs})
    failed: list[KafkaError] = []
    offsets: list[int | None] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is None:
            offsets.append(message.offset())
        else:
            failed.append(error)

    for key, value in RECORDS:
        producer.produce(topic_name, value, key, on_delivery=on_delivery)
    assert producer.flush(SECONDS) == 0
    assert failed == []
    return offsets


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
@pytest.mark.parametrize("codec", CODECS)
def test_confluent_kafka_reads_what_it_wrote(
    codec: str, idempotent: bool, server: ServerProcess, topic: str, consumer: Consumer
) -> None:
    write(server, topic, **{"compression.type": codec, "enable.idempotence": idempotent})
    found = read(consumer, topic, len(RECORDS))
    assert sorted((one.key(), one.value()) for one in found) == sorted(RECORDS)
    for index in range(NUM_PARTITIONS):
        offsets = [one.offset() for one in found if one.partition() == index]
        assert offsets == list(range(len(offsets)))
        assert consumer.get_watermark_offsets(TopicPartition(topic, index)) == (0, len(offsets))


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("stored", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_confluent_kafka_reads_what_its_topic_compressed_anew(
    stored: str, codec: str, server: ServerProcess, topic_name: str, consumer: Consumer
) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    topic = NewTopic(topic_name, NUM_PARTITIONS, 3, config={"compression.type": stored})
    admin.create_topics([topic])[topic_name].result(SECONDS)
    write(server, topic_name, **{"compression.type": codec})
    found = read(consumer, topic_name, len(RECORDS))
    assert sorted((one.key(), one.value()) for one in found) == sorted(RECORDS)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_confluent_kafka_writes_with_any_acks(
    acks: int | str, server: ServerProcess, topic: str, consumer: Consumer
) -> None:
    offsets = write(server, topic, acks=acks)
    assert acks == 0 or set(offsets) == {one.offset() for one in read(consumer, topic, len(RECORDS))}
    assert sorted((one.key(), one.value()) for one in read(consumer, topic, len(RECORDS))) == sorted(RECORDS)


@pytest.mark.parametrize("configs", [{"enable_idempotence": True}, {"acks": 0}, {"acks": 1}, {"acks": "all"}], ids=str)
@pytest.mark.parametrize("codec", [None, "gzip"])
def test_kafka_python_reads_what_it_wrote(
    codec: str | None, configs: dict[str, Any], server: ServerProcess, topic: str
) -> None:
    servers = server.bootstrap_servers.split(",")
    producer = KafkaProducer(bootstrap_servers=servers, compression_type=codec, linger_ms=5, **configs)
    sent = [producer.send(topic, value, key) for key, value in RECORDS]
    producer.flush(SECONDS)
    written = [future.get(SECONDS) for future in sent]
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=servers, group_id=None, auto_offset_reset="earliest")
    consumer.assign([PythonTopicPartition(topic, index) for index in range(NUM_PARTITIONS)])
    found = [next(consumer) for _ in RECORDS]
    consumer.close()
    assert sorted((one.key, one.value) for one in found) == sorted(RECORDS)
    if configs != {"acks": 0}:
        assert {(one.partition, one.offset) for one in found} == {(one.partition, one.offset) for one in written}


@pytest.mark.parametrize("in_one_batch", [True, False])
@pytest.mark.parametrize("codec", CODECS)
def test_offsets_are_found_by_time(
    codec: str, in_one_batch: bool, server: ServerProcess, topic: str, consumer: Consumer
) -> None:
    linger_ms = 200 if in_one_batch else 0
    servers = server.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": linger_ms})
    early, late = 1_600_000_000_000, 1_600_000_001_000
    for timestamp_ms in (early, early, late):
        producer.produce(topic, b"x" * 100, partition=0, timestamp=timestamp_ms)
        if not in_one_batch:
            producer.flush(SECONDS)
    assert producer.flush(SECONDS) == 0

    def found(time_ms: int) -> int:
        (answer,) = consumer.offsets_for_times([TopicPartition(topic, 0, time_ms)], timeout=SECONDS)
        offset: int = answer.offset
        return offset

    assert [found(time_ms) for time_ms in (early, early + 1, late, late + 1)] == [0, 2, 2, -1]
