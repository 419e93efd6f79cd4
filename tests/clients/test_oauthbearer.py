"""OAUTHBEARER with client libraries: unsecured tokens of librdkafka, and signed ones of a callback."""

import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives.asymmetric import rsa

import klamm

SECONDS = 20
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
PREFIX = "listener.name.sasl_plaintext.oauthbearer.sasl."
CONFIGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    f"{PREFIX}jaas.config": f"{PACKAGE}.OAuthBearerLoginModule required;",
}


def brokers(server: klamm.ServerProcess, seconds: float = SECONDS, **settings: Any) -> int:
    client = AdminClient(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "log_level": 0,
            **settings,
        }
    )
    client.poll(0)  # librdkafka asks for the token in a callback
    return len(client.list_topics(timeout=seconds).brokers)


def test_an_unsecured_token_is_taken_by_a_listener_for_tests() -> None:
    unsecured: dict[str, Any] = {
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=alice",
    }
    with klamm.ServerProcess(brokers=1, configs=CONFIGS, warm=True) as server:
        assert brokers(server, **unsecured) == 1


def test_a_signed_token_is_taken_and_a_forged_or_unsecured_one_is_not(tmp_path: Path) -> None:
    key, other = (rsa.generate_private_key(public_exponent=65_537, key_size=2048) for _ in range(2))
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": [jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)]}))
    configs = {
        **CONFIGS,
        f"{PREFIX}server.callback.handler.class": f"{PACKAGE}.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": file.as_uri(),
    }

    def signed_by(one: Any) -> dict[str, Any]:
        now = int(time.time())
        token = jwt.encode({"sub": "alice", "iat": now, "exp": now + 600}, one, "RS256")
        return {"oauth_cb": lambda _: (token, now + 600.0)}

    unsecured = {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=alice"}
    with klamm.ServerProcess(brokers=1, configs=configs, warm=True) as server:
        assert brokers(server, **signed_by(key)) == 1
        for forged in (signed_by(other), unsecured):
            with pytest.raises(KafkaException):
                brokers(server, 2, **forged)
