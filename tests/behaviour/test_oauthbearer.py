"""Logins by OAUTHBEARER have the outcomes that a real Apache Kafka 4.3.0 had, or known other ones."""

import gzip
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import pytest
from trio.testing import MockClock

from klamm.cluster.assembly import open_cluster
from klamm.cluster.options import checked_options
from klamm.cluster.plan import FREE_PORTS, plan_cluster
from klamm.server.server import Server
from tests.behaviour.oauth_cases import CASES, GOLDEN, Case, close_enough, outcome_of

KEYS: Final = GOLDEN / "keys.json"
MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
HANDLER: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
SCOPED: Final = (
    ' unsecuredLoginStringClaim_sub="admin" unsecuredValidatorPrincipalClaimName="user"'
    ' unsecuredValidatorScopeClaimName="grants"'
    ' unsecuredValidatorRequiredScope="read write" unsecuredValidatorAllowableClockSkewMs="4000"'
)
LISTENERS: Final = ("UNSECURED", "SCOPED", "SIGNED", "CLAIMS", "ADDRESS", "REAUTH")
RECORDED: Final = {
    line["case"]: {name: value for name, value in line.items() if name != "case"}
    for line in map(json.loads, gzip.decompress((GOLDEN / "outcomes.jsonl.gz").read_bytes()).splitlines())
}
KNOWN: Final = {"unsecured, exp far": "its time in nanoseconds is more than a long of Java has"}
"""Cases whose outcome is another one here, with the reason; docs/known-differences.md has them, too."""


def configs(address: str) -> dict[str, str]:
    """The settings of the recorded cluster, with free ports."""
    found = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", *LISTENERS)),
        "listener.security.protocol.map": ",".join(
            ["PLAINTEXT:PLAINTEXT", *(f"{name}:SASL_PLAINTEXT" for name in LISTENERS)]
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "connection.failed.authentication.delay.ms": "600",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.reauth.oauthbearer.connections.max.reauth.ms": "5000",
        "listener.name.claims.oauthbearer.sasl.oauthbearer.expected.audience": "kafka,other",
        "listener.name.claims.oauthbearer.sasl.oauthbearer.expected.issuer": "https://issuer",
        "listener.name.claims.oauthbearer.sasl.oauthbearer.sub.claim.name": "user",
        "listener.name.claims.oauthbearer.sasl.oauthbearer.clock.skew.seconds": "5",
    }
    for name in LISTENERS:
        prefix = f"listener.name.{name.lower()}.oauthbearer.sasl"
        found[f"{prefix}.jaas.config"] = f"{MODULE}{SCOPED if name == 'SCOPED' else ''};"
        if name not in ("UNSECURED", "SCOPED"):
            found[f"{prefix}.server.callback.handler.class"] = HANDLER
            url = address if name == "ADDRESS" else KEYS.as_uri()
            found[f"{prefix}.oauthbearer.jwks.endpoint.url"] = url
    return found


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """An address with the keys."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(KEYS.read_bytes())

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/keys.json"
    server.shutdown()
    server.server_close()


@asynccontextmanager
async def cluster_with_keys_at(address: str) -> AsyncIterator[Server]:
    options = checked_options({"configs": configs(address), "brokers": 1, "profile": "kafka"})
    async with open_cluster(plan_cluster(options, {}, FREE_PORTS)) as cluster:
        yield cluster


@pytest.fixture
def clock() -> MockClock:
    return MockClock(autojump_threshold=0.01)


async def played(cluster: Server, case: Case) -> dict[str, Any]:
    at = cluster.addresses_of(1)[case.listener]
    return await outcome_of(case, at.host, at.port, cluster.now_ms() // 1000)


@pytest.mark.parametrize("listener", LISTENERS)
async def test_outcomes_are_the_recorded_ones_or_known_to_differ(listener: str, address: str, clock: MockClock) -> None:
    different = {}
    async with cluster_with_keys_at(address) as cluster:
        for case in CASES:
            if case.listener == listener:
                ours = await played(cluster, case)
                if not close_enough(RECORDED[case.name], ours):
                    different[case.name] = (RECORDED[case.name], ours)
    known = {case.name for case in CASES if case.listener == listener} & KNOWN.keys()
    assert different.keys() == known, "\n".join(
        f"{name}: recorded {recorded}, ours {ours}" for name, (recorded, ours) in different.items()
    )


def test_every_case_is_recorded_and_few_differ() -> None:
    assert [case.name for case in CASES] == list(RECORDED)
    assert len(KNOWN) <= 0.02 * len(CASES)
