"""Handshakes: who gets in, as whom, and what happens to those who do not."""

import gc
import ssl
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from klamm.controller.authorizer import STANDARD_AUTHORIZER
from klamm.controller.client import Client
from klamm.controller.settings import Settings
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.topics import create_topics
from klamm.server.limits import ServerLimits
from klamm.server.security import ListenerSecurity
from klamm.server.tls.context import ClientAuth, new_context
from klamm.server.tls.principals import PrincipalRules
from klamm.server.tls.settings import TlsSettings
from klamm.server.tls.stores import StoreError, decode_pem
from tests.server.harness import Peer, RunningServer, api_versions_frame, create_topic, metadata_frame, open_test_server
from tests.server.sasl.exchanges import PLAIN
from tests.server.sasl.test_connections import log_in

CERTS = Path(__file__).parents[2] / "golden" / "security" / "certs"
INTERNAL_ERROR = bytes.fromhex("15030300020250")
BOTH = ("TLSv1.2", "TLSv1.3")


@pytest.fixture
def clock() -> MockClock:
    return MockClock(autojump_threshold=0.005)


def security(
    client_auth: ClientAuth = "none", versions: tuple[str, ...] = BOTH, rules: str = "DEFAULT", **more: Any
) -> ListenerSecurity:
    own, trusted = decode_pem((CERTS / "server.pem").read_text()), decode_pem((CERTS / "ca.crt").read_text()).trusted
    context = new_context(own, None, trusted, client_auth, versions)
    return ListenerSecurity(tls=TlsSettings(context=context, rules=PrincipalRules(rules)), **more)


def client_context(cert: str | None = None, version: str | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=CERTS / "ca.crt")
    if cert is not None:
        context.load_cert_chain(CERTS / f"{cert}.pem")
    if version is not None:
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    return context


async def secure(
    running: RunningServer, demands: ListenerSecurity, cert: str | None = None, version: str | None = None
) -> Peer:
    """A client with TLS. Raises BrokenResourceError if its side of the handshake fails."""
    plain = running.connect_in_memory(Client("broker", 1, "10.0.0.1"), demands)
    stream = trio.SSLStream(plain.stream, client_context(cert, version), server_hostname="localhost")
    with trio.fail_after(10):
        await stream.do_handshake()
    return Peer(stream)


async def read_to_the_end(peer: Peer) -> None:
    await peer.send(metadata_frame(1))
    while await peer.stream.receive_some():
        pass


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
async def test_requests_are_served_over_tls(version: str) -> None:
    async with open_test_server() as running:
        peer = await secure(running, security(), version=version)
        assert isinstance(peer.stream, trio.SSLStream)
        assert peer.stream.version() == version.replace("_", ".")
        assert await peer.is_served()
        answer = await peer.ask(create_topics.API, 7, create_topic("big", 5_000))
        assert answer.topics[0].error_code == 0


@pytest.mark.parametrize(("enabled", "asked"), [("TLSv1.3", "TLSv1_2"), ("TLSv1.2", "TLSv1_3")])
async def test_no_other_version_than_the_enabled_ones_is_agreed_on(enabled: str, asked: str) -> None:
    async with open_test_server() as running:
        with pytest.raises(trio.BrokenResourceError) as refused:
            await secure(running, security(versions=(enabled,)), version=asked)
        assert "PROTOCOL_VERSION" in str(refused.value.__cause__)


