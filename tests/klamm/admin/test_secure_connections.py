"""`klamm.AdminClient` over TLS and SASL, to real listeners: every mechanism and store, and every refusal."""

import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import klamm
from klamm.admin.client_properties import command_properties
from klamm.admin.connection import open_connection
from klamm.admin.logins import scram_login
from klamm.admin.security import ClientSecurity, LoginFailed
from klamm.cluster.client_config_methods import Library
from klamm.protocol.messages.tokens import create_delegation_token
from klamm.server.addresses import decode_address

CERTS = Path(__file__).parents[2] / "golden" / "security" / "certs"
STORE, OWN, TRUST = "store-secret", "key-secret", "trust-secret"
USERS = {"alice": 'se"cr\\et:x', "bob": "bob-secret"}
LIBRARY: Library = "klamm"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
OF_ALICE = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:alice"}
PACKAGE = "org.apache.kafka.common.security"


async def brokers_seen(*servers: str, **settings: Any) -> int:
    async with klamm.AdminClient(*servers, **settings) as admin:
        return len((await admin.describe_cluster()).brokers)


@pytest.mark.parametrize("security", ["ssl", "sasl_plaintext", "sasl_ssl"])
async def test_a_client_connects_with_what_client_config_gives_it(security: Any) -> None:
    async with klamm.Cluster(brokers=2, security=security, users=USERS, configs=OF_ALICE) as cluster:
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            settings = cluster.client_config(LIBRARY, "alice", mechanism=mechanism)
            assert await brokers_seen(**settings) == 2
            async with klamm.AdminClient(**settings) as admin:
                # The brokers themselves are asked, too: each connection logs in.
                assert len(await admin.describe_log_dirs([1, 2])) == 2
                (made,) = await admin.create_topics([f"orders-{mechanism}"])
                assert made.error is None
            async with klamm.AdminClient(**cluster.client_config(LIBRARY, "bob", mechanism=mechanism)) as admin:
                (made,) = await admin.create_topics(["x"])
                assert made.error is not None
                assert made.error.code is klamm.ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_a_wrong_password_is_refused_and_no_other_server_is_tried(mechanism: str) -> None:
    async with klamm.Cluster(brokers=2, users=USERS) as cluster:
        settings = cluster.client_config(LIBRARY, "alice", mechanism=mechanism) | {"password": "wrong-word"}
        with pytest.raises(klamm.AuthenticationFailed) as refused:
            await brokers_seen(**settings)
        assert str(refused.value).count("is refused") == 1
        assert f"{mechanism} is refused: Authentication failed" in str(refused.value)
        assert "wrong-word" not in str(refused.value)
        unknown = settings | {"user": "carol"}
        with pytest.raises(klamm.AuthenticationFailed, match="Authentication failed"):
            await brokers_seen(**unknown)


async def test_a_mechanism_that_is_not_enabled_is_named_with_those_that_are() -> None:
    configs = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{PACKAGE}.plain.PlainLoginModule required user_alice="x";'
        ),
    }
    async with klamm.Cluster(brokers=1, configs=configs) as cluster:
        servers = cluster.bootstrap_servers
        assert await brokers_seen(servers, user="alice", password="x") == 1
        with pytest.raises(klamm.AuthenticationFailed, match=r"UNSUPPORTED_SASL_MECHANISM \(enabled: PLAIN\)"):
            await brokers_seen(servers, user="alice", password="x", mechanism="SCRAM-SHA-256")


async def test_clients_that_do_not_fit_the_listener_get_a_reason() -> None:
    async with klamm.Cluster(brokers=1) as plain:
        with pytest.raises(klamm.AuthenticationFailed, match="SASL_STATE"):
            await brokers_seen(plain.bootstrap_servers, user="alice", password="x")
        with pytest.raises(klamm.ClusterUnreachable, match="during the TLS handshake: perhaps this listener has no"):
            await brokers_seen(plain.bootstrap_servers, ca_file=CERTS / "ca.crt")
    async with klamm.Cluster(brokers=1, security="sasl_ssl", users=USERS) as secure:
        with pytest.raises(klamm.ClusterUnreachable):
            await brokers_seen(secure.bootstrap_servers)
        settings = secure.client_config(LIBRARY, "alice")
        with pytest.raises(klamm.AuthenticationFailed, match=r"certificate of .* is refused: .*certificate"):
            await brokers_seen(**settings | {"ca_file": CERTS / "ca.crt"})


