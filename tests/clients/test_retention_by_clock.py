"""Retention and compaction under a manual clock: a week passes when a test says so, and what a client reads is decided
by it alone."""

from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from klamm.cluster.server_process import ServerProcess

SECONDS = 20.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[ServerProcess]:
    with ServerProcess(brokers=1, control=True, clock="manual", warm=True) as running:
        yield running


def write(cluster: ServerProcess, topic: str, *pairs: tuple[str, str]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for key, value in pairs:
        producer.produce(topic, value, key)
    assert producer.flush(SECONDS) == 0


def offsets_of(cluster: ServerProcess, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found = []
    while (message := consumer.poll(SECONDS)) is not None and message.error() is None:
        offset = message.offset()
        assert offset is not None
        found.append(offset)
    assert message is not None, "the end is reached"
    consumer.close()
    return found


def test_records_go_after_a_week(cluster: ServerProcess) -> None:
    cluster.create_topic("week", 1, 1)
    write(cluster, "week", ("a", "1"), ("b", "2"))
    cluster.advance("6d")
    assert offsets_of(cluster, "week") == [0, 1]
    cluster.advance("25h")
    assert offsets_of(cluster, "week") == []


def test_the_newest_of_each_key_stays(cluster: ServerProcess) -> None:
    configs = {"cleanup.policy": "compact", "segment.ms": "60000", "message.timestamp.type": "LogAppendTime"}
    cluster.create_topic("compacted", 1, 1, configs)
    write(cluster, "compacted", ("a", "1"), ("b", "2"), ("a", "3"))
    cluster.advance("2m")
    write(cluster, "compacted", ("a", "4"))
    assert offsets_of(cluster, "compacted") == [0, 1, 2, 3]
    cluster.advance("1m")
    assert offsets_of(cluster, "compacted") == [1, 2, 3], "the newest batch is in the active segment"
