"""Bytes of clients that have not authenticated themselves, on every kind of listener and on the control interface: each
connection is closed or waits, none is answered as an authenticated one, and good clients are served all the time."""

import random
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

import klamm
from klamm.protocol.api import Api
from klamm.protocol.codec.frames import encode_frame
from klamm.protocol.codec.requests import encode_request
from klamm.protocol.messages.cluster import api_versions
from klamm.protocol.messages.security import sasl_authenticate, sasl_handshake
from klamm.protocol.messages.topics import create_topics

CERTS = Path(__file__).parents[1] / "golden" / "security" / "certs"
LISTENERS = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL", "CONTROLLER", "CONTROL")
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECONDS = 20


def client_hello() -> bytes:
    """The first flight of a TLS client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def framed(api: Api[Any, Any], version: int, **members: object) -> bytes:
    return encode_frame(encode_request(api, version, 1, "stranger", api.request(**members)))


CREATE = framed(
    create_topics.API, 7, topics=[create_topics.CreatableTopic(name="stolen", num_partitions=1, replication_factor=1)]
)
SHAKEN = framed(sasl_handshake.API, 1, mechanism="PLAIN")
HELLO = client_hello()
RANDOM = random.Random(7)
BEGINNINGS = {
    "nothing": b"",
    "zeros": bytes(100),
    "a giant size": b"\x7f\xff\xff\xff" + bytes(50),
    "a negative size": b"\xff\xff\xff\xff" + bytes(50),
    "half a size": b"\0\0",
    "random": RANDOM.randbytes(1_000),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(20),
    "a client hello": HELLO,
    "a cut client hello": HELLO[:30],
    "a bent client hello": HELLO[:60] + bytes(20) + HELLO[80:],
    "SSL 3": b"\x16\x03\x00\x00\x2f" + bytes(47),
    "an alert": b"\x15\x03\x03\x00\x02\x02\x50",
    "a giant record": b"\x16\x03\x01\xff\xff" + bytes(500),
    "ApiVersions and a request": framed(api_versions.API, 0) + CREATE,
    "a handshake and a request": SHAKEN + CREATE,
    "a wrong login and a request": SHAKEN + framed(sasl_authenticate.API, 2, auth_bytes=b"\0alice\0wrong") + CREATE,
    "a login that is behind a request": CREATE
    + SHAKEN
    + framed(sasl_authenticate.API, 2, auth_bytes=b"\0alice\0alice-secret"),
    "a login before its handshake": framed(sasl_authenticate.API, 2, auth_bytes=b"\0alice\0alice-secret") + CREATE,
    "two handshakes": SHAKEN + SHAKEN + framed(sasl_authenticate.API, 2, auth_bytes=b"\0alice\0alice-secret") + CREATE,
    "a token of no length": SHAKEN + framed(sasl_authenticate.API, 2, auth_bytes=b"") + CREATE,
    "a token of a negative length": SHAKEN + encode_frame(bytes.fromhex("0024000100000001ffffffffffff")) + CREATE,
    "a token of a giant length": SHAKEN + encode_frame(bytes.fromhex("0024000100000001ffff7fffffff")) + CREATE,
    "a raw token of no size": framed(sasl_handshake.API, 0, mechanism="PLAIN") + bytes(4) + CREATE,
    "a raw token of a negative size": framed(sasl_handshake.API, 0, mechanism="PLAIN") + b"\x80\0\0\0" + CREATE,
    "SCRAM for an unknown user": framed(sasl_handshake.API, 1, mechanism="SCRAM-SHA-256")
    + framed(sasl_authenticate.API, 2, auth_bytes=b"n,,n=a=2Cb=3D,r=abc")
    + CREATE,
    "SCRAM with a comma in the nonce": framed(sasl_handshake.API, 1, mechanism="SCRAM-SHA-256")
    + framed(sasl_authenticate.API, 2, auth_bytes=b"n,,n=alice,r=a,b")
    + CREATE,
}


@pytest.fixture(scope="module")
def server() -> Iterator[klamm.ServerProcess]:
    names = [name for name in LISTENERS if name not in ("CONTROLLER", "CONTROL")]
    configs = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
        "inter.broker.listener.name": "PLAINTEXT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:alice",
        "connection.failed.authentication.delay.ms": "10",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(CERTS / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(CERTS / "ca.crt"),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        **{
            f"listener.name.{name}.plain.sasl.jaas.config": f'{PLAIN} required user_alice="alice-secret";'
            for name in ("sasl_plaintext", "sasl_ssl")
        },
        **{
            f"listener.name.{name}.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;"
            for name in ("sasl_plaintext", "sasl_ssl")
        },
    }
    arguments = ("--control-tls", "auto", "--controller-listener", "127.0.0.1:0")
    with klamm.ServerProcess(*arguments, brokers=1, configs=configs, control=True) as process:
        yield process


def address_of(server: klamm.ServerProcess, name: str) -> tuple[str, int]:
    if name == "CONTROL":
        text = server.control_url
    elif name == "CONTROLLER":
        text = server.controller_bootstrap_servers
    else:
        text = server.listeners.get(name) or server.bootstrap_servers
    return "127.0.0.1", int(text.rpartition(":")[2])


async def served(server: klamm.ServerProcess) -> int:
    host, port = address_of(server, "SASL_SSL")
    client = klamm.AdminClient(f"{host}:{port}", user="alice", password="alice-secret", ca_file=CERTS / "ca.crt")
    async with client as admin:
        return len((await admin.metadata([])).brokers)


@pytest.mark.parametrize("listener", LISTENERS)
async def test_no_beginning_opens_a_door_or_delays_others(listener: str, server: klamm.ServerProcess) -> None:
    left = []
    for sent in BEGINNINGS.values():
        # Whole, and byte by byte for its beginning.
        for chunks in ([sent], [sent[at : at + 1] for at in range(12)] + [sent[12:]]):
            connection = socket.create_connection(address_of(server, listener), timeout=SECONDS)
            left.append(connection)
            try:
                for chunk in filter(None, chunks):
                    connection.sendall(chunk)
            except OSError:
                pass  # closed already
    with trio.fail_after(SECONDS):
        assert await served(server) == 1
    for connection in left:
        connection.close()
    with trio.fail_after(SECONDS):
        assert await served(server) == 1


async def test_no_stranger_has_made_a_topic_and_nothing_was_a_bug(server: klamm.ServerProcess) -> None:
    host, port = address_of(server, "SASL_SSL")
    client = klamm.AdminClient(f"{host}:{port}", user="alice", password="alice-secret", ca_file=CERTS / "ca.crt")
    async with client as admin:
        assert [topic.topic_name for topic in (await admin.metadata(None)).topics] == []
    assert len(server.brokers()) == 1
    said = server.stderr_text()
    assert "Traceback" not in said
    assert "bug" not in said