@asynccontextmanager
async def recorded_certificates(**configs: str) -> AsyncIterator[klamm.Cluster]:
    """A broker with the certificates of the recorded cluster, which clients have to answer with one of their own."""
    all_configs = {
        "listeners": "SSL://127.0.0.1:0",
        "inter.broker.listener.name": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(CERTS / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(CERTS / "ca.crt"),
        "ssl.client.auth": "required",
        **configs,
    }
    async with klamm.Cluster(brokers=1, configs=all_configs) as cluster:
        yield cluster


@pytest.mark.parametrize(
    "stores",
    [
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(CERTS / "alice.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(CERTS / "ca.crt"),
        },
        {
            "ssl.keystore.location": str(CERTS / "server.jks"),
            "ssl.keystore.password": STORE,
            "ssl.key.password": OWN,
            "ssl.truststore.location": str(CERTS / "trust.jks"),
            "ssl.truststore.password": TRUST,
        },
        {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(CERTS / "server.p12"),
            "ssl.keystore.password": STORE,
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(CERTS / "trust.p12"),
            "ssl.truststore.password": TRUST,
        },
    ],
    ids=["pem", "jks", "pkcs12"],
)
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
async def test_stores_of_every_type(stores: dict[str, str], version: str) -> None:
    async with recorded_certificates() as cluster:
        properties = {"security.protocol": "SSL", "ssl.enabled.protocols": version, **stores}
        assert await brokers_seen(cluster.bootstrap_servers, properties=properties) == 1


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
async def test_a_client_without_the_certificate_that_the_broker_wants_gets_the_alert(version: str) -> None:
    async with recorded_certificates() as cluster:
        for own in ({}, {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(CERTS / "stranger.pem")}):
            properties = {
                "security.protocol": "SSL",
                "ssl.enabled.protocols": version,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(CERTS / "ca.crt"),
                **own,
            }
            with pytest.raises(klamm.AuthenticationFailed, match=r"TLS with .* failed: .*(alert|certificate)"):
                await brokers_seen(cluster.bootstrap_servers, properties=properties)


async def test_the_name_of_the_host_has_to_be_in_the_certificate_unless_the_setting_is_empty() -> None:
    everywhere = {"listeners": "SSL://0.0.0.0:0", "advertised.listeners": "SSL://127.0.0.1:0"}
    async with recorded_certificates(**{"ssl.client.auth": "none"}, **everywhere) as cluster:
        port = cluster.bootstrap_servers.rsplit(":", 1)[1]
        settings = {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(CERTS / "ca.crt"),
        }
        assert await brokers_seen(f"localhost:{port}", properties=settings) == 1
        with pytest.raises(klamm.AuthenticationFailed, match=r"127\.0\.0\.2"):
            await brokers_seen(f"127.0.0.2:{port}", properties=settings)
        unverified = {**settings, "ssl.endpoint.identification.algorithm": ""}
        assert await brokers_seen(f"127.0.0.2:{port}", properties=unverified) == 1


async def test_a_delegation_token_logs_in_by_scram_until_it_expires() -> None:
    configs = {"delegation.token.secret.key": "key", **OF_ALICE}
    async with klamm.Cluster(brokers=1, users=USERS, configs=configs) as cluster:
        address = decode_address(cluster.bootstrap_servers)
        alice = ClientSecurity(login=scram_login("SCRAM-SHA-256", "alice", USERS["alice"]))
        connection = await open_connection(address, "tests", 1 << 20, alice)
        api = create_delegation_token.API
        made = await connection.exchange(api, api.latest_stable, api.request(max_lifetime_ms=-1))
        assert made.error_code == 0
        await connection.aclose()
        word = base64.b64encode(made.hmac).decode()
        module = f'{PACKAGE}.scram.ScramLoginModule required username="{made.token_id}" password="{word}"'
        properties = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{module} tokenauth="true";',
        }
        async with klamm.AdminClient(cluster.bootstrap_servers, properties=properties) as admin:
            (topic,) = await admin.create_topics(["by-token"])
            assert topic.error is None, "the token acts for its owner"
        for refused in (f"{module};", f'{module.replace(word, word[::-1])} tokenauth="true";'):
            with pytest.raises(klamm.AuthenticationFailed):
                await brokers_seen(cluster.bootstrap_servers, properties={**properties, "sasl.jaas.config": refused})


UNSECURED = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": (
        f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required;"
    ),
    **OF_ALICE,
}


def by_token(options: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required {options};",
    }


