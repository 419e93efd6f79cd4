"""Simulated brokers ask a real broker by the inter-broker listener, with TLS and a login. The real broker is another
cluster with an authorizer: it coordinates the transaction only if the principal may act for the cluster."""

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from trio.testing import MockClock

from klamm.cluster.assembly import open_cluster
from klamm.cluster.inter_broker import BY_PLAINTEXT, InterBrokerPlan
from klamm.cluster.options import checked_options
from klamm.cluster.plan import FREE_PORTS, plan_cluster
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.broker_registration import Listener
from klamm.protocol.messages.groups import find_coordinator
from klamm.protocol.messages.transactions import describe_transactions, init_producer_id
from klamm.server.event_log import EventLog
from klamm.server.server import Server
from tests.behaviour.player import Line
from tests.server.mixed_clusters import REAL, make_topic, started
from tests.server.test_outgoing import write

CERTS: Final = Path(__file__).parents[1] / "golden" / "security" / "certs"
PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
PACKAGE: Final = "org.apache.kafka.common.security"
MODULES: Final = {
    "PLAIN": (
        f'{PACKAGE}.plain.PlainLoginModule required username="broker" password="PASSWORD" user_broker="right-word";'
    ),
    "SCRAM-SHA-512": f'{PACKAGE}.scram.ScramLoginModule required username="broker" password="PASSWORD";',
    "OAUTHBEARER": (f'{PACKAGE}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'),
}


@pytest.fixture
def clock() -> MockClock:
    """Time passes when nothing else happens; not at once, since sockets may need a moment."""
    return MockClock(autojump_threshold=0.01)


@dataclass(frozen=True)
class Way:
    """A security protocol, and the mechanism of its login."""

    protocol: str
    mechanism: str = "PLAIN"
    password: str = "right-word"

    @property
    def configs(self) -> dict[str, str]:
        """Those of both brokers, by which Kafka's brokers would connect to each other, too."""
        configs = {
            "listeners": "PLAINTEXT://127.0.0.1:0,BETWEEN://127.0.0.1:0",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,BETWEEN:{self.protocol}",
            "inter.broker.listener.name": "BETWEEN",
        }
        if "SSL" in self.protocol:
            configs |= {
                "listener.name.between.ssl.keystore.type": "PEM",
                "listener.name.between.ssl.keystore.location": str(CERTS / "server.pem"),
                "listener.name.between.ssl.truststore.type": "PEM",
                "listener.name.between.ssl.truststore.location": str(CERTS / "ca.crt"),
                "listener.name.between.ssl.client.auth": "required" if self.protocol == "SSL" else "none",
                "listener.name.between.ssl.principal.mapping.rules": "RULE:.*/broker/",
            }
        if "SASL" in self.protocol:
            module = MODULES[self.mechanism].replace("PASSWORD", self.password)
            configs |= {
                "sasl.enabled.mechanisms": self.mechanism,
                "sasl.mechanism.inter.broker.protocol": self.mechanism,
                f"listener.name.between.{self.mechanism.lower()}.sasl.jaas.config": module,
            }
        return configs


@asynccontextmanager
async def coordinating(way: Way) -> AsyncIterator[tuple[Server, Line]]:
    """The real broker, and a connection to its PLAINTEXT listener, on which anybody may do anything."""
    options: dict[str, Any] = {
        "broker_ids": (REAL,),
        "add_scram": ("SCRAM-SHA-512=[name=broker,password=right-word]",),
        "configs": {
            **way.configs,
            "transaction.state.log.num.partitions": 1,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:broker",
        },
    }
    async with open_cluster(
        plan_cluster(checked_options(options), {}, FREE_PORTS), EventLog(stream=io.StringIO())
    ) as real:
        line = await Line.open(real.bootstrap_servers)
        await make_topic(line)
        yield real, line
        await line.close()


async def make_coordinator(line: Line) -> None:
    """Let the cluster make `__transaction_state`."""
    find = find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=["id"])
    await line.ask(find_coordinator.API, 6, find)


async def begun(line: Line) -> int:
    """The producer id of a new transactional id."""
    await make_coordinator(line)
    request = init_producer_id.InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=60_000)
    for _ in range(50):
        found = await line.ask(init_producer_id.API, 5, request)
        if found.error_code == 0:
            return int(found.producer_id)
        assert found.error_code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
        await trio.sleep(0.1)
    raise AssertionError("the transaction coordinator does not load")


