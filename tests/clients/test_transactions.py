"""Transactional producers and consumers of committed records, as confluent-kafka has them."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from klamm.cluster.server_process import ServerProcess

PARTITIONS, RECORDS = 2, 100
SECONDS = 30


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    """Three brokers that let the first join of a group complete at once."""
    with ServerProcess("--brokers", "3", "--set", "group.initial.rebalance.delay.ms=0", warm=True) as running:
        yield running


def transactional(server: ServerProcess, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(SECONDS)
    return producer


def reader(server: ServerProcess, group_id: str, topic: str) -> Consumer:
    configs: dict[str, str | bool] = {
        "bootstrap.servers": server.bootstrap_servers,
        "group.id": group_id,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = Consumer(configs)
    consumer.subscribe([topic])
    return consumer


def test_consume_transform_produce_copies_each_committed_record_once(server: ServerProcess, topic_name: str) -> None:
    source, target = f"{topic_name}-source", f"{topic_name}-target"
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    for created in admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in (source, target)]).values():
        created.result()
    writer = transactional(server, f"{topic_name}-writer")
    for is_kept in (True, False):
        writer.begin_transaction()
        for number in range(RECORDS):
            writer.produce(source, value=(f"{number}" if is_kept else f"aborted {number}").encode())
        assert writer.flush(SECONDS) == 0
        writer.commit_transaction(SECONDS) if is_kept else writer.abort_transaction(SECONDS)

    worker, consumer = transactional(server, f"{topic_name}-worker"), reader(server, f"{topic_name}-group", source)
    read: list[bytes] = []
    deadline = time.monotonic() + SECONDS
    while len(read) < RECORDS and time.monotonic() < deadline:
        messages = consumer.consume(30, 0.5)
        if messages:
            worker.begin_transaction()
            for message in messages:
                assert message.error() is None
                read.append(message.value() or b"")
                worker.produce(target, value=message.value())
            positions = consumer.position(consumer.assignment())
            worker.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), SECONDS)
            worker.commit_transaction(SECONDS)
    expected = sorted(f"{number}".encode() for number in range(RECORDS))
    assert sorted(read) == expected
    committed = consumer.committed([TopicPartition(source, index) for index in range(PARTITIONS)], SECONDS)
    # A partition of which nothing was read has no committed offset, which is a negative number here.
    assert sum(max(one.offset, 0) for one in committed) >= RECORDS
    consumer.close()

    copies, last = list[bytes](), reader(server, f"{topic_name}-last", target)
    deadline = time.monotonic() + SECONDS
    while len(copies) < RECORDS and time.monotonic() < deadline:
        copies += [message.value() or b"" for message in last.consume(RECORDS, 0.5)]
    last.close()
    assert sorted(copies) == expected
