"""Connections to a SASL listener: what a client gets, when, and what the server writes about it."""

import json
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from klamm.controller.authorizer import STANDARD_AUTHORIZER
from klamm.controller.settings import Settings
from klamm.protocol.codec.frames import encode_frame
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.security import sasl_authenticate, sasl_handshake
from klamm.protocol.messages.security.sasl_authenticate import SaslAuthenticateRequest
from klamm.protocol.messages.security.sasl_handshake import SaslHandshakeRequest
from klamm.protocol.messages.topics import create_topics, metadata
from klamm.server.limits import ServerLimits
from klamm.server.sasl.settings import SaslSettings
from klamm.server.security import ListenerSecurity
from tests.server.harness import (
    Peer,
    RunningServer,
    create_topic,
    metadata_frame,
    open_test_server,
    request_frame,
    settled,
)
from tests.server.sasl.exchanges import USERS, token

DELAY_SECONDS = 5.0
SASL = SaslSettings(mechanisms=("PLAIN",), plain_users=USERS, failed_delay_ms=5_000, max_receive_bytes=1_000)
SECURITY = ListenerSecurity(sasl=SASL)


@pytest.fixture
def clock() -> MockClock:
    return MockClock(autojump_threshold=0.003)


def stranger(running: RunningServer) -> Peer:
    return running.connect_in_memory(security=SECURITY)


async def log_in(peer: Peer, user: str = "alice", password: str | None = None) -> int:
    shaken = await peer.ask(sasl_handshake.API, 1, SaslHandshakeRequest(mechanism="PLAIN"))
    assert shaken.error_code == 0
    answer = await peer.ask(sasl_authenticate.API, 2, SaslAuthenticateRequest(auth_bytes=token(user, password)))
    code: int = answer.error_code
    return code


async def test_a_failed_authentication_is_answered_after_the_delay_and_closed(clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = stranger(running)
        began = trio.current_time()
        assert await log_in(peer, password="wrong") == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert trio.current_time() - began == pytest.approx(DELAY_SECONDS, abs=0.1)
        assert await peer.receive() is None
        assert trio.current_time() - began == pytest.approx(DELAY_SECONDS, abs=0.1)
        assert "Invalid username or password" in running.stderr.getvalue()


async def test_a_request_before_the_authentication_is_closed_at_once(clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = stranger(running)
        began = trio.current_time()
        await peer.send(metadata_frame(1))
        assert await peer.receive() is None
        assert trio.current_time() - began < 1


async def test_others_are_served_while_a_refused_client_waits(clock: MockClock) -> None:
    async with open_test_server() as running:
        refused, other = stranger(running), stranger(running)
        await refused.send(request_frame(sasl_handshake.API, 1, 1, SaslHandshakeRequest(mechanism="NOPE")))
        began = trio.current_time()
        assert await log_in(other) == 0
        assert trio.current_time() - began < DELAY_SECONDS / 2
        assert await refused.receive() is not None
        assert trio.current_time() - began == pytest.approx(DELAY_SECONDS, abs=0.1)


async def test_requests_sent_behind_the_last_token_are_served_and_those_behind_a_wrong_one_are_not(
    clock: MockClock,
) -> None:
    hello = request_frame(sasl_handshake.API, 1, 1, SaslHandshakeRequest(mechanism="PLAIN"))
    async with open_test_server() as running:
        for password, expected in ((None, 3), ("wrong", 2)):
            peer = stranger(running)
            last = SaslAuthenticateRequest(auth_bytes=token(password=password))
            await peer.send(hello + request_frame(sasl_authenticate.API, 2, 2, last) + metadata_frame(3))
            answers: list[bytes] = []
            with trio.move_on_after(60):
                while (answer := await peer.receive(30 if len(answers) < expected else 1)) is not None:
                    answers.append(answer)
                    if len(answers) == 3:
                        break
            assert len(answers) == expected


async def test_frames_are_small_before_the_authentication_and_as_large_as_ever_after_it(clock: MockClock) -> None:
    async with open_test_server() as running:
        peer = stranger(running)
        began = trio.current_time()
        await peer.send((SASL.max_receive_bytes + 1).to_bytes(4, "big"))
        assert await peer.receive() is None
        assert trio.current_time() - began == pytest.approx(DELAY_SECONDS, abs=0.1)
        for size in (b"\xff\xff\xff\xff", b"GET ", b"\x16\x03\x01\x02"):
            peer = stranger(running)
            await peer.send(size)
            assert await peer.receive() is None
        peer = stranger(running)
        assert await log_in(peer) == 0
        names = [metadata.MetadataRequestTopic(name=f"{'x' * 100}-{number}") for number in range(20)]
        asked = metadata.MetadataRequest(topics=names, allow_auto_topic_creation=False)
        assert len((await peer.ask(metadata.API, 9, asked)).topics) == 20


async def test_the_principal_is_that_of_the_user(tmp_path: Path) -> None:
    configs = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:alice"}
    log = tmp_path / "requests"
    async with open_test_server(settings=Settings(seed=1, static_configs=configs), request_log=log) as running:
        for user, expected in (("alice", ErrorCode.NONE), ("bob", ErrorCode.TOPIC_AUTHORIZATION_FAILED)):
            peer = stranger(running)
            assert await log_in(peer, user) == 0
            response = await peer.ask(create_topics.API, 7, create_topic("orders"))
            assert response.topics[0].error_code == expected
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["api"], line["principal"]) for line in lines] == [
        ("SaslHandshake", "User:ANONYMOUS"),
        ("SaslAuthenticate", "User:alice"),
        ("CreateTopics", "User:alice"),
        ("SaslHandshake", "User:ANONYMOUS"),
        ("SaslAuthenticate", "User:bob"),
        ("CreateTopics", "User:bob"),
    ]
    assert all(line["bytes_in"] > 0 and line["bytes_out"] > 0 for line in lines)


