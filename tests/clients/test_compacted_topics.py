"""Compacted topics as applications read them: the newest value of each key at its offset, with three client libraries
and all codecs, also behind aborted transactions."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from klamm.cluster.server_process import ServerProcess
from tests.clients.record_clients import AiokafkaRecords, ConfluentRecords, KafkaPythonRecords, Placed, Record

SECONDS = 30.0
KEYS, ROUNDS = 40, 6
CONFIGS = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.01"}
ACTIVE = b"active"


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    """A cleaner that rests for a tenth of a second, and memory for a part of the records."""
    with ServerProcess(
        brokers=1, configs={"log.cleaner.backoff.ms": 100}, data_memory_bytes=1 << 20, warm=True
    ) as running:
        yield running


def create(server: ServerProcess, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    admin.create_topics([NewTopic(name, partitions, 1, config=CONFIGS)])[name].result(SECONDS)


def value_of(number: int, index: int) -> bytes:
    return f"{number} of {index} ".encode() * 100


def write(writer: Any, records: Sequence[Record]) -> None:
    """Write records, and wait until all are acknowledged."""
    expected, deadline = len(writer.acknowledged) + len(records), time.monotonic() + SECONDS
    writer.write(records)
    while len(writer.acknowledged) < expected:
        writer.read()
        assert not writer.failed
        assert time.monotonic() < deadline


def read_until_compacted(reader: Any, close: Any, expected: set[tuple[int, bytes, bytes]]) -> None:
    """Read the topic anew until it has the expected records, each with its partition, besides those of the active
    segments."""
    deadline = time.monotonic() + SECONDS
    while True:
        client = reader()
        found: list[Placed] = []
        while sum(one.record.key == ACTIVE for one in found) < len(client.codecs):
            found += client.read()
            assert time.monotonic() < deadline, f"{len(found)} records"
        close(client)
        left = {(one.record.partition, one.record.key, one.record.value) for one in found if one.record.key != ACTIVE}
        assert expected <= left
        if left == expected and len(found) == len(expected) + len(client.codecs):
            return
        assert time.monotonic() < deadline, f"{len(left)} records are left"


@pytest.mark.parametrize("library", [ConfluentRecords, KafkaPythonRecords, AiokafkaRecords])
def test_the_newest_value_of_each_key_stays(server: ServerProcess, library: Any) -> None:
    name = f"compacted-{library.__name__}"
    partitions = range(len(library.codecs))
    create(server, name, len(partitions))
    writer = library(server.bootstrap_servers, name)
    for number in range(ROUNDS):
        write(
            writer,
            [
                Record(partition, b"key %d" % index, value_of(number, index))
                for partition in partitions
                for index in range(KEYS)
            ],
        )
        time.sleep(0.003)  # a segment lasts a millisecond
    write(writer, [Record(partition, ACTIVE, b"") for partition in partitions])
    expected = {
        (partition, b"key %d" % index, value_of(ROUNDS - 1, index)) for partition in partitions for index in range(KEYS)
    }
    read_until_compacted(lambda: library(server.bootstrap_servers, name), lambda client: client.close(), expected)
    writer.close()


def test_aborted_records_are_no_newest_ones(server: ServerProcess) -> None:
    name = "transactions"
    create(server, name, 1)
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(SECONDS)
    for number in range(ROUNDS):
        producer.begin_transaction()
        for index in range(KEYS):
            producer.produce(name, value_of(number, index), b"key %d" % index)
        (producer.abort_transaction if number % 3 == 2 else producer.commit_transaction)(SECONDS)
        time.sleep(0.003)
    newest = ROUNDS - 2
    deadline = time.monotonic() + SECONDS
    while True:
        consumer = Consumer(
            {
                "bootstrap.servers": server.bootstrap_servers,
                "group.id": "g",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING)])
        found = []
        while (message := consumer.poll(SECONDS)) is not None and message.error() is None:
            found.append((message.key(), message.value()))
        consumer.close()
        assert message is not None, "the end is reached"
        assert {(b"key %d" % index, value_of(newest, index)) for index in range(KEYS)} <= set(found)
        assert not {value for _, value in found} & {value_of(ROUNDS - 1, index) for index in range(KEYS)}
        if len(found) == KEYS:
            break
        producer.begin_transaction()  # its segment lets the one before be compacted
        producer.produce(name, value_of(newest, 0), b"key 0")
        producer.commit_transaction(SECONDS)
        assert time.monotonic() < deadline, f"{len(found)} records are left"