@pytest.mark.parametrize("sent", [api_versions_frame(1), b"GET / HTTP/1.1\r\n\r\n", bytes(5), b"\x16\x02\0\0\0"])
async def test_a_client_without_tls_gets_one_alert_and_is_closed(sent: bytes, clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = running.connect_in_memory(security=security())
        await peer.send(sent)
        received = b""
        while chunk := await peer.stream.receive_some():
            received += chunk
        assert received == INTERNAL_ERROR


async def test_a_client_that_sends_less_than_a_record_is_waited_for_and_delays_nobody(clock: MockClock) -> None:
    async with open_test_server(limits=ServerLimits(authentication_seconds=20)) as running:
        silent = [running.connect_in_memory(security=security()) for _ in range(20)]
        for number, peer in enumerate(silent):
            await peer.send(b"\x16\x03\x01\x02\x00\x01"[: number % 6])
        began = trio.current_time()
        assert await (await secure(running, security())).is_served()
        assert trio.current_time() - began < 5
        for peer in silent:
            assert await peer.stream.receive_some() == b""
        assert trio.current_time() - began == pytest.approx(20, abs=3)


async def test_four_bytes_that_are_no_tls_are_not_refused_yet(clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = running.connect_in_memory(security=security())
        await peer.send(bytes(4))
        with trio.move_on_after(5) as waited:
            await peer.stream.receive_some()
        assert waited.cancelled_caught
        await peer.send(b"\0")
        assert await peer.stream.receive_some() == INTERNAL_ERROR


async def test_a_handshake_may_come_byte_by_byte() -> None:
    async with open_test_server() as running:
        plain = running.connect_in_memory(security=security())
        whole_send = plain.stream.send_all

        async def in_pieces(data: Any) -> None:
            for byte in bytes(data):
                await whole_send(bytes([byte]))

        plain.stream.send_all = in_pieces  # type: ignore[method-assign]
        stream = trio.SSLStream(plain.stream, client_context(), server_hostname="localhost")
        assert await Peer(stream).is_served()


def client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    hello = client_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        hello.do_handshake()
    return outgoing.read()


async def test_a_handshake_that_ends_early_is_no_bug() -> None:
    """After each byte of its first message."""
    hello, demands = client_hello(), security()
    async with open_test_server() as running:
        known = await secure(running, demands)
        for cut in range(len(hello)):
            peer = running.connect_in_memory(security=demands)
            await peer.send(hello[:cut])
            await peer.aclose()
            if cut % 50 == 0:
                assert await known.is_served()
        assert await (await secure(running, demands)).is_served()
        assert "Traceback" not in running.stderr.getvalue()


@pytest.mark.parametrize("after", [b"", api_versions_frame(1), b"\x15\x03\x03\x00\x02\x02\x50"])
@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
async def test_a_record_that_is_cut_gets_no_answer(version: str, after: bytes, clock: MockClock) -> None:
    """At each of its lengths, whether the connection ends there or other bytes follow; others are served meanwhile."""
    demands = security()
    async with open_test_server() as running:
        known, cut, length = await secure(running, demands), 0, 1
        while cut < length:
            raw = running.connect_in_memory(security=demands).stream
            assert isinstance(raw, trio.StapledStream)
            stream = trio.SSLStream(raw, client_context(version=version), server_hostname="localhost")
            await Peer(stream).is_served()
            written: list[bytes] = []

            async def keep(data: Any) -> None:
                written.append(bytes(data))  # noqa: B023

            send_all, raw.send_all = raw.send_all, keep  # type: ignore[method-assign]
            await stream.send_all(api_versions_frame(7))
            (record,) = written
            length = len(record)
            await send_all(record[:cut] + after)
            await raw.send_eof()
            received = b""
            with trio.fail_after(30):
                while chunk := await raw.receive_some():
                    received += chunk
            assert len(received) < 40, "an alert or TLS's notice of the end, and no answer"
            assert await known.is_served()
            cut += 1
        assert length > 30
        assert "Traceback" not in running.stderr.getvalue()


@pytest.mark.parametrize(
    ("client_auth", "cert", "principal"),
    [
        ("none", None, "User:ANONYMOUS"),
        ("none", "alice", "User:ANONYMOUS"),
        ("requested", None, "User:ANONYMOUS"),
        ("requested", "alice", "User:CN=Alice,OU=Engineering,O=Klamm,L=Vienna,C=AT"),
        ("required", "alice", "User:CN=Alice,OU=Engineering,O=Klamm,L=Vienna,C=AT"),
    ],
)
async def test_the_certificate_names_the_client(client_auth: ClientAuth, cert: str | None, principal: str) -> None:
    configs = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": principal}
    async with open_test_server(settings=Settings(seed=1, static_configs=configs)) as running:
        peer = await secure(running, security(client_auth), cert)
        response = await peer.ask(create_topics.API, 7, create_topic("orders"))
        assert response.topics[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("cert", [None, "alice"])
async def test_a_client_with_a_name_may_use_delegation_tokens(cert: str | None) -> None:
    async with open_test_server() as running:
        client = Client("broker", 1, "10.0.0.1")
        assert not client.may_use_tokens
        plain = running.connect_in_memory(client, security("requested"))
        stream = trio.SSLStream(plain.stream, client_context(cert), server_hostname="localhost")
        assert await Peer(stream).is_served()
        assert client.may_use_tokens is (cert is not None)


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
@pytest.mark.parametrize(
    ("client_auth", "cert"),
    [("required", None), ("required", "stranger"), ("required", "expired"), ("requested", "stranger")],
)
async def test_a_client_without_a_right_certificate_is_refused(
    client_auth: ClientAuth, cert: str | None, version: str
) -> None:
    """In TLS 1.3 the client's side of the handshake is done before its certificate is examined."""
    async with open_test_server() as running:
        with pytest.raises(trio.BrokenResourceError) as refused:
            await read_to_the_end(await secure(running, security(client_auth), cert, version))
        assert "ALERT" in str(refused.value.__cause__)
        assert "TLS handshake failed" in running.stderr.getvalue()
        assert len(running.controller.image.topics_by_name) == 0


async def test_a_name_without_a_mapping_rule_is_refused() -> None:
    async with open_test_server() as running:
        demands = security("required", rules="RULE:^CN=bob.*$/bob/")
        assert await (await secure(running, demands, "bob")).is_served()
        alice = await secure(running, demands, "alice")
        await alice.send(metadata_frame(1))
        assert await alice.receive() is None
        assert "has no rule for CN=Alice" in running.stderr.getvalue()


async def test_over_tls_sasl_names_the_client_and_a_certificate_does_not() -> None:
    configs = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:bob"}
    async with open_test_server(settings=Settings(seed=1, static_configs=configs)) as running:
        demands = security("requested", sasl=PLAIN)
        unknown = await secure(running, demands, "bob")
        await unknown.send(metadata_frame(1))
        assert await unknown.receive() is None
        peer = await secure(running, demands, "alice")
        assert await log_in(peer, "bob") == 0
        response = await peer.ask(create_topics.API, 7, create_topic("orders"))
        assert response.topics[0].error_code == ErrorCode.NONE


async def test_keys_and_certificates_have_to_belong_together_and_passwords_have_to_be_right() -> None:
    server, alice = (decode_pem((CERTS / f"{name}.pem").read_text()) for name in ("server", "alice"))
    mixed = type(server)(key=server.key, chain=alice.chain)
    encrypted = decode_pem((CERTS / "server-encrypted.pem").read_text())
    new_context(encrypted, "key-secret", (), "none", BOTH)
    for own, password, reason in (
        (mixed, None, "the private key does not belong to the certificate"),
        (encrypted, "wrong", "the password of the private key is missing or wrong"),
        (encrypted, None, "the password of the private key is missing or wrong"),
        (type(server)(key="-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----", chain=server.chain), None, "read"),
    ):
        with pytest.raises(StoreError, match=reason):
            new_context(own, password, (), "none", BOTH)
    with pytest.raises(StoreError, match="a trusted certificate cannot be read"):
        new_context(server, None, ["-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"], "none", BOTH)


async def test_an_ended_connection_keeps_no_memory_of_openssl(clock: MockClock) -> None:
    """Python's collector, which would find a stream that refers to itself, may not run for hours."""

    def sessions() -> int:
        return sum(isinstance(one, ssl.SSLObject) and one.server_side for one in gc.get_objects())

    async with open_test_server() as running:
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                peer = await secure(running, security())
                assert await peer.is_served()
                assert sessions() == 1
                await peer.stream.aclose()
                await trio.sleep(5)
                assert sessions() == 0
            peer = running.connect_in_memory(security=security())
            await peer.send(b"\x16\x03\x01\x00\x05xxxxx")
            await trio.sleep(5)
            assert sessions() == 0, "also after a handshake that failed"
        finally:
            gc.enable()