async def test_secrets_are_neither_in_the_request_log_nor_on_stderr(tmp_path: Path, clock: MockClock) -> None:
    log = tmp_path / "requests"
    async with open_test_server(request_log=log) as running:
        for user, password in (("alice", None), ("alice", "hunter2-secret"), ("eve", "hunter2-secret")):
            await log_in(stranger(running), user, password)
    written = log.read_text() + running.stderr.getvalue()
    assert "SaslAuthenticate" in written
    assert "authentication failed" in written
    assert "Invalid username or password" in written
    assert "-secret" not in written


async def test_too_many_silent_clients_push_the_oldest_out_and_nobody_else(clock: MockClock) -> None:
    async with open_test_server(limits=ServerLimits(unauthenticated_connections=3)) as running:
        known = stranger(running)
        assert await log_in(known) == 0
        silent = []
        for _ in range(4):
            silent.append(stranger(running))
            await settled(lambda: len(running.server.admission.connections) == min(len(silent), 3) + 1)
        assert await silent[0].receive() is None
        assert await log_in(silent[-1]) == 0
        assert await known.is_served()
        assert "connection closed before its client was authenticated" in running.stderr.getvalue()


async def test_silent_clients_are_closed_after_a_time_and_authenticated_ones_are_not(clock: MockClock) -> None:
    async with open_test_server(limits=ServerLimits(authentication_seconds=20)) as running:
        known, silent = stranger(running), stranger(running)
        assert await log_in(known) == 0
        began = trio.current_time()
        assert await silent.receive(60) is None
        assert 20 <= trio.current_time() - began < 23
        assert await known.is_served()


async def test_bytes_of_unauthenticated_clients_are_bounded(clock: MockClock) -> None:
    """Those that hold bytes for the longest are closed, until the others hold no more than the limit."""
    async with open_test_server(limits=ServerLimits(unauthenticated_bytes=1_500)) as running:
        known = stranger(running)
        assert await log_in(known) == 0
        peers = []
        for _ in range(3):
            peers.append(stranger(running))
            await peers[-1].send(encode_frame(bytes(900))[:-1])
            await trio.sleep(0.1)
        for peer in peers[:2]:
            assert await peer.receive() is None
        assert len(running.server.admission.connections) == 2
        assert await known.is_served()
