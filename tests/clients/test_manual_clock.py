"""Real clients under a manual clock: minutes of sessions and transactions pass when a test says so, and at once."""

import asyncio
import time
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from klamm.cluster.server_process import ServerProcess

SECONDS = 20
SESSION_MS = 300_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[ServerProcess]:
    """Time passes when a test advances the clock. A consumer's session may last half an hour."""
    configs = {"group.initial.rebalance.delay.ms": 0, "group.max.session.timeout.ms": 1_800_000}
    with ServerProcess(brokers=3, control=True, clock="manual", configs=configs, warm=True) as running:
        yield running


def members_of(cluster: ServerProcess, group: str) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    return len(admin.describe_consumer_groups([group])[group].result(SECONDS).members)


def test_a_confluent_consumer_that_is_cut_off_leaves_its_group_after_five_minutes(
    cluster: ServerProcess, topic_name: str
) -> None:
    cluster.create_topic(topic_name, 2, 3)
    consumer = Consumer({
        "bootstrap.servers": cluster.bootstrap_servers, "group.id": topic_name, "client.id": topic_name, "log_level": 0,
        "session.timeout.ms": SESSION_MS,
    })  # fmt: skip
    consumer.subscribe([topic_name])
    cluster.wait_until(lambda: consumer.poll(0.05) is None and len(consumer.assignment()) == 2, SECONDS)
    assert members_of(cluster, topic_name) == 1
    fault = cluster.add_fault(client_id=topic_name, answer="none")
    began = time.monotonic()
    cluster.advance("4m")
    assert members_of(cluster, topic_name) == 1
    cluster.advance("90s")
    assert members_of(cluster, topic_name) == 0
    assert time.monotonic() - began < SECONDS
    assert cluster.remove_fault(fault).hits > 0
    consumer.close()


def test_an_aiokafka_consumer_that_is_cut_off_leaves_its_group_after_five_minutes(
    cluster: ServerProcess, topic_name: str
) -> None:
    cluster.create_topic(topic_name, 2, 3)

    async def story() -> None:
        consumer = AIOKafkaConsumer(
            topic_name, bootstrap_servers=cluster.bootstrap_servers, group_id=topic_name, client_id=topic_name,
            session_timeout_ms=SESSION_MS, request_timeout_ms=SESSION_MS + 10_000,
        )  # fmt: skip
        await consumer.start()
        async with asyncio.timeout(SECONDS):
            while len(consumer.assignment()) < 2:  # noqa: ASYNC110 - the library has no event for it
                await asyncio.sleep(0.05)
        assert members_of(cluster, topic_name) == 1
        fault = cluster.add_fault(client_id=topic_name, answer="none")
        cluster.advance("4m")
        assert members_of(cluster, topic_name) == 1
        cluster.advance("2m")
        assert members_of(cluster, topic_name) == 0
        cluster.remove_fault(fault)
        await consumer.stop()

    asyncio.run(story())


def committed(cluster: ServerProcess, topic_name: str) -> list[bytes | None]:
    return [record.value for record in cluster.records(topic_name, isolation_level="read_committed")]


def test_a_confluent_transaction_times_out_when_the_clock_says_so(cluster: ServerProcess, topic_name: str) -> None:
    cluster.create_topic(topic_name, 1, 3)
    producer = Producer({
        "bootstrap.servers": cluster.bootstrap_servers, "transactional.id": topic_name, "log_level": 0,
        "transaction.timeout.ms": 60_000,
    })  # fmt: skip
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(topic_name, b"lost")
    assert producer.flush(SECONDS) == 0
    other = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    other.produce(topic_name, b"behind it")
    assert other.flush(SECONDS) == 0
    cluster.advance("50s")
    assert committed(cluster, topic_name) == []
    cluster.advance("20s")
    cluster.wait_until(lambda: committed(cluster, topic_name) == [b"behind it"], SECONDS)
    with pytest.raises(KafkaException):
        producer.commit_transaction(SECONDS)


def test_an_aiokafka_transaction_times_out_when_the_clock_says_so(cluster: ServerProcess, topic_name: str) -> None:
    cluster.create_topic(topic_name, 1, 3)

    async def story() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, transactional_id=topic_name, transaction_timeout_ms=60_000
        )
        await producer.start()
        await producer.begin_transaction()
        await producer.send_and_wait(topic_name, b"lost")
        cluster.advance("59s")
        assert cluster.records(topic_name)
        cluster.advance("11s")
        assert committed(cluster, topic_name) == []
        with pytest.raises(Exception):  # noqa: B017, PT011 - the library has several
            await producer.commit_transaction()
        await producer.stop()

    asyncio.run(story())


def test_a_crashed_broker_is_fenced_after_its_session_and_its_leaderships_move(
    cluster: ServerProcess, topic_name: str
) -> None:
    cluster.create_topic(topic_name, 3, 3)
    cluster.kill_broker(2)
    by_id = {broker.id: broker for broker in cluster.brokers()}
    assert (by_id[2].state, by_id[2].fenced) == ("down", False)
    cluster.advance("10s")
    assert {broker.id for broker in cluster.brokers() if broker.fenced} == {2}
    metadata = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(topic_name, timeout=SECONDS)
    assert 2 not in {partition.leader for partition in metadata.topics[topic_name].partitions.values()}
    cluster.start_broker(2)
    assert not {broker.id for broker in cluster.brokers() if broker.fenced}