async def written(way: Way, own: dict[str, str] | None = None, listener: str = "BETWEEN") -> tuple[list[int], Any, str]:
    """Write for a transaction. The codes, the partitions that the real broker has added, and the server's warnings.
    `own`: more configs of the simulated broker. `listener`: the name of the real broker's."""
    stderr = io.StringIO()
    async with coordinating(way) as (real, at_real):
        producer_id = await begun(at_real)
        port = real.addresses_of(REAL)["BETWEEN"].port
        options = {
            "brokers": 1,
            "controller_listener": "127.0.0.1:0",
            "real_topics": "nothing",
            "configs": {
                **way.configs,
                "transaction.state.log.num.partitions": 1,
                "broker.session.timeout.ms": 600_000,
                **(own or {}),
            },
        }
        at = Listener(name=listener, host="127.0.0.1", port=port, security_protocol=PROTOCOLS[way.protocol])
        async with started(options, stderr, at) as (_, line):
            await make_coordinator(line)
            codes = await write(line, 12, 1, producer_id=producer_id)
        request = describe_transactions.DescribeTransactionsRequest(transactional_ids=["id"])
        (found,) = (await at_real.ask(describe_transactions.API, 0, request)).transaction_states
        return codes, [(topic.topic, list(topic.partitions)) for topic in found.topics], stderr.getvalue()


@pytest.mark.parametrize("way", [
    Way("PLAINTEXT"),
    Way("SSL"),
    Way("SASL_PLAINTEXT", "SCRAM-SHA-512"),
    Way("SASL_PLAINTEXT", "OAUTHBEARER"),
    Way("SASL_SSL", "PLAIN"),
])  # fmt: skip
async def test_the_coordinator_is_asked_by_the_security_of_the_inter_broker_listener(
    clock: MockClock, way: Way
) -> None:
    codes, added, stderr = await written(way)
    assert "real" not in stderr
    assert (codes, added) == ([0], [("t", [1])])


def jaas(mechanism: str = "PLAIN", password: str = "right-word", user: str = "broker") -> dict[str, str]:
    """The login of the simulated broker."""
    module = MODULES[mechanism].replace("PASSWORD", password).replace('username="broker"', f'username="{user}"')
    return {f"listener.name.between.{mechanism.lower()}.sasl.jaas.config": module}


@pytest.mark.parametrize(("way", "own", "reasons"), [
    (Way("SASL_SSL"), jaas(password="wrong-word"), ["a real broker gives no answer", "Authentication failed"]),
    (
        Way("SSL"),
        {"listener.name.between.ssl.truststore.location": str(CERTS / "other-ca.crt")},
        ["the certificate of 127.0.0.1:", "is refused"],
    ),
    (
        Way("SASL_SSL"),
        {"sasl.mechanism.inter.broker.protocol": "GSSAPI"},
        ["cannot connect to real ones: listener BETWEEN: sasl.mechanism.inter.broker.protocol: GSSAPI is not"],
    ),
    (
        Way("SASL_PLAINTEXT"),
        {
            "listener.name.between.plain.sasl.jaas.config": (
                f'{PACKAGE}.plain.PlainLoginModule required user_broker="right-word";'
            )
        },
        ["listener.name.between.plain.sasl.jaas.config: PLAIN needs username and password", "a real broker gives no"],
    ),
])  # fmt: skip
async def test_a_connection_that_is_refused_has_a_reason_without_a_secret(
    clock: MockClock, way: Way, own: dict[str, str], reasons: list[str]
) -> None:
    codes, added, stderr = await written(way, own)
    assert (codes, added) == ([ErrorCode.NOT_ENOUGH_REPLICAS], [])
    assert [reason for reason in reasons if reason not in stderr] == []
    assert "-word" not in stderr


async def test_a_real_broker_without_the_inter_broker_listener_is_not_asked(clock: MockClock) -> None:
    codes, added, stderr = await written(Way("SASL_PLAINTEXT"), listener="OTHER")
    assert (codes, added) == ([ErrorCode.NOT_ENOUGH_REPLICAS], [])
    assert "it has no listener BETWEEN" in stderr


@pytest.mark.parametrize(("configs", "name", "has_tls", "has_login"), [
    ({}, None, False, False),
    ({"security.inter.broker.protocol": "PLAINTEXT"}, "PLAINTEXT", False, False),
    ({"security.inter.broker.protocol": "SSL"}, "SSL", True, False),
    ({"security.inter.broker.protocol": "SASL_SSL"}, "SASL_SSL", True, True),
    ({"inter.broker.listener.name": "plaintext"}, "PLAINTEXT", False, False),
])  # fmt: skip
def test_the_listener_is_named_by_itself_or_by_its_protocol(
    configs: dict[str, str], name: str | None, has_tls: bool, has_login: bool
) -> None:
    given = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(CERTS / "server.pem"),
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": MODULES["SCRAM-SHA-512"],
        **configs,
    }
    plan = planned(given)
    assert (plan.listener_name, plan.invalid) == (name, None)
    assert (plan.security.tls is not None, plan.security.login is not None) == (has_tls, has_login)
    assert planned(given, controller_listener=None) == BY_PLAINTEXT  # no real broker can join
    # An option has the listeners, so the configs about them have no effect.
    expected = name if "security.inter.broker.protocol" in configs else None
    assert planned(given, listen="127.0.0.1:0").listener_name == expected


def planned(configs: dict[str, str], **options: Any) -> InterBrokerPlan:
    given = {"controller_listener": "127.0.0.1:0", "configs": configs, **options}
    return plan_cluster(checked_options(given), {}, FREE_PORTS).inter_broker
