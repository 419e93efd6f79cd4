"""No output of a server has the secrets of its configs: stderr, the request log, DescribeConfigs, the metadata log."""

import base64
import hashlib
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

import klamm

SECONDS = 20
SECRET = "hunter2"


def login(servers: str, user: str, password: str) -> dict[str, str | int | float | bool]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
        "log_level": "0",
    }


def test_no_output_of_a_server_has_its_secrets(tmp_path: Path) -> None:
    configs = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "delegation.token.secret.key": f"{SECRET}-tokens",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{SECRET}";'
        ),
    }
    log, data_dir = tmp_path / "requests", tmp_path / "data"
    with klamm.ServerProcess(brokers=1, configs=configs, request_log=log, data_dir=data_dir, control=True,
            journal_bodies=True, warm=True) as server:  # fmt: skip
        alice = AdminClient(login(server.bootstrap_servers, "alice", SECRET))
        resource = ConfigResource(ResourceType.BROKER, "1")
        described = alice.describe_configs([resource])[resource].result(SECONDS)
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        change = UserScramCredentialUpsertion("bob", info, SECRET.encode(), salt=b"salt")
        alice.alter_user_scram_credentials([change])["bob"].result(SECONDS)
        salted = hashlib.pbkdf2_hmac("sha256", SECRET.encode(), b"salt", 4096)
        with pytest.raises(KafkaException):
            AdminClient(login(server.bootstrap_servers, "alice", f"{SECRET}-wrong")).list_topics(timeout=2)
        requests = repr([(one.api, one.request, one.response) for one in server.requests()])
    assert described["listener.name.sasl_plaintext.plain.sasl.jaas.config"].is_sensitive
    assert described["delegation.token.secret.key"].value is None
    outputs = {
        "DescribeConfigs": repr({name: entry.value for name, entry in described.items()}),
        "stderr": server.stderr_text(),
        "requests": requests,
        "request log": log.read_text(),
        **{str(file): file.read_bytes().decode(errors="replace") for file in data_dir.rglob("*") if file.is_file()},
    }
    assert "authentication failed" in outputs["stderr"]
    assert "saltedPassword" in outputs["requests"]
    hidden = (SECRET, salted.hex(), base64.b64encode(salted).decode(), base64.b64encode(SECRET.encode())[:8].decode())
    assert [name for name, text in outputs.items() if any(secret in text for secret in hidden)] == []
