"""SCRAM with client libraries: credentials are made, rotated and removed while clients run."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.admin import KafkaAdminClient

import klamm

SECONDS = 20
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
NUMBERS = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}


@pytest.fixture(scope="module")
def server() -> Iterator[klamm.ServerProcess]:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    jaas = {f"listener.name.sasl_plaintext.{name.lower()}.sasl.jaas.config": module for name in MECHANISMS}
    configs = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "delegation.token.secret.key": "key of tokens",
        **jaas,
    }
    with klamm.ServerProcess(brokers=1, configs=configs, warm=True) as process:
        yield process


@pytest.fixture
def admin(server: klamm.ServerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": server.bootstrap_servers})


def set_password(admin: AdminClient, user: str, mechanism: str, password: str) -> None:
    info = ScramCredentialInfo(NUMBERS[mechanism], 4_096)
    change = UserScramCredentialUpsertion(user, info, password.encode())
    admin.alter_user_scram_credentials([change])[user].result(SECONDS)


def described_user(admin: AdminClient, user: str) -> Any:
    asked: Any = admin.describe_user_scram_credentials([user])
    return asked[user].result(SECONDS)


def gets_in(server: klamm.ServerProcess, user: str, mechanism: str, password: str) -> bool:
    client = AdminClient(
        {
            "bootstrap.servers": server.listeners["SASL_PLAINTEXT"],
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "log_level": 0,
        }
    )
    try:
        return len(client.list_topics(timeout=3).brokers) == 1
    except KafkaException:
        return False


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_logs_in_with_the_present_password_alone(
    server: klamm.ServerProcess, admin: AdminClient, mechanism: str
) -> None:
    assert not gets_in(server, "carol", mechanism, "one")
    set_password(admin, "carol", mechanism, "one")
    assert gets_in(server, "carol", mechanism, "one")
    set_password(admin, "carol", mechanism, "two")
    assert not gets_in(server, "carol", mechanism, "one")
    assert gets_in(server, "carol", mechanism, "two")
    described = described_user(admin, "carol")
    assert [(info.mechanism, info.iterations) for info in described.scram_credential_infos] == [
        (NUMBERS[mechanism], 4_096)
    ]
    removal = UserScramCredentialDeletion("carol", NUMBERS[mechanism])
    admin.alter_user_scram_credentials([removal])["carol"].result(SECONDS)
    assert not gets_in(server, "carol", mechanism, "two")
    with pytest.raises(KafkaException):
        described_user(admin, "carol")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_logs_in(server: klamm.ServerProcess, admin: AdminClient, mechanism: str) -> None:
    set_password(admin, "dave", mechanism, "pw")
    client = KafkaAdminClient(**_pythonic(server, "dave", mechanism))
    try:
        assert len(client.describe_cluster()["brokers"]) == 1
    finally:
        client.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_logs_in(server: klamm.ServerProcess, admin: AdminClient, mechanism: str) -> None:
    set_password(admin, "erin", mechanism, "pw")

    async def cluster() -> Any:
        client = AIOKafkaAdminClient(**_pythonic(server, "erin", mechanism))
        await client.start()
        try:
            return await client.describe_cluster()
        finally:
            await client.close()

    assert len(asyncio.run(cluster())["brokers"]) == 1


def _pythonic(server: klamm.ServerProcess, user: str, mechanism: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": server.listeners["SASL_PLAINTEXT"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": "pw",
    }
