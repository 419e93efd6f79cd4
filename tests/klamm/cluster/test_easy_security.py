"""The options `security` and `users`: clients of three libraries connect with what `client_config` gives them, and the
settings of the others have the same contents."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.admin import KafkaAdminClient

import klamm
from klamm.cluster.client_config_methods import Library
from klamm.cluster.client_configs import LIBRARIES, MECHANISMS, NoClientConfig
from klamm.serve.options import decode_serve_options

SECONDS = 20
USERS = {"alice": 'se"cr\\et:x', "bob": "bob-secret"}
DENYING = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
PROTOCOLS = ("ssl", "sasl_plaintext", "sasl_ssl")


@pytest.fixture(scope="module", params=PROTOCOLS)
def server(request: pytest.FixtureRequest) -> Iterator[klamm.ServerProcess]:
    """alice may do everything, bob nothing."""
    configs = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:alice",
    }
    with klamm.ServerProcess(brokers=2, security=request.param, users=USERS, configs=configs, warm=True) as process:
        assert process.stderr_text() == ""
        yield process


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_connects_and_is_its_user(server: klamm.ServerProcess, mechanism: str) -> None:
    name = f"orders-{mechanism}"
    for user, is_refused in (("bob", True), ("alice", False)):
        admin = AdminClient(server.client_config("confluent-kafka", user, mechanism=mechanism))
        made = admin.create_topics([NewTopic(name, 1, 1)])[name]
        if is_refused:
            with pytest.raises(KafkaException):
                made.result(SECONDS)
        else:
            made.result(SECONDS)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_connects(server: klamm.ServerProcess, mechanism: str) -> None:
    admin = KafkaAdminClient(**server.client_config("kafka-python", "alice", mechanism=mechanism))
    try:
        assert len(admin.describe_cluster()["brokers"]) == 2
    finally:
        admin.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_connects(server: klamm.ServerProcess, mechanism: str) -> None:
    async def described() -> Any:
        admin = AIOKafkaAdminClient(**server.client_config("aiokafka", "alice", mechanism=mechanism))
        await admin.start()
        try:
            return await admin.describe_cluster()
        finally:
            await admin.close()

    assert len(asyncio.run(described())["brokers"]) == 2


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_gets_the_servers_and_what_the_protocol_needs(
    server: klamm.ServerProcess, library: Library
) -> None:
    config = repr(server.client_config(library, "alice", mechanism="SCRAM-SHA-512"))
    assert all(one in config for one in server.bootstrap_servers.split(","))
    protocol = server.client_config("java", "alice")["security.protocol"]
    assert ("scram" in config.lower()) == protocol.startswith("SASL")
    if library == "kafkajs":  # Node takes the contents
        ssl = server.client_config(library, "alice").get("ssl", {})
        assert set(ssl) == {"ssl": {"ca", "key", "cert"}, "sasl_ssl": {"ca"}}.get(protocol.lower(), set())
        assert all(name == "key" or "-----BEGIN CERTIFICATE-----" in text for name, text in ssl.items())
        assert "PRIVATE KEY-----" in ssl.get("key", "PRIVATE KEY-----")
    elif library != "aiokafka":
        assert ("ca.pem" in config) == protocol.endswith("SSL")
        assert ("alice.pem" in config) == (protocol == "SSL")


def test_the_java_client_gets_a_login_module_with_escaped_words() -> None:
    with klamm.ServerProcess(brokers=1, users=USERS, warm=True) as process:
        config = process.client_config("java", "alice")
        default = process.client_config("confluent-kafka")
    assert config["sasl.jaas.config"] == (
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="se\\"cr\\\\et:x";'
    )
    assert (default["security.protocol"], default["sasl.username"]) == ("SASL_PLAINTEXT", "alice")


def test_the_files_are_readable_by_their_owner_alone_and_go_with_the_server() -> None:
    with klamm.ServerProcess(brokers=1, security="ssl", warm=True) as process:
        directory = Path(process.client_config("confluent-kafka")["ssl.ca.location"]).parent
        assert sorted(one.name for one in directory.iterdir()) == ["ca.pem", "truststore.p12"]
        assert directory.stat().st_mode & 0o077 == 0
    assert not directory.exists()


def test_another_authority_is_not_trusted() -> None:
    with (
        klamm.ServerProcess(brokers=1, security="ssl", warm=True) as one,
        klamm.ServerProcess(brokers=1, security="ssl", warm=True) as other,
    ):
        config = one.client_config("confluent-kafka") | {"log_level": 0}
        foreign = other.client_config("confluent-kafka")["ssl.ca.location"]
        assert len(AdminClient(config).list_topics(timeout=SECONDS).brokers) == 1
        with pytest.raises(KafkaException):
            AdminClient(config | {"ssl.ca.location": foreign}).list_topics(timeout=2)


async def test_a_cluster_in_a_trio_program_has_the_same() -> None:
    async with klamm.Cluster(brokers=1, security="sasl_ssl", users=USERS) as cluster:
        config = cluster.client_config("java", "bob")
        assert config["security.protocol"] == "SASL_SSL"
        assert config["ssl.truststore.location"].endswith("/ca.pem")
        assert "secret" not in repr(cluster)


def test_credentials_are_not_written_twice_and_change_with_the_password(tmp_path: Path) -> None:
    lines = []
    for password in ("one", "one", "two"):
        with klamm.ServerProcess(brokers=1, users={"alice": password}, data_dir=tmp_path, warm=True) as process:
            config = process.client_config("confluent-kafka", mechanism="SCRAM-SHA-256")
            assert len(AdminClient(config).list_topics(timeout=SECONDS).brokers) == 1
        log = b"".join(file.read_bytes() for file in sorted(tmp_path.rglob("*.log")))
        lines.append(log.count(b"alice"))
    assert lines[0] == lines[1] < lines[2]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"security": "sasl_ssl"}, "security sasl_ssl needs users"),
        ({"security": "tls"}, "security 'tls': one of ssl, sasl_plaintext, sasl_ssl is expected"),
        ({"security": "ssl", "listeners": ("SSL://127.0.0.1:0",)}, "give its address as listen, not as listeners"),
        ({"users": {"a/b": "secret"}}, "user 'a/b': up to 64 letters"),
        ({"users": {"alice": ""}}, "user alice: a password"),
        ({"users": {"alice": "secret\n"}}, "user alice: a password"),
        ({"users": ["alice:hunter2"]}, "users: a mapping of names to passwords is expected"),
    ],
)
async def test_options_that_do_not_fit_are_refused(options: Any, said: str) -> None:
    with pytest.raises(klamm.ClusterError) as refused:
        klamm.Cluster(**options)
    assert said in str(refused.value)
    assert not {"hunter2", "secret\n"} & {str(refused.value)[start : start + 7] for start in range(100)}


def test_the_command_line_has_a_short_form() -> None:
    for arguments, expected in (
        (["--tls", "auto"], ("ssl", ())),
        (["--tls", "auto", "--user", "alice:a:b"], ("sasl_ssl", (("alice", "a:b"),))),
        (["--user", "alice:x", "--security", "ssl"], ("ssl", (("alice", "x"),))),
    ):
        options = decode_serve_options(arguments)
        assert (options.security, options.users) == expected
        assert "a:b" not in repr(options)


@pytest.mark.parametrize(
    ("library", "user", "mechanism", "said"),
    [
        ("sarama", None, "PLAIN", "library 'sarama': one of confluent-kafka"),
        ("java", "carol", "PLAIN", "user 'carol': the cluster has alice"),
        ("java", "alice", "GSSAPI", "mechanism 'GSSAPI': one of PLAIN"),
    ],
)
def test_settings_that_do_not_exist_are_refused(library: Any, user: str | None, mechanism: str, said: str) -> None:
    with (
        klamm.ServerProcess(brokers=1, users={"alice": "x"}, warm=True) as process,
        pytest.raises(NoClientConfig) as refused,
    ):
        process.client_config(library, user, mechanism=mechanism)
    assert said in str(refused.value)


def test_a_cluster_without_security_has_settings_too() -> None:
    with klamm.ServerProcess(brokers=1, warm=True) as process:
        config = process.client_config("confluent-kafka")
    assert config == {"bootstrap.servers": process.bootstrap_servers, "security.protocol": "PLAINTEXT"}


@pytest.mark.parametrize("options", [{"security": "ssl"}, {"security": "sasl_ssl", "users": USERS}, {"users": USERS}])
def test_topics_are_created_whatever_the_listener_demands(options: dict[str, Any]) -> None:
    """Also where the authorizer lets no user without a name create topics."""
    with klamm.ServerProcess(brokers=1, configs=DENYING, control=True, warm=True, **options) as server:
        server.create_topic("orders", 3)
        assert server.ask("POST", "/topics/orders/wait", {"num_partitions": 3})["num_partitions"] == 3
        with pytest.raises(klamm.ControlError, match="TOPIC_ALREADY_EXISTS"):
            server.create_topic("orders")
        assert server.requests("CreateTopics") == ()
        assert server.stderr_text() == ""


def test_the_clusters_own_requests_end_with_their_connection() -> None:
    async def run() -> None:
        async with klamm.Cluster(brokers=1, users=USERS, configs=DENYING) as cluster:
            for number in range(3):
                await cluster.create_topic(f"orders-{number}")
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert not cluster._up.admission.connections

    trio.run(run)


@pytest.mark.parametrize("auto", [("--tls", "auto"), ("--tls=auto", "--user", "alice:secret")])
def test_topics_are_created_with_tls_auto(auto: tuple[str, ...]) -> None:
    with klamm.ServerProcess("--brokers", "1", *auto, control=True, warm=True) as server:
        server.create_topic("orders")
        assert server.leader("orders", 0) == 1
