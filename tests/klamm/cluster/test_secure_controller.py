"""The controller's listener with TLS and SASL, and the security protocols in registrations."""

import ssl
from pathlib import Path

import trio

from klamm.cluster.assembly import open_cluster
from klamm.cluster.options import checked_options
from klamm.cluster.plan import FREE_PORTS, plan_cluster
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.cluster import describe_cluster
from klamm.protocol.messages.security import sasl_authenticate, sasl_handshake
from tests.server.harness import Peer

CERTS = Path(__file__).parents[2] / "golden" / "security" / "certs"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
CONFIGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:SASL_SSL",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": str(CERTS / "server.pem"),
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{MODULE} required user_alice="pw";',
    "listener.name.controller.plain.sasl.jaas.config": f'{MODULE} required user_root="toor";',
}


async def log_in(address: str, user: str, password: str) -> tuple[Peer, int]:
    host, _, port = address.rpartition(":")
    stream = await trio.open_tcp_stream(host, int(port))
    context = ssl.create_default_context(cafile=CERTS / "ca.crt")
    peer = Peer(trio.SSLStream(stream, context, server_hostname="localhost"))
    await peer.ask(sasl_handshake.API, 1, sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN"))
    token = f"\0{user}\0{password}".encode()
    answer = await peer.ask(sasl_authenticate.API, 2, sasl_authenticate.SaslAuthenticateRequest(auth_bytes=token))
    return peer, answer.error_code


async def test_the_controllers_listener_authenticates_its_own_users() -> None:
    plan = plan_cluster(checked_options({"configs": CONFIGS, "brokers": 1}), {}, FREE_PORTS)
    async with open_cluster(plan) as server:
        address = server.controller_bootstrap_servers
        assert address is not None
        for user, password, expected in (
            ("root", "toor", ErrorCode.NONE),
            ("alice", "pw", ErrorCode.SASL_AUTHENTICATION_FAILED),
        ):
            peer, code = await log_in(address, user, password)
            assert code == expected
            if not code:
                asked = describe_cluster.DescribeClusterRequest(endpoint_type=2)
                assert (await peer.ask(describe_cluster.API, 1, asked)).error_code == 0
            await peer.aclose()
        (broker,) = server.image.brokers.values()
        assert {one.name: one.security_protocol for one in broker.end_points} == {"PLAINTEXT": 0, "SASL_SSL": 3}
