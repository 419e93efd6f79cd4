"""Fault rules with real clients: each kind of rule hits as often as it says, and the clients come through."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import CorruptRecordException, KafkaConnectionError, KafkaError
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

import klamm
from klamm.cluster.server_process import ServerProcess

T = TypeVar("T")
SECONDS = 20
SOON_MS = 1_000
"""How long the clients wait for an answer."""


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess(brokers=2, control=True, configs={"group.initial.rebalance.delay.ms": 0}, warm=True) as running:
        yield running


@pytest.fixture
def cluster(server: ServerProcess) -> Iterator[ServerProcess]:
    yield server
    server.remove_faults()


class Client(Protocol):
    """A library, used in the same ways."""

    client_id: str

    def write(self, topic_name: str, value: bytes) -> None: ...
    def read(self, topic_name: str, count: int) -> list[bytes]: ...
    def read_in_group(self, topic_name: str, group: str, count: int) -> list[bytes]: ...
    def topics(self) -> set[str]: ...
    def close(self) -> None: ...


class Confluent:
    """librdkafka."""

    client_id = "confluent"

    def __init__(self, servers: str) -> None:
        self._common: dict[str, Any] = {
            "bootstrap.servers": servers, "client.id": self.client_id, "log_level": 0, "socket.timeout.ms": SOON_MS,
            "reconnect.backoff.max.ms": 100,
        }  # fmt: skip
        self._producer = Producer({**self._common, "enable.idempotence": True, "linger.ms": 0})

    def write(self, topic_name: str, value: bytes) -> None:
        failed: list[Any] = []
        self._producer.produce(topic_name, value, partition=0, on_delivery=lambda error, _: failed.append(error))
        assert self._producer.flush(SECONDS) == 0
        assert failed == [None]

    def read(self, topic_name: str, count: int) -> list[bytes]:
        consumer = Consumer({**self._common, "group.id": "none", "check.crcs": True, "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic_name, 0, OFFSET_BEGINNING)])
        return self._consumed(consumer, count)

    def read_in_group(self, topic_name: str, group: str, count: int) -> list[bytes]:
        consumer = Consumer({**self._common, "group.id": group, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic_name])
        return self._consumed(consumer, count)

    @staticmethod
    def _consumed(consumer: Consumer, count: int) -> list[bytes]:
        found: list[bytes] = []
        deadline = time.monotonic() + SECONDS
        while len(found) < count and time.monotonic() < deadline:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                found.append(message.value() or b"")
        consumer.close()
        return found

    def topics(self) -> set[str]:
        return set(Producer(self._common).list_topics(timeout=SECONDS).topics)

    def close(self) -> None:
        self._producer.flush(1)


class Aio:
    """aiokafka."""

    client_id = "aio"

    def __init__(self, servers: str) -> None:
        self._runner = asyncio.Runner()
        self._common: dict[str, Any] = {
            "bootstrap_servers": servers, "client_id": self.client_id, "retry_backoff_ms": 50,
        }  # fmt: skip
        self._producer: AIOKafkaProducer = self._run(self._made())

    async def _made(self) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(**self._common, enable_idempotence=True, request_timeout_ms=SOON_MS)
        await producer.start()
        return producer

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(asyncio.wait_for(call, SECONDS))

    def write(self, topic_name: str, value: bytes) -> None:
        self._run(self._producer.send_and_wait(topic_name, value, partition=0))

    def read(self, topic_name: str, count: int) -> list[bytes]:
        async def consumed() -> list[bytes]:
            consumer = AIOKafkaConsumer(**self._common, auto_offset_reset="earliest", request_timeout_ms=SOON_MS)
            await consumer.start()
            consumer.assign([AioTopicPartition(topic_name, 0)])
            return await self._consumed(consumer, count)

        return self._run(consumed())

    def read_in_group(self, topic_name: str, group: str, count: int) -> list[bytes]:
        async def consumed() -> list[bytes]:
            consumer = AIOKafkaConsumer(topic_name, **self._common, group_id=group, auto_offset_reset="earliest")
            await consumer.start()
            return await self._consumed(consumer, count)

        return self._run(consumed())

    @staticmethod
    async def _consumed(consumer: AIOKafkaConsumer, count: int) -> list[bytes]:
        found: list[bytes] = []
        try:
            while len(found) < count:
                with suppress(KafkaError):  # such as a batch with a wrong checksum: it asks again
                    found.append((await consumer.getone()).value)
        finally:
            await consumer.stop()
        return found

    def topics(self) -> set[str]:
        async def listed() -> set[str]:
            consumer = AIOKafkaConsumer(**self._common, request_timeout_ms=SOON_MS)
            try:
                await consumer.start()
                return set(await consumer.topics())
            finally:
                await consumer.stop()

        return self._run(listed())

    def close(self) -> None:
        self._run(self._producer.stop())
        self._runner.close()


@pytest.fixture(params=[Confluent, Aio], ids=["confluent", "aiokafka"])
def client(request: pytest.FixtureRequest, cluster: ServerProcess) -> Iterator[Client]:
    made = request.param(cluster.bootstrap_servers)
    yield made
    cluster.remove_faults()
    made.close()


@pytest.fixture
def topic(cluster: ServerProcess, client: Client, topic_name: str) -> str:
    """A topic that the client has written one record to, so that it knows the leader."""
    cluster.create_topic(topic_name, 1, 1)
    client.write(topic_name, b"first")
    return topic_name


def values(cluster: ServerProcess, topic_name: str) -> list[bytes | None]:
    return [record.value for record in cluster.records(topic_name)]


COMES_THROUGH: list[tuple[str, dict[str, Any], int]] = [
    ("an error of the item", {"error": "NOT_LEADER_OR_FOLLOWER", "times": 2}, 2),
    ("an error of the request", {"error": "KAFKA_STORAGE_ERROR", "whole": True, "times": 1}, 1),
    ("an error after the deed", {"error": "REQUEST_TIMED_OUT", "after": True, "times": 1}, 1),
    ("a delay", {"delay_ms": {"min": 100, "max": 200}, "times": 1}, 1),
    ("a delay after the deed", {"delay_ms": 200, "after": True, "times": 1}, 1),
    ("a throttle time", {"throttle_time_ms": 100, "times": 1}, 1),
    ("a closed connection", {"answer": "close", "times": 1}, 1),
    ("a closed connection after the deed", {"answer": "close", "after": True, "times": 1}, 1),
    ("no answer", {"answer": "none", "times": 1}, 1),
    ("no answer after the deed", {"answer": "none", "after": True, "times": 1}, 1),
    ("half an answer", {"answer": "half", "times": 1}, 1),
    ("a flipped byte of the batch", {"answer": "flipped_batch", "times": 1}, 1),
    ("another request's answer", {"answer": "other_correlation_id", "times": 1}, 1),
    ("nothing: it observes", {}, 1),
]  # fmt: skip


@pytest.mark.parametrize(("what", "rule", "hits"), COMES_THROUGH, ids=[what for what, _, _ in COMES_THROUGH])
def test_an_idempotent_producer_comes_through(
    cluster: ServerProcess, client: Client, topic: str, what: str, rule: dict[str, Any], hits: int
) -> None:
    """Whatever happens to its request, the record is there once."""
    if (what, client.client_id) == ("a flipped byte of the batch", "aio"):  # it takes CORRUPT_MESSAGE for final
        fault = cluster.add_fault(api="Produce", client_id=client.client_id, topic=topic, **rule)
        with pytest.raises(CorruptRecordException):
            client.write(topic, b"second")
        assert cluster.fault(fault).hits == hits
        assert values(cluster, topic) == [b"first"]
        return
    fault = cluster.add_fault(api="Produce", client_id=client.client_id, topic=topic, **rule)
    client.write(topic, b"second")
    assert cluster.wait_for_fault(fault, hits).hits == hits
    assert values(cluster, topic) == [b"first", b"second"]
    client.write(topic, b"third")
    assert values(cluster, topic) == [b"first", b"second", b"third"]
    for hit in cluster.fault(fault).requests:
        assert (hit["api"], hit["client_id"], hit["items"]) == ("Produce", client.client_id, [f"{topic}-0"])


@pytest.mark.parametrize(
    "rule",
    [
        {"error": "NOT_LEADER_OR_FOLLOWER"}, {"answer": "flipped_batch"}, {"answer": "close"}, {"answer": "half"},
        {"answer": "none"}, {"delay_ms": 300}, {"answer": "other_correlation_id"},
    ],
    ids=str,
)  # fmt: skip
def test_a_consumer_comes_through(cluster: ServerProcess, client: Client, topic: str, rule: dict[str, Any]) -> None:
    fault = cluster.fail("Fetch", client_id=client.client_id, topic=topic, times=1, **rule)
    assert client.read(topic, 1) == [b"first"]
    assert cluster.fault(fault).hits == 1


def test_a_consumer_notices_a_flipped_bit_in_the_middle_of_an_answer(
    cluster: ServerProcess, client: Client, topic: str
) -> None:
    """The record is so long that the bit is one of its value."""
    client.write(topic, b"x" * 100_000)
    fault = cluster.fail("Fetch", client_id=client.client_id, topic=topic, times=1, answer="flipped_frame")
    assert client.read(topic, 2) == [b"first", b"x" * 100_000]
    assert cluster.fault(fault).hits == 1


def test_a_silent_listener_is_given_up_and_answers_again(cluster: ServerProcess, client: Client, topic: str) -> None:
    fault = cluster.add_fault(listener="PLAIN*", client_id=client.client_id, answer="none")
    with pytest.raises((KafkaException, KafkaConnectionError, TimeoutError, KafkaError)):
        _within_a_moment(client)
    assert cluster.remove_fault(fault).hits > 0
    assert topic in client.topics()


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("JoinGroup", "NOT_COORDINATOR"),
        ("SyncGroup", "NOT_COORDINATOR"),
        ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
    ],
)
def test_a_group_comes_through(cluster: ServerProcess, client: Client, topic: str, api: str, error: str) -> None:
    fault = cluster.fail(api, error, group=f"g-{topic}", whole=True, times=1)
    assert client.read_in_group(topic, f"g-{topic}", 1) == [b"first"]
    assert cluster.fault(fault).hits == 1


def test_a_client_sees_metadata_of_the_past_and_others_do_not(
    cluster: ServerProcess, client: Client, topic: str
) -> None:
    fault = cluster.add_fault(client_id=client.client_id, stale_metadata=True)
    cluster.create_topic(f"{topic}-later", 1, 1)
    assert f"{topic}-later" not in client.topics()
    assert topic in client.topics()
    others = Producer({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=SECONDS).topics
    assert f"{topic}-later" in others
    assert cluster.remove_fault(fault).hits >= 2
    assert f"{topic}-later" in client.topics()


def test_a_client_is_cut_off_from_one_broker_and_finds_the_other(
    cluster: ServerProcess, client: Client, topic: str
) -> None:
    fault = cluster.add_fault(broker=1, client_id=client.client_id, answer="none")
    assert topic in client.topics()
    assert all(hit["broker_id"] == 1 for hit in cluster.fault(fault).requests)
    cut_off = cluster.add_fault(client_id=client.client_id, answer="none")
    with pytest.raises((KafkaException, KafkaConnectionError, TimeoutError, KafkaError)):
        _within_a_moment(client)
    assert cluster.fault(cut_off).hits > 0


def _within_a_moment(client: Client) -> None:
    if isinstance(client, Confluent):
        Producer(client._common).list_topics(timeout=1)
    else:
        client.topics()


def test_the_controller_moves(cluster: ServerProcess, client: Client, topic: str) -> None:
    """Metadata names another controller, and the one that was asked refuses."""
    moved = cluster.fail("Metadata", set={"controllerId": 2}, client_id=client.client_id)
    assert topic in client.topics()
    assert cluster.fault(moved).hits >= 1
    refusing = cluster.fail("CreateTopics", "NOT_CONTROLLER", topic="never")
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    with pytest.raises(KafkaException, match="NOT_CONTROLLER"):
        admin.create_topics([NewTopic("never", 1, 1)])["never"].result(SECONDS)
    assert "never" not in Producer({"bootstrap.servers": cluster.bootstrap_servers}).list_topics().topics
    assert cluster.fault(refusing).hits >= 1


def test_a_wait_that_is_over_is_a_timeout(cluster: ServerProcess) -> None:
    fault = cluster.fail("Produce")
    with pytest.raises(TimeoutError, match=r"rule fault-\d+ has 0 of 2 hits after 0.05 s"):
        cluster.wait_for_fault(fault, 2, timeout_seconds=0.05)
    with pytest.raises(klamm.ControlRefused, match="did you mean 'topic'"):
        cluster.fail("Produce", topc="a")
    calls: list[Callable[[], object]] = [lambda: cluster.fault("none"), lambda: cluster.remove_fault("none")]
    for call in calls:
        with pytest.raises(klamm.ControlRefused, match="there is no rule 'none'"):
            call()
