"""Client libraries log in, with right and wrong passwords, and get what their principal may do."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import AuthenticationFailedError, KafkaConnectionError
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError as KafkaPythonError

import klamm

SECONDS = 20
AUTHENTICATION = -169
"""librdkafka's code for a refused login."""
USERS = {"alice": "alice-secret", "bob": "bob-secret"}
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture(scope="module")
def guarded() -> Iterator[klamm.ServerProcess]:
    """Two brokers on which alice may do everything, and bob nothing."""
    users = " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
    configs = {
        "sasl.enabled.mechanisms": "PLAIN",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:alice",
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        ),
    }
    with klamm.ServerProcess(brokers=2, configs=configs, warm=True) as process:
        yield process


def confluent(servers: str, user: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
        "log_level": 0,
    }


def pythonic(servers: str, user: str, password: str) -> dict[str, Any]:
    """The settings of kafka-python and of aiokafka."""
    return {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


def test_confluent_kafka_logs_in_and_is_its_user(guarded: klamm.ServerProcess, topic_name: str) -> None:
    servers = guarded.bootstrap_servers
    for user, expected in (("bob", KafkaError.TOPIC_AUTHORIZATION_FAILED), ("alice", None)):
        admin = AdminClient(confluent(servers, user, USERS[user]))
        made = admin.create_topics([NewTopic(topic_name, 2, 2)])
        try:
            made[topic_name].result(SECONDS)
            code = None
        except KafkaException as error:
            code = error.args[0].code()
        assert code == expected
    delivered = []
    producer = Producer(confluent(servers, "alice", USERS["alice"]))
    for partition in range(2):
        producer.produce(topic_name, b"x", partition=partition, on_delivery=lambda error, _: delivered.append(error))
    assert producer.flush(SECONDS) == 0
    assert delivered == [None, None]


def test_confluent_kafka_is_told_of_a_wrong_password(guarded: klamm.ServerProcess) -> None:
    errors: list[KafkaError] = []
    settings = confluent(guarded.bootstrap_servers, "alice", "wrong") | {"error_cb": errors.append}
    admin = AdminClient(settings)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=3)
    admin.poll(0)
    assert AUTHENTICATION in {error.code() for error in errors}
    assert any("Invalid username or password" in error.str() for error in errors)


def test_kafka_python_logs_in(guarded: klamm.ServerProcess, topic_name: str, without_refusals_in_log: None) -> None:
    admin = KafkaAdminClient(**pythonic(guarded.bootstrap_servers, "alice", USERS["alice"]))
    try:
        assert len(admin.describe_cluster()["brokers"]) == 2
    finally:
        admin.close()
    with pytest.raises(KafkaPythonError):
        KafkaAdminClient(**pythonic(guarded.bootstrap_servers, "alice", "wrong"), bootstrap_timeout_ms=3_000)


def test_aiokafka_logs_in_writes_and_reads(guarded: klamm.ServerProcess, topic_name: str) -> None:
    async def write_and_read() -> bytes:
        settings = pythonic(guarded.bootstrap_servers, "alice", USERS["alice"])
        async with AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait(topic_name, b"x")
        async with AIOKafkaConsumer(topic_name, auto_offset_reset="earliest", **settings) as consumer:
            message = await asyncio.wait_for(consumer.getone(), SECONDS)
            return bytes(message.value)

    async def fail() -> None:
        producer = AIOKafkaProducer(**pythonic(guarded.bootstrap_servers, "alice", "wrong"))
        try:
            await producer.start()
        finally:
            await producer.stop()

    assert asyncio.run(write_and_read()) == b"x"
    with pytest.raises((AuthenticationFailedError, KafkaConnectionError)):
        asyncio.run(fail())
