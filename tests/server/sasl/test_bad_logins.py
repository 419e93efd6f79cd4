"""Logins that no client library sends: requests out of order, tokens of impossible lengths, messages of SCRAM that
break its grammar, and logins without an end. Each gets Kafka's code or a closed connection, and others are served."""

from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from klamm.protocol.codec.frames import encode_frame
from klamm.protocol.codec.requests import decode_response
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.security import sasl_authenticate, sasl_handshake
from klamm.protocol.messages.security.sasl_authenticate import SaslAuthenticateRequest
from klamm.protocol.messages.security.sasl_handshake import SaslHandshakeRequest
from klamm.server.limits import ServerLimits
from klamm.server.sasl.oauthbearer import UnsecuredTokens
from klamm.server.sasl.settings import SaslSettings
from klamm.server.security import ListenerSecurity
from tests.server.harness import (
    Peer,
    RunningServer,
    api_versions_frame,
    correlation_ids,
    create_topic_frame,
    open_test_server,
    request_frame,
)
from tests.server.sasl.exchanges import USERS, token
from tests.server.sasl.test_connections import log_in

DELAY_SECONDS = 5.0
SASL = SaslSettings(
    mechanisms=("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"),
    plain_users=USERS,
    validate_token=UnsecuredTokens(),
    failed_delay_ms=5_000,
    max_receive_bytes=1_000,
    max_reauth_ms={"PLAIN": 3_000},
)
CREATE = create_topic_frame(9, "stolen")


