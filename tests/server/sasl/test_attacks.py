"""Attacks on logins: requests without one, every mechanism at once, mechanisms that are not enabled, work that tells
which users exist, credentials that are too weak, tokens that are over."""

import base64
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.broker.dispatch import APIS
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512, ScramCredential
from klamm.controller.transitions.scram import credential_of, salted
from klamm.protocol.api import Api
from klamm.protocol.messages.cluster.api_versions import API as API_VERSIONS
from klamm.protocol.messages.security.sasl_authenticate import API as AUTHENTICATE
from klamm.protocol.messages.security.sasl_handshake import API as HANDSHAKE
from klamm.server.sasl.authenticator import Reaction, SaslState
from klamm.server.sasl.mechanism import AuthenticationFailed
from klamm.server.sasl.oauthbearer import UnsecuredTokens
from klamm.server.sasl.plain import Plain
from klamm.server.sasl.settings import SaslSettings
from klamm.server.sasl.signed_tokens import FixedKeys, SignedTokens
from tests.server.sasl.exchanges import USERS, authenticate, authenticator, handshake, token, versions
from tests.server.sasl.scram_client import ScramClient

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
NOBODY = SignedTokens(keys=FixedKeys(()))
EVERY = SaslSettings(mechanisms=MECHANISMS, plain_users=USERS, validate_token=NOBODY)
KEY = "token key"


def credential(mechanism: int, password: str, iterations: int = 4_096) -> ScramCredential:
    secret = salted(mechanism, password.encode(), b"salt", iterations)
    return credential_of(mechanism, secret, b"salt", iterations)


@pytest.fixture(scope="module")
def image() -> MetadataImage:
    image = MetadataImage()
    for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512):
        image.scram_credentials["alice", mechanism] = credential(mechanism, "alice-secret")
    return image


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_no_request_of_any_api_passes_before_the_login(api: Api[Any, Any]) -> None:
    key = api.key
    if key in (API_VERSIONS.key, HANDSHAKE.key, AUTHENTICATE.key):
        return
    for version in range(20):
        frame = key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\0\1x" + bytes(40)
        for before in ((), (versions(),), (handshake(),), (versions(), handshake(version=0))):
            made = authenticator(EVERY)
            for one in before:
                if made.receive(one, 0).reaction is Reaction.VERSIONS:
                    made.versions_answered(0)
            verdict = made.receive(frame, 0)
            assert verdict.reaction in (Reaction.CLOSE, Reaction.REFUSE)
            assert made.state is SaslState.FAILED
            assert made.identity is None
            assert made.receive(frame, 0).reaction is Reaction.CLOSE, "and nothing behind it"


scram_first = st.builds(
    lambda name, more: f"n,,n={name},r=abc{more}".encode(),
    st.sampled_from(["alice", "bob", "", "a=2Cb", "=3D"]),
    st.sampled_from(["", ",tokenauth=true", ",tokenauth=false", ",x"]),
)
scram_final = st.builds(
    lambda nonce, proof: b"c=biws,r=" + nonce + b",p=" + base64.b64encode(proof),
    st.sampled_from([b"abc", b"abcdef", b""]),
    st.binary(min_size=30, max_size=64),
)
bearer = st.builds(
    lambda token: f"n,,\x01auth=Bearer {token}\x01\x01".encode(),
    st.sampled_from(["a.b.c", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSIsImV4cCI6OTk5OTk5OTk5OX0.", "x"]),
)
wrong_plain = st.builds(
    lambda user, password: f"\0{user}\0{password}".encode(),
    st.sampled_from(["alice", "bob", "carol", "User:alice"]),
    st.sampled_from(["", "alice", "x" * 100, "ALICE-SECRET", "bob-secret "]),
)
messages = st.one_of(scram_first, scram_final, bearer, wrong_plain, st.binary(max_size=60), st.just(b"\x01"))
frames = st.one_of(
    st.builds(handshake, st.sampled_from([*MECHANISMS, "GSSAPI", ""]), st.sampled_from([0, 1])),
    st.builds(authenticate, messages, st.sampled_from([0, 1, 2])),
    messages,
    st.just(versions()),
)


@given(st.lists(frames, max_size=12))
def test_no_sequence_over_all_mechanisms_authenticates_without_proof(image: MetadataImage, sent: list[bytes]) -> None:
    made = authenticator(EVERY, image, KEY)
    for frame in sent:
        verdict = made.receive(frame, 1_000)
        assert verdict.reaction is not Reaction.PASS
        if verdict.reaction is Reaction.VERSIONS:
            made.versions_answered(0)
        assert not made.is_authenticated
        assert made.identity is None


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_mechanism_that_is_not_enabled_cannot_be_used_whatever_the_server_could_do(
    mechanism: str, image: MetadataImage
) -> None:
    others = tuple(one for one in MECHANISMS if one != mechanism)
    settings = SaslSettings(mechanisms=others, plain_users=USERS, validate_token=UnsecuredTokens())
    made = authenticator(settings, image)
    assert made.receive(handshake(mechanism), 0).reaction is Reaction.REFUSE
    assert made.receive(authenticate(token()), 0).reaction is Reaction.CLOSE
    # Tokens of one mechanism are of no use in the exchange of another one.
    for enabled in others:
        made = authenticator(settings, image)
        made.receive(handshake(enabled), 0)
        if enabled != "PLAIN":
            assert made.receive(authenticate(token()), 0).reaction is Reaction.REFUSE


def work_of(action: Callable[[], object]) -> list[tuple[str, int]]:
    """The lines of Python that an action runs."""
    lines: list[tuple[str, int]] = []

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            lines.append((frame.f_code.co_name, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return lines


def test_the_work_for_unknown_users_of_plain_is_that_for_wrong_passwords() -> None:
    def tried(user: str) -> Callable[[], object]:
        def action() -> None:
            try:
                Plain(USERS).evaluate(f"\0{user}\0{'x' * 12}".encode(), 0)
            except AuthenticationFailed as error:
                texts.append(str(error))

        return action

    texts: list[str] = []
    known, unknown = work_of(tried("alice")), work_of(tried("carol"))
    assert known == unknown
    assert len(known) > 10
    assert texts == ["Authentication failed: Invalid username or password"] * 2


@pytest.mark.parametrize(("iterations", "taken"), [(4_095, False), (1, False), (4_096, True), (16_384, True)])
def test_a_credential_of_few_iterations_is_refused_though_its_password_is_right(iterations: int, taken: bool) -> None:
    image = MetadataImage()
    image.scram_credentials["weak", SCRAM_SHA_256] = credential(SCRAM_SHA_256, "pw", iterations)
    made = authenticator(EVERY, image)
    made.receive(handshake("SCRAM-SHA-256"), 0)
    client = ScramClient("weak", "pw", SCRAM_SHA_256)
    verdict = made.receive(authenticate(client.first()), 0)
    assert (verdict.reaction is Reaction.ANSWER) is taken


def test_a_client_cannot_choose_the_iterations(image: MetadataImage) -> None:
    for first in (b"n,,n=alice,r=abc,i=1", b"n,,i=1,n=alice,r=abc", b"n,,n=alice,i=1,r=abc"):
        made = authenticator(EVERY, image)
        made.receive(handshake("SCRAM-SHA-256"), 0)
        verdict = made.receive(authenticate(first), 0)
        if verdict.reaction is Reaction.ANSWER:
            assert b"i=4096" in bytes(verdict.payload or b"")
