"""The states of an authentication. Whole recorded exchanges are played in tests/behaviour."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.metadata.image import MetadataImage
from klamm.controller.transitions.scram import credential_of, salted
from klamm.protocol.codec.requests import decode_response
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.security.sasl_handshake import API as HANDSHAKE
from klamm.server.sasl.authenticator import MAX_ANSWERED_BYTES, Reaction, SaslAuthenticator, SaslState, Verdict
from klamm.server.sasl.settings import SaslSettings
from tests.server.sasl.exchanges import (
    PLAIN,
    USERS,
    authenticate,
    authenticator,
    decoded,
    handshake,
    some_metadata,
    token,
    versions,
)
from tests.server.sasl.scram_client import ScramClient

REAUTH = SaslSettings(mechanisms=("PLAIN",), plain_users=USERS, max_reauth_ms={"PLAIN": 3_000})


def after(settings: SaslSettings, *frames: bytes, now_ms: int = 0) -> tuple[SaslAuthenticator, Verdict]:
    """The authenticator, and its verdict on the last of the frames; ApiVersions requests are answered."""
    made = authenticator(settings)
    verdict = Verdict(Reaction.PASS)
    for frame in frames:
        verdict = made.receive(frame, now_ms)
        if verdict.reaction is Reaction.VERSIONS:
            made.versions_answered(0)
    return made, verdict


def reaction(*frames: bytes) -> Reaction:
    return after(PLAIN, *frames)[1].reaction


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_correct_password_authenticates_its_user(version: int) -> None:
    made, verdict = after(PLAIN, versions(), handshake(), authenticate(token(), version))
    assert made.is_authenticated
    assert made.identity is not None
    assert made.identity.principal == "User:alice"
    response = decoded(verdict.payload, version)
    assert (response.error_code, response.auth_bytes, response.session_lifetime_ms) == (0, b"", 0)
    assert made.receive(some_metadata(), 10**12) == Verdict(Reaction.PASS)
    assert made.receive(handshake(), 0) == Verdict(Reaction.PASS)


def test_raw_tokens_follow_the_first_version_of_the_handshake() -> None:
    made, verdict = after(PLAIN, handshake(version=0), token())
    assert made.is_authenticated
    assert (verdict.reaction, verdict.payload, verdict.exchange) == (Reaction.ANSWER, b"", None)
    made, verdict = after(PLAIN, handshake(version=0), token(password="wrong"))
    assert (verdict.reaction, verdict.payload, made.state) == (Reaction.REFUSE, None, SaslState.FAILED)
    assert reaction(handshake(version=0), authenticate(token())) is Reaction.REFUSE


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([some_metadata()], Reaction.CLOSE),
        ([authenticate(token())], Reaction.CLOSE),
        ([versions()], Reaction.VERSIONS),
        ([versions(), versions()], Reaction.CLOSE),
        ([versions(), some_metadata()], Reaction.CLOSE),
        ([b""], Reaction.CLOSE),
        ([b"\0"], Reaction.CLOSE),
        ([handshake()[:6]], Reaction.CLOSE),
        ([handshake("plain")], Reaction.REFUSE),
        ([handshake("SCRAM-SHA-256", 0)], Reaction.REFUSE),
        ([handshake(), b"\0"], Reaction.CLOSE),
        ([handshake(), authenticate(token())[:9]], Reaction.CLOSE),
        ([handshake(), handshake()], Reaction.REFUSE),
        ([handshake(), versions()], Reaction.REFUSE),
        ([handshake(), versions(99)], Reaction.REFUSE),
        ([handshake(), some_metadata()], Reaction.REFUSE),
        ([handshake(), authenticate(token("carol", "x"))], Reaction.REFUSE),
        ([handshake(), authenticate(token(password="wrong")), authenticate(token())], Reaction.CLOSE),
        ([handshake("nothing"), handshake()], Reaction.CLOSE),
    ],
)
def test_anything_else_fails_at_once_or_after_the_delay(frames: Sequence[bytes], expected: Reaction) -> None:
    made, verdict = after(PLAIN, *frames)
    assert verdict.reaction is expected
    assert (made.state is SaslState.FAILED) == (expected is not Reaction.VERSIONS)
    assert made.identity is None


def test_after_an_api_versions_error_another_api_versions_request_may_follow() -> None:
    made = authenticator()
    assert made.receive(versions(), 0).reaction is Reaction.VERSIONS
    made.versions_answered(ErrorCode.UNSUPPORTED_VERSION)
    assert made.receive(versions(), 0).reaction is Reaction.VERSIONS


def test_an_unsupported_mechanism_is_answered_with_the_enabled_ones() -> None:
    _, verdict = after(PLAIN, handshake("GSSAPI"))
    assert verdict.payload is not None
    response = decode_response(HANDSHAKE, 1, bytes(verdict.payload))[1]
    assert (response.error_code, response.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ("PLAIN",))


def test_other_requests_get_an_error_of_their_own_unless_they_are_large() -> None:
    _, verdict = after(PLAIN, handshake(), some_metadata())
    assert verdict.payload is not None
    room = MAX_ANSWERED_BYTES - len(some_metadata())
    assert after(PLAIN, handshake(), some_metadata() + bytes(room))[1].payload is not None
    assert after(PLAIN, handshake(), some_metadata() + bytes(room + 1))[1].payload is None


def test_a_frame_of_an_impossible_size_fails_after_the_delay() -> None:
    made = authenticator()
    assert made.receive_bad_size("too large").reaction is Reaction.REFUSE
    assert made.state is SaslState.FAILED


def test_a_session_ends_and_can_be_renewed_also_after_its_end() -> None:
    made, verdict = after(REAUTH, handshake(), authenticate(token()), now_ms=1_000)
    assert decoded(verdict.payload).session_lifetime_ms == 3_000
    assert made.receive(some_metadata(), 4_000).reaction is Reaction.PASS
    assert made.receive(handshake(), 5_000).reaction is Reaction.ANSWER
    assert made.receive(authenticate(token()), 5_000).reaction is Reaction.ANSWER
    assert made.receive(some_metadata(), 8_000).reaction is Reaction.PASS
    assert made.receive(some_metadata(), 8_001).reaction is Reaction.CLOSE


def test_reauthentications_begin_at_least_a_second_apart() -> None:
    made, _ = after(REAUTH, handshake(), authenticate(token()))
    for frame in (handshake(), authenticate(token())):
        assert made.receive(frame, 0).reaction is Reaction.ANSWER
    # The handlers of the two requests answer that the client is authenticated.
    assert made.receive(handshake(), 999).reaction is Reaction.PASS
    assert made.receive(handshake(), 1_000).reaction is Reaction.ANSWER


def test_no_request_passes_while_the_client_authenticates_again() -> None:
    made, _ = after(REAUTH, handshake(), authenticate(token()), handshake())
    assert made.receive(some_metadata(), 0).reaction is Reaction.REFUSE


def test_reauthentication_as_another_user_fails() -> None:
    made, _ = after(REAUTH, handshake(), authenticate(token()))
    made.receive(handshake(), 10)
    verdict = made.receive(authenticate(token("bob")), 10)
    assert verdict.reaction is Reaction.REFUSE
    expected = "Cannot change principals during re-authentication from User.alice: User.bob"
    assert decoded(verdict.payload).error_message == expected
    assert made.receive(some_metadata(), 11).reaction is Reaction.CLOSE


IN = "Authentication failed during {} due to invalid credentials with SASL mechanism {}"


@pytest.mark.parametrize(
    ("mechanism", "texts"),
    [
        ("PLAIN", ["Authentication failed: Invalid username or password"] * 2),
        ("SCRAM-SHA-256", [IN.format(during, "SCRAM-SHA-256") for during in ("authentication", "re-authentication")]),
        ("SCRAM-SHA-512", [IN.format(during, "SCRAM-SHA-512") for during in ("authentication", "re-authentication")]),
    ],
)
def test_a_wrong_password_is_refused_in_kafka_s_words(mechanism: str, texts: list[str]) -> None:
    """In a first login, and when a client that is authenticated logs in again."""
    number = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}.get(mechanism)
    image = MetadataImage()
    if number is not None:
        keys = salted(number, b"alice-secret", b"salt", 4_096)
        image.scram_credentials["alice", number] = credential_of(number, keys, b"salt", 4_096)
    settings = SaslSettings(mechanisms=(mechanism,), plain_users=USERS, max_reauth_ms={mechanism: 3_000})

    def log_in(made: SaslAuthenticator, password: str, now_ms: int) -> Verdict:
        assert made.receive(handshake(mechanism), now_ms).reaction is Reaction.ANSWER
        if number is None:
            return made.receive(authenticate(token(password=password)), now_ms)
        client = ScramClient("alice", password, number)
        first = decoded(made.receive(authenticate(client.first()), now_ms).payload)
        return made.receive(authenticate(client.final(first.auth_bytes)), now_ms)

    again = authenticator(settings, image)
    assert log_in(again, "alice-secret", 0).reaction is Reaction.ANSWER
    for made, text in zip((authenticator(settings, image), again), texts, strict=True):
        verdict = log_in(made, "wrong", 2_000)
        response = decoded(verdict.payload)
        assert (verdict.reaction, verdict.reason) == (Reaction.REFUSE, text)
        assert (response.error_code, response.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, text)
        assert (response.auth_bytes, response.session_lifetime_ms) == (b"", 0)


FRAMES = st.one_of(
    st.builds(handshake, st.sampled_from(["PLAIN", "plain", "", "SCRAM-SHA-256"]), st.sampled_from([0, 1])),
    st.builds(authenticate, st.just(token(password="wrong")) | st.binary(max_size=12), st.integers(0, 2)),
    st.sampled_from([versions(), versions(99), some_metadata(), token("bob", "alice-secret"), b""]),
    st.binary(max_size=40),
)


@given(st.lists(st.tuples(FRAMES, st.integers(0, 5_000), st.booleans()), max_size=8), st.booleans())
def test_no_sequence_without_a_right_password_authenticates(
    inputs: list[tuple[bytes, int, bool]], has_sessions: bool
) -> None:
    made = authenticator(REAUTH if has_sessions else PLAIN)
    now_ms = 0
    for frame, waited_ms, is_bad_size in inputs:
        now_ms += waited_ms
        verdict = made.receive_bad_size("") if is_bad_size else made.receive(frame, now_ms)
        if verdict.reaction is Reaction.VERSIONS:
            made.versions_answered(0)
        assert verdict.reaction is not Reaction.PASS
        assert not made.is_authenticated
        assert made.identity is None


@given(st.lists(st.tuples(FRAMES, st.integers(0, 2_000)), max_size=8))
def test_whatever_an_authenticated_client_sends_it_stays_who_it_is(inputs: list[tuple[bytes, int]]) -> None:
    made, _ = after(REAUTH, handshake(), authenticate(token()))
    before, now_ms, lost = made.identity, 0, False
    for frame, waited_ms in inputs:
        now_ms += waited_ms
        verdict = made.receive(frame, now_ms)
        lost = lost or verdict.reaction in (Reaction.CLOSE, Reaction.REFUSE)
        assert made.identity == before
        assert not (lost and verdict.reaction in (Reaction.PASS, Reaction.ANSWER))