def hands(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    return request_frame(sasl_handshake.API, version, 1, SaslHandshakeRequest(mechanism=mechanism))


def said(auth_bytes: bytes, version: int = 2) -> bytes:
    return request_frame(sasl_authenticate.API, version, 2, SaslAuthenticateRequest(auth_bytes=auth_bytes))


def lengthy(version: int, length: bytes, rest: bytes = b"") -> bytes:
    """A SaslAuthenticate request whose token has a length that is not its own."""
    header = sasl_authenticate.API.key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\2\0\1x"
    return encode_frame(header + (b"\0" if version == 2 else b"") + length + rest)


RIGHT = said(token())
REFUSED = "Authentication failed during authentication due to invalid credentials with SASL mechanism "
AT_ONCE, DELAYED = False, True


@pytest.fixture
def clock() -> MockClock:
    return MockClock(autojump_threshold=0.003)


def stranger(running: RunningServer) -> Peer:
    return running.connect_in_memory(security=ListenerSecurity(sasl=SASL))


async def answers_of(peer: Peer, sent: Sequence[bytes]) -> list[bytes]:
    """All answers until the server closes the connection."""
    await peer.send(b"".join(sent))
    answers = []
    while (answer := await peer.receive(2 * DELAY_SECONDS)) is not None:
        answers.append(answer)
    return answers


@pytest.mark.parametrize(
    ("sent", "answered", "is_delayed"),
    [
        ([RIGHT], [], AT_ONCE),
        ([CREATE], [], AT_ONCE),
        ([api_versions_frame(3), RIGHT], [3], AT_ONCE),
        ([api_versions_frame(3), CREATE], [3], AT_ONCE),
        ([api_versions_frame(3), api_versions_frame(4)], [3], AT_ONCE),
        ([hands(), hands()], [1, 1], DELAYED),
        ([hands(), hands("SCRAM-SHA-256")], [1, 1], DELAYED),
        ([hands(), api_versions_frame(3)], [1, 3], DELAYED),
        ([hands(), CREATE], [1, 9], DELAYED),
        ([hands(version=0), hands(version=0)], [1], DELAYED),
        ([hands(version=0), RIGHT], [1], DELAYED),
        ([hands("SCRAM-SHA-256"), said(b"n,,n=alice,r=abc"), RIGHT], [1, 2], DELAYED),
        ([hands("SCRAM-SHA-256", 0), encode_frame(b"n,,n=alice,r=abc")], [1], AT_ONCE),
        ([hands("SCRAM-SHA-256"), RIGHT], [1, 2], DELAYED),
        ([hands("OAUTHBEARER"), RIGHT], [1, 2], DELAYED),
        ([hands("OAUTHBEARER"), CREATE], [1, 9], DELAYED),
    ],
)
async def test_requests_out_of_order_end_the_connection(
    sent: list[bytes], answered: list[int], is_delayed: bool, clock: MockClock
) -> None:
    """With the right password behind them."""
    async with open_test_server() as running:
        peer, began = stranger(running), trio.current_time()
        answers = await answers_of(peer, [*sent, hands(), RIGHT, CREATE])
        assert correlation_ids(answers) == answered
        assert trio.current_time() - began == pytest.approx(DELAY_SECONDS if is_delayed else 0, abs=0.1)
        assert not running.controller.image.topics_by_name
        assert await log_in(stranger(running)) == 0


@pytest.mark.parametrize("mechanism", SASL.mechanisms)
@pytest.mark.parametrize("version", [0, 1, 2])
async def test_an_empty_token_is_refused_with_kafka_s_code(mechanism: str, version: int, clock: MockClock) -> None:
    async with open_test_server() as running:
        _, answer = await answers_of(stranger(running), [hands(mechanism), said(b"", version), RIGHT])
        response = decode_response(sasl_authenticate.API, version, answer)[1]
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert response.error_message == (
            "Invalid SASL/PLAIN response: expected 3 tokens, got 1" if mechanism == "PLAIN" else f"{REFUSED}{mechanism}"
        )


@pytest.mark.parametrize(
    "bad",
    [
        *(lengthy(version, length.to_bytes(4, "big", signed=True)) for version in (0, 1) for length in (-1, -2, 1)),
        lengthy(0, b"\x7f\xff\xff\xff", b"\0alice\0alice-secret"),
        lengthy(1, b"\x80\0\0\0", b"\0alice\0alice-secret"),
        lengthy(2, b"\0", b"\0"),
        lengthy(2, b"\2", b""),
        lengthy(2, b"\xff\xff\xff\xff\x0f", b"\0alice\0alice-secret\0"),
        lengthy(2, b"\xff\xff\xff\xff\xff\x0f", b"\0"),
        lengthy(2, b"\x80", b""),
    ],
    ids=lambda bad: bad.hex(),
)
async def test_a_token_of_an_impossible_length_closes_the_connection_at_once(bad: bytes, clock: MockClock) -> None:
    async with open_test_server() as running:
        began = trio.current_time()
        assert correlation_ids(await answers_of(stranger(running), [hands(), bad, RIGHT, CREATE])) == [1]
        assert trio.current_time() - began < 1
        assert await log_in(stranger(running)) == 0


@pytest.mark.parametrize(
    ("mechanism", "size", "is_delayed"),
    [
        ("PLAIN", 0, DELAYED),
        ("SCRAM-SHA-256", 0, AT_ONCE),
        ("OAUTHBEARER", 0, AT_ONCE),
        *((mechanism, size, DELAYED) for mechanism in SASL.mechanisms for size in (-1, -(2**31), 1_001, 2**31 - 1)),
    ],
)
async def test_a_raw_token_of_no_or_an_impossible_size(
    mechanism: str, size: int, is_delayed: bool, clock: MockClock
) -> None:
    """After SaslHandshake v0, a token is a frame of its own, and nothing is answered to a wrong one."""
    async with open_test_server() as running:
        began = trio.current_time()
        sent = [hands(mechanism, 0), size.to_bytes(4, "big", signed=True), bytes(50)]
        assert correlation_ids(await answers_of(stranger(running), sent)) == [1]
        assert trio.current_time() - began == pytest.approx(DELAY_SECONDS if is_delayed else 0, abs=0.1)


@pytest.mark.parametrize("first", ["n={},r=abc", "n=alice,r={}", "n=alice,r=abc{}", "m={},n=alice,r=abc"])
async def test_a_first_message_that_breaks_the_grammar_of_scram_is_refused(first: str, clock: MockClock) -> None:
    """Whether or not it would name a user: the texts tell nothing about that."""
    bent = (
        "",
        ",",
        "a,b",
        "=",
        "=2",
        "=2c",
        "=3d",
        "=41",
        "a=2Cb",
        "é",
        "\u20ac",
        "\U0001f600",
        "\0",
        " ",
        "\x7f",
        ",r=x",
    )
    async with open_test_server() as running:
        for some in bent:
            sent = [hands("SCRAM-SHA-256"), said(f"n,,{first.format(some)}".encode()), RIGHT]
            _, answer = await answers_of(stranger(running), sent)
            response = decode_response(sasl_authenticate.API, 2, answer)[1]
            assert (response.error_code, response.error_message) == (
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                f"{REFUSED}SCRAM-SHA-256",
            )


async def endless(peer: Peer, beginning: bytes, piece: bytes) -> None:
    """Send one piece after another, one each second."""
    await peer.send(beginning)
    try:
        while True:
            await trio.sleep(1)
            await peer.send(piece)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass


@pytest.mark.parametrize(
    ("beginning", "piece"),
    [
        (b"", b""),
        (hands(), b""),
        (hands() + b"\0\0\3\0", b"\0"),
        (hands("OAUTHBEARER"), said(b"n,,\x01auth=Bearer x.y.z\x01\x01")),
    ],
    ids=["silent", "silent after the handshake", "a byte per second", "one token per second"],
)
async def test_a_login_without_an_end_is_ended(beginning: bytes, piece: bytes, clock: MockClock) -> None:
    async with open_test_server(limits=ServerLimits(authentication_seconds=20)) as running:
        known, peer = stranger(running), stranger(running)
        assert await log_in(known) == 0
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(endless, peer, beginning, piece)
            with trio.fail_after(60):
                while await peer.stream.receive_some():
                    pass
            assert 20 <= trio.current_time() - began < 23
            nursery.cancel_scope.cancel()
        assert "before its client was authenticated" in running.stderr.getvalue()
        assert await log_in(stranger(running)) == 0


async def test_a_second_login_without_an_end_serves_nothing_and_ends_with_the_idle_connection(clock: MockClock) -> None:
    """Kafka, too, has no other limit for a client that was authenticated before."""
    limits = ServerLimits(authentication_seconds=20, connections_max_idle_ms=30_000)
    async with open_test_server(limits=limits) as running:
        peer = stranger(running)
        assert await log_in(peer) == 0
        await trio.sleep(2)
        began = trio.current_time()
        await peer.send(hands())
        assert await peer.receive() is not None
        assert await peer.receive(60) is None
        assert 30 <= trio.current_time() - began < 33
