"""Client libraries over TLS: with a password, with a certificate, and with a foreign authority."""

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.admin import KafkaAdminClient

import klamm

SECONDS = 20
CERTS = Path(__file__).parents[1] / "golden" / "security" / "certs"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
Settings = dict[str, str | int | float | bool]


@pytest.fixture(scope="module")
def guarded() -> Iterator[klamm.ServerProcess]:
    """alice may do everything, with her password or her certificate; bob may do nothing."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    configs = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:alice;User:ANONYMOUS",
        "listeners": "SASL_SSL://127.0.0.1:0,SSL://127.0.0.1:0",
        "inter.broker.listener.name": "SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(CERTS / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(CERTS / "ca.crt"),
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]*),.*$/$1/L",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{module} required user_alice="pw" user_bob="pw";',
    }
    with klamm.ServerProcess(brokers=2, configs=configs, warm=True) as process:
        yield process


def by_password(guarded: klamm.ServerProcess, **more: str) -> Settings:
    return {
        "bootstrap.servers": guarded.listeners.get("SASL_SSL") or guarded.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(CERTS / "ca.crt"),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "pw",
        "log_level": 0,
        **more,
    }


def by_certificate(guarded: klamm.ServerProcess, name: str, **more: str) -> Settings:
    return {
        "bootstrap.servers": guarded.listeners.get("SSL") or guarded.bootstrap_servers,
        "security.protocol": "SSL",
        "ssl.ca.location": str(CERTS / "ca.crt"),
        "ssl.certificate.location": str(CERTS / f"{name}.pem"),
        "ssl.key.location": str(CERTS / f"{name}.pem"),
        "log_level": 0,
        **more,
    }


def created(settings: Settings, topic_name: str) -> int | None:
    """The error code with which the client could not create a topic."""
    admin = AdminClient(settings)
    try:
        admin.create_topics([NewTopic(topic_name, 1, 1)])[topic_name].result(SECONDS)
    except KafkaException as error:
        code: int = error.args[0].code()
        return code
    return None


def test_confluent_kafka_with_a_password(guarded: klamm.ServerProcess, topic_name: str) -> None:
    denied = KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert created(by_password(guarded, **{"sasl.username": "bob"}), topic_name) == denied
    assert created(by_password(guarded), topic_name) is None
    listed = AdminClient(by_password(guarded)).list_topics(timeout=SECONDS)
    servers = guarded.listeners.get("SASL_SSL") or guarded.bootstrap_servers
    assert {f"{one.host}:{one.port}" for one in listed.brokers.values()} == set(servers.split(","))


def test_confluent_kafka_with_a_certificate(guarded: klamm.ServerProcess, topic_name: str) -> None:
    assert created(by_certificate(guarded, "bob"), topic_name) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert created(by_certificate(guarded, "alice"), topic_name) is None


@pytest.mark.parametrize(
    "change",
    [
        {"ssl.ca.location": str(CERTS / "other-ca.crt")},
        {"sasl.password": "wrong"},
        {"security.protocol": "SASL_PLAINTEXT"},
        {"security.protocol": "SSL"},
        {"security.protocol": "PLAINTEXT"},
    ],
)
def test_confluent_kafka_does_not_get_in_otherwise(guarded: klamm.ServerProcess, change: dict[str, str]) -> None:
    admin = AdminClient(by_password(guarded, **change))
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)


def test_confluent_kafka_does_not_get_in_with_a_foreign_certificate(guarded: klamm.ServerProcess) -> None:
    admin = AdminClient(by_certificate(guarded, "stranger"))
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)


def pythonic(guarded: klamm.ServerProcess) -> dict[str, Any]:
    return {
        "bootstrap_servers": guarded.listeners.get("SASL_SSL") or guarded.bootstrap_servers,
        "security_protocol": "SASL_SSL",
        "ssl_context": ssl.create_default_context(cafile=CERTS / "ca.crt"),
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "pw",
    }


def test_kafka_python_with_a_password(guarded: klamm.ServerProcess) -> None:
    admin = KafkaAdminClient(**pythonic(guarded))
    try:
        assert len(admin.describe_cluster()["brokers"]) == 2
    finally:
        admin.close()


def test_aiokafka_writes_and_reads(guarded: klamm.ServerProcess, topic_name: str) -> None:
    async def write_and_read() -> bytes:
        settings = pythonic(guarded)
        async with AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait(topic_name, b"x" * 300_000)
        async with AIOKafkaConsumer(topic_name, auto_offset_reset="earliest", **settings) as consumer:
            return bytes((await asyncio.wait_for(consumer.getone(), SECONDS)).value)

    assert asyncio.run(write_and_read()) == b"x" * 300_000
