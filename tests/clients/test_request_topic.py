"""The request log as a topic: unmodified consumers read its lines, and do not read about themselves."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from confluent_kafka import Consumer, Producer

from klamm.cluster.server_process import ServerProcess

TOPIC = "__klamm_requests"
SECONDS = 20
QUIET_SECONDS = 1.5
OF_THE_TOPIC = {"Fetch", "ListOffsets", "OffsetCommit", "Produce"}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "requests.jsonl"


@pytest.fixture(scope="module")
def cluster(log: Path) -> Iterator[ServerProcess]:
    with ServerProcess(
        brokers=2, request_topic=TOPIC, request_log=log, configs={"group.initial.rebalance.delay.ms": 0}, warm=True
    ) as running:
        yield running


def produce(cluster: ServerProcess, topic: str, client_id: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "client.id": client_id})
    producer.produce(topic, b"value")
    assert producer.flush(SECONDS) == 0


def test_a_confluent_consumer_reads_who_asked_what(cluster: ServerProcess, topic_name: str) -> None:
    produce(cluster, topic_name, topic_name)
    consumer = Consumer({
        "bootstrap.servers": cluster.bootstrap_servers, "group.id": topic_name, "client.id": f"{topic_name}-reader",
        "auto.offset.reset": "earliest", "auto.commit.interval.ms": 100, "heartbeat.interval.ms": 60_000,
        "session.timeout.ms": 200_000, "max.poll.interval.ms": 300_000,
    })  # fmt: skip
    consumer.subscribe([TOPIC])
    lines: list[dict[str, Any]] = []

    def read() -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            assert message.key() is None
            lines.append(json.loads(message.value() or b""))
        return any(line["client_id"] == topic_name and line["api"] == "Produce" for line in lines)

    cluster.wait_until(read, SECONDS)
    found = next(line for line in lines if line["client_id"] == topic_name and line["api"] == "Produce")
    assert found["client_software_name"] == "confluent-kafka-python"
    assert found["principal"] == "User:ANONYMOUS"
    deadline = time.monotonic() + QUIET_SECONDS
    while time.monotonic() < deadline:
        read()
    consumer.close()
    numbers = [line["seq"] for line in lines]
    assert numbers == sorted(set(numbers))
    reader = {line["api"] for line in lines if line["client_id"] == f"{topic_name}-reader"}
    assert "Metadata" in reader
    assert not reader & OF_THE_TOPIC


def test_an_aiokafka_consumer_reads_it_and_the_file_has_what_the_topic_leaves_out(
    cluster: ServerProcess, log: Path, topic_name: str
) -> None:
    async def story() -> list[dict[str, Any]]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers, client_id=f"{topic_name}-reader", fetch_max_wait_ms=100
        )
        await consumer.start()
        try:
            partition = TopicPartition(TOPIC, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            await asyncio.to_thread(produce, cluster, topic_name, topic_name)
            lines: list[dict[str, Any]] = []
            while not any(line["client_id"] == topic_name and line["api"] == "Produce" for line in lines):
                record = await asyncio.wait_for(consumer.getone(), SECONDS)
                lines.append(json.loads(record.value))
            return lines
        finally:
            await consumer.stop()

    lines = asyncio.run(story())
    reader = f"{topic_name}-reader"
    assert not {line["api"] for line in lines if line["client_id"] == reader} & OF_THE_TOPIC
    in_file = {line["seq"]: line for line in map(json.loads, log.read_text().splitlines())}
    assert all(in_file[line["seq"]] == line for line in lines)
    assert {line["api"] for line in in_file.values() if line["client_id"] == reader} >= {"Fetch", "ListOffsets"}