async def test_unsecured_tokens_log_in_and_the_refusal_of_one_has_its_reason() -> None:
    async with klamm.Cluster(brokers=1, configs=UNSECURED) as cluster:
        servers = cluster.bootstrap_servers
        alice = by_token('unsecuredLoginStringClaim_sub="alice"')
        async with klamm.AdminClient(servers, properties=alice) as admin:
            (topic,) = await admin.create_topics(["a"])
            assert topic.error is None
        expired = by_token('unsecuredLoginStringClaim_sub="alice" unsecuredLoginNumberClaim_exp="1"')
        with pytest.raises(klamm.AuthenticationFailed, match=r"OAUTHBEARER is refused: .*invalid_token"):
            await brokers_seen(servers, properties=expired)


async def test_a_token_in_a_file_is_read_again_by_the_next_connection(tmp_path: Path) -> None:
    def token(name: str) -> str:
        parts = ({"alg": "none"}, {"sub": name, "iat": time.time(), "exp": time.time() + 600})
        return ".".join(base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts) + "."

    file = tmp_path / "token"
    file.write_text(token("bob"))
    properties = by_token("") | {
        "sasl.login.callback.handler.class": f"{PACKAGE}.oauthbearer.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
    }
    async with klamm.Cluster(brokers=1, configs=UNSECURED) as cluster:
        admin = klamm.AdminClient(cluster.bootstrap_servers, properties=properties)
        (refused,) = await admin.create_topics(["a"])
        assert refused.error is not None
        await admin.aclose()
        file.write_text(token("alice"))
        (made,) = await admin.create_topics(["a"])
        assert made.error is None
        await admin.aclose()
        file.unlink()
        with pytest.raises(klamm.AuthenticationFailed, match=r"token in .* cannot be read"):
            await admin.describe_cluster()


async def test_a_client_connects_anew_before_the_session_of_its_login_ends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    configs = {"listener.name.sasl_plaintext.connections.max.reauth.ms": "10000"}
    async with (
        klamm.Cluster(brokers=1, users=USERS, configs=configs) as cluster,
        klamm.AdminClient(**cluster.client_config(LIBRARY, "alice")) as admin,
    ):
        first = admin._connections[None]
        for seconds, is_first in ((8.4, True), (0.2, False), (60, False)):
            await trio.sleep(seconds)
            await admin.describe_cluster()
            assert (admin._connections[None] is first) is is_first


def steps_after(first_answer: bytes) -> Any:
    """The login's reaction to a server's first message; `NONCE` in it is the client's."""
    steps = scram_login("SCRAM-SHA-256", "alice", "x").begin()
    nonce = next(steps).rsplit(b"r=", 1)[1]
    return steps.send(first_answer.replace(b"NONCE", nonce))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"r=NONCEx,s=c2FsdA==,i=4095", "4095 iterations"),
        (b"r=NONCEx,s=c2FsdA==,i=1000001", "1000001 iterations"),
        (b"r=NONCE,s=c2FsdA==,i=4096", "first message"),
        (b"r=xNONCEx,s=c2FsdA==,i=4096", "first message"),
        (b"r=NONCEx,s=*,i=4096", "salt"),
        (b"r=NONCEx,i=4096", "first message"),
        (b"\xff", "first message"),
        (b"", "first message"),
    ],
)
def test_a_broker_that_bends_scram_is_refused(answer: bytes, said: str) -> None:
    with pytest.raises(LoginFailed, match=said):
        steps_after(answer)
    assert steps_after(b"r=NONCEx,s=c2FsdA==,i=4096").startswith(b"c=biws,r=")


def test_a_broker_without_the_credential_is_refused() -> None:
    steps = scram_login("SCRAM-SHA-256", "alice", "x").begin()
    nonce = next(steps).rsplit(b"r=", 1)[1]
    steps.send(b"r=" + nonce + b"x,s=c2FsdA==,i=4096")
    with pytest.raises(LoginFailed, match="does not have the credential"):
        steps.send(b"v=" + base64.b64encode(bytes(32)))


async def test_a_plain_client_of_a_tls_listener_learns_what_it_needs() -> None:
    async with klamm.Cluster(brokers=1, security="ssl") as cluster:
        servers = cluster.bootstrap_servers
        said = []
        for properties in (None, command_properties(None)):
            with pytest.raises(klamm.ClusterUnreachable) as raised:
                await brokers_seen(servers, properties=properties)
            said.append(str(raised.value))
    needed = f"{servers} is a listener with TLS: the client needs security.protocol SSL or SASL_SSL"
    assert said == [
        f"{needed} (as the argument security_protocol)",
        f"{needed} (in the file of --command-config)",
    ]
