"""Recorded logins, certificates, credentials and tokens of a real Apache Kafka 4.3 node against ours, over real
sockets. The cluster's configs are those of the recorded one, in a file as it had.
"""

from pathlib import Path

import pytest
from trio.testing import MockClock

from klamm.cluster.assembly import open_cluster
from klamm.cluster.options import checked_options
from klamm.cluster.plan import FREE_PORTS, plan_cluster
from tests.behaviour.known_differences import known_differences
from tests.behaviour.security_player import CERTS, SecurityPlayer, security_scenarios

# Only to be raised.
STEPS_PLAYED_AT_LEAST = 593
MAX_DIFFERENT_STEPS = 0.02
LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SSL": "SSL",
    "SASL_SSL": "SASL_SSL",
    "SSL_REQUESTED": "SSL",
    "SSL_REQUIRED": "SSL",
    "REAUTH": "SASL_PLAINTEXT",
    "CONTROLLER": "PLAINTEXT",
}
RULES = (
    r"RULE:^CN=([^,]*),OU=Engineering,.*$/$1/U, RULE:^CN=([a-zA-Z.]*),OU=Ops,.*$/$1@ops/L, "
    r"RULE:^.*CN=([^,]*),OU=Services,O=(.*),C=DE$/$1 of $2/, RULE:^O=Nobody.*$/x/, DEFAULT"
)
PLAIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    r'user_alice="alice-secret" user_bob="bob-secret" user_zo\u00eb="p\u00e4ssword";'
)
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


def properties() -> str:
    """The server.properties of the recorded cluster, on free ports."""
    listeners = ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS if name != "CONTROLLER")
    lines = [
        "process.roles=broker,controller",
        "node.id=1",
        "controller.quorum.bootstrap.servers=127.0.0.1:1",
        "controller.listener.names=CONTROLLER",
        "inter.broker.listener.name=PLAINTEXT",
        f"listeners={listeners},CONTROLLER://127.0.0.1:0",
        f"advertised.listeners={listeners}",
        f"listener.security.protocol.map={','.join(f'{name}:{protocol}' for name, protocol in LISTENERS.items())}",
        "num.partitions=1",
        "default.replication.factor=1",
        "offsets.topic.num.partitions=1",
        "offsets.topic.replication.factor=1",
        "connection.failed.authentication.delay.ms=600",
        "delegation.token.secret.key=klamm-delegation-secret",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={CERTS}/server.pem",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={CERTS}/ca.crt",
        "ssl.client.auth=none",
        "listener.name.ssl_requested.ssl.client.auth=requested",
        "listener.name.ssl_required.ssl.client.auth=required",
        f"listener.name.ssl_required.ssl.principal.mapping.rules={RULES.replace(chr(92), chr(92) * 2)}",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    ]
    for name in ("sasl_plaintext", "sasl_ssl", "reauth"):
        for mechanism, module in (("plain", PLAIN), ("scram-sha-256", SCRAM), ("scram-sha-512", SCRAM)):
            lines.append(f"listener.name.{name}.{mechanism}.sasl.jaas.config={module}")
            if name == "reauth":
                lines.append(f"listener.name.{name}.{mechanism}.connections.max.reauth.ms=3000")
    return "\n".join(lines)


@pytest.fixture
def clock() -> MockClock:
    """Time passes when nothing else happens; not at once, since sockets may need a moment."""
    return MockClock(autojump_threshold=0.005)


@pytest.mark.parametrize("scenario", security_scenarios())
async def test_answers_are_the_recorded_ones_or_known_to_differ(
    scenario: str, clock: MockClock, tmp_path: Path
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(properties())
    plan = plan_cluster(checked_options({"config": file, "brokers": 1, "profile": "kafka"}), {}, FREE_PORTS)
    async with open_cluster(plan) as cluster:
        found = await SecurityPlayer(cluster).play(scenario)
    known = {row for row in known_differences() if row.scenario == scenario}
    assert not found - known, "\n".join(map(str, sorted(found - known)))
    assert not known - found, "\n".join(map(str, sorted(known - found)))


def test_no_recorded_step_is_lost_and_few_differ() -> None:
    steps = {(name, step["step"]) for name, some in security_scenarios().items() for step in some}
    assert sum(map(len, security_scenarios().values())) >= STEPS_PLAYED_AT_LEAST
    different = {(row.scenario, row.step) for row in known_differences()} & steps
    assert len(different) <= MAX_DIFFERENT_STEPS * len(steps)
