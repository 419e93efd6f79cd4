"""Steering verbs and waits with real clients: they follow a leader that moves, see an ISR, and are waited for."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from klamm.cluster.server_process import ServerProcess
from tests.clients.record_clients import move_with_kafka_python
from tests.clients.test_faults import SECONDS, Aio, Client, Confluent, values


@pytest.fixture(scope="module")
def cluster() -> Iterator[ServerProcess]:
    configs = {"group.initial.rebalance.delay.ms": 0, "broker.heartbeat.interval.ms": 200}
    with ServerProcess(brokers=3, control=True, configs=configs, warm=True) as running:
        yield running


@pytest.fixture(params=[Confluent, Aio], ids=["confluent", "aiokafka"])
def client(request: pytest.FixtureRequest, cluster: ServerProcess) -> Iterator[Client]:
    made = request.param(cluster.bootstrap_servers)
    yield made
    cluster.remove_faults()
    made.close()


def test_a_producer_follows_a_leader_that_is_moved(cluster: ServerProcess, client: Client, topic_name: str) -> None:
    cluster.create_topic(topic_name, 1, 3)
    client.write(topic_name, b"0")
    watched = cluster.fail("Produce", topic=topic_name)
    for number, broker_id in enumerate((1, 2, 3), 1):
        cluster.move_leader(topic_name, 0, broker_id)
        client.write(topic_name, str(number).encode())
        assert cluster.fault(watched).requests[-1]["broker_id"] == broker_id
        partition = (
            AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(topic_name).topics[topic_name]
        )
        assert partition.partitions[0].leader == broker_id
    assert values(cluster, topic_name) == [b"0", b"1", b"2", b"3"]


def test_too_few_replicas_in_sync_refuse_and_enough_accept(
    cluster: ServerProcess, client: Client, topic_name: str
) -> None:
    cluster.create_topic(topic_name, 1, 3, {"min.insync.replicas": 3})
    client.write(topic_name, b"0")
    follower = next(one for one in (1, 2, 3) if one != cluster.leader(topic_name, 0))
    cluster.shrink_isr(topic_name, 0, follower)
    metadata = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(topic_name, timeout=SECONDS)
    assert sorted(metadata.topics[topic_name].partitions[0].isrs) == sorted({1, 2, 3} - {follower})
    watched = cluster.fail("Produce", topic=topic_name)
    writing = _begin_to_write(client, topic_name)
    cluster.wait_for_fault(watched, 2, SECONDS)  # it is refused, and tries again
    cluster.grow_isr(topic_name, 0, follower)
    writing()
    assert values(cluster, topic_name) == [b"0", b"1"]


def _begin_to_write(client: Client, topic_name: str) -> Any:
    """Write a record; returns the function that waits for it."""
    if isinstance(client, Confluent):
        client._producer.produce(topic_name, b"1", partition=0)
        return lambda: client._producer.flush(SECONDS)
    assert isinstance(client, Aio)
    sending = client._run(client._producer.send(topic_name, b"1", partition=0))

    async def wait() -> None:
        await sending

    client._run(asyncio.sleep(0.5))
    return lambda: client._run(wait())


def test_a_producer_waits_while_the_leader_s_disk_is_away(
    cluster: ServerProcess, client: Client, topic_name: str
) -> None:
    cluster.create_topic(topic_name, 1, 3)
    client.write(topic_name, b"0")
    leader = cluster.leader(topic_name, 0)
    cluster.take_disk(leader)
    writing = _begin_to_write(client, topic_name)
    assert cluster.wait_for_fault(f"disk-{leader}-is-away", 1, SECONDS).requests[-1]["items"] == [f"{topic_name}-0"]
    cluster.return_disk(leader)
    writing()
    assert values(cluster, topic_name) == [b"0", b"1"]


def test_a_write_waits_for_a_follower_that_fetches_nothing(
    cluster: ServerProcess, client: Client, topic_name: str
) -> None:
    cluster.create_topic(topic_name, 1, 3)
    client.write(topic_name, b"0")
    follower = next(one for one in (1, 2, 3) if one != cluster.leader(topic_name, 0))
    watched = cluster.fail("Produce", topic=topic_name)
    cluster.set_replication_rate(follower, 0)
    try:
        writing = _begin_to_write(client, topic_name)
        assert cluster.wait_for_fault(watched, 1, SECONDS).hits == 1
        assert "Produce" not in {one.api for one in cluster.requests(fault=watched)}, "it is not answered yet"
    finally:
        cluster.set_replication_rate(follower, None)
    writing()
    assert values(cluster, topic_name) == [b"0", b"1"]
    assert cluster.fault(watched).hits == 1


def test_a_reassignment_is_awaited_while_a_client_writes(
    cluster: ServerProcess, client: Client, topic_name: str
) -> None:
    """The leader moves to a broker that had no replica, at the pace of its replication."""
    cluster.create_topic(topic_name, 1, 2)
    client.write(topic_name, b"0")
    first = cluster.leader(topic_name, 0)
    (second,) = set(cluster.isr(topic_name, 0)) - {first}
    (third,) = {1, 2, 3} - {first, second}
    cluster.set_replication_rate(third, 0)
    try:
        move_with_kafka_python(topic_name, cluster.bootstrap_servers, {0: (third, second)})
        with pytest.raises(TimeoutError, match="1 partition is in reassignment"):
            cluster.wait_for_reassignments(topic_name, 0.2)
        client.write(topic_name, b"1")
        assert third not in cluster.isr(topic_name, 0)
    finally:
        cluster.set_replication_rate(third, None)
    cluster.wait_for_reassignments(topic_name, SECONDS)
    assert set(cluster.isr(topic_name, 0)) == {second, third}
    assert cluster.leader(topic_name, 0) in (second, third)
    watched = cluster.fail("Produce", topic=topic_name)
    client.write(topic_name, b"2")
    assert cluster.fault(watched).requests[-1]["broker_id"] == cluster.leader(topic_name, 0)
    assert values(cluster, topic_name) == [b"0", b"1", b"2"]


def test_a_topic_that_a_client_makes_by_writing_is_awaited(
    cluster: ServerProcess, client: Client, topic_name: str
) -> None:
    with pytest.raises(TimeoutError, match="does not exist"):
        cluster.wait_for_topic(topic_name, timeout_seconds=0.05)
    watched = cluster.fail("Produce", topic=topic_name)
    client.write(topic_name, b"0")
    cluster.wait_for_topic(topic_name, 1, SECONDS)
    cluster.wait_for_isr(topic_name, 0, SECONDS)
    assert cluster.fault(watched).hits >= 1
    assert values(cluster, topic_name) == [b"0"]


def test_a_fenced_broker_loses_its_leaderships_and_clients_go_on(
    cluster: ServerProcess, client: Client, topic_name: str
) -> None:
    cluster.create_topic(topic_name, 1, 3)
    client.write(topic_name, b"0")
    fenced = cluster.leader(topic_name, 0)
    cluster.fence_broker(fenced)
    assert cluster.leader(topic_name, 0) != fenced
    client.write(topic_name, b"1")
    cluster.unfence_broker(fenced)
    cluster.wait_for_isr(topic_name)
    cluster.expire_session(fenced)
    client.write(topic_name, b"2")
    assert values(cluster, topic_name) == [b"0", b"1", b"2"]
    cluster.wait_until(lambda: not any(broker.fenced for broker in cluster.brokers()), SECONDS)


def test_old_records_go_when_logs_are_cleaned(cluster: ServerProcess, client: Client, topic_name: str) -> None:
    configs = {"retention.bytes": 1_500_000, "segment.bytes": 1_048_576, "retention.ms": -1}
    cluster.create_topic(topic_name, 1, 3, configs)
    for _ in range(5):
        client.write(topic_name, b"x" * 600_000)
    assert len(cluster.records(topic_name)) == 5
    cluster.clean_logs()
    assert 0 < len(cluster.records(topic_name)) < 5


def test_a_confluent_transaction_is_timed_out_by_hand(cluster: ServerProcess, topic_name: str) -> None:
    cluster.create_topic(topic_name, 1, 3)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": f"{topic_name}/1", "log_level": 0}
    )
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(topic_name, b"lost")
    assert producer.flush(SECONDS) == 0
    cluster.time_out_transaction(f"{topic_name}/1")
    with pytest.raises(KafkaException):
        producer.commit_transaction(SECONDS)
    assert cluster.records(topic_name, isolation_level="read_committed") == ()


def test_an_aiokafka_transaction_is_timed_out_by_hand(cluster: ServerProcess, topic_name: str) -> None:
    cluster.create_topic(topic_name, 1, 3)

    async def story() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=topic_name)
        await producer.start()
        await producer.begin_transaction()
        await producer.send_and_wait(topic_name, b"lost")
        cluster.time_out_transaction(topic_name)
        with pytest.raises(Exception):  # noqa: B017, PT011 - the library has several
            await producer.commit_transaction()
        await producer.stop()

    asyncio.run(story())
    assert cluster.records(topic_name, isolation_level="read_committed") == ()


def test_a_group_of_confluent_consumers_is_awaited(cluster: ServerProcess, topic_name: str) -> None:
    cluster.create_topic(topic_name, 2, 3)
    cluster.wait_for_topic(topic_name, 2)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": topic_name, "log_level": 0})
    consumer.subscribe([topic_name])
    consumer.poll(0.1)
    cluster.wait_for_group(topic_name, 1, timeout_seconds=SECONDS)
    consumer.close()
    cluster.wait_for_group(topic_name, 0, "Empty", timeout_seconds=SECONDS)


def test_a_group_of_aiokafka_consumers_is_awaited(cluster: ServerProcess, topic_name: str) -> None:
    cluster.create_topic(topic_name, 2, 3)

    async def story() -> None:
        consumer = AIOKafkaConsumer(topic_name, bootstrap_servers=cluster.bootstrap_servers, group_id=topic_name)
        await consumer.start()
        await asyncio.to_thread(cluster.wait_for_group, topic_name, 1, "Stable", SECONDS)
        await consumer.stop()
        await asyncio.to_thread(cluster.wait_for_group, topic_name, 0, "Empty", SECONDS)

    asyncio.run(story())
