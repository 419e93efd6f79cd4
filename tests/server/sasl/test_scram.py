"""SCRAM: exchanges with right and wrong proofs, and forged ones. Their forms are played in tests/behaviour."""

import base64
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.metadata.image import MetadataImage
from klamm.controller.transitions.delegation_tokens import token_hmac
from klamm.controller.transitions.scram import credential_of, salted
from klamm.protocol.records.security import DelegationTokenRecord, UserScramCredentialRecord
from klamm.server.sasl.authenticator import Reaction
from klamm.server.sasl.credentials import credentials_of
from klamm.server.sasl.mechanism import AuthenticationFailed, CredentialsRefused, Malformed
from klamm.server.sasl.scram import MAX_MESSAGE_BYTES, Scram
from klamm.server.sasl.settings import SaslSettings
from tests.controller.cluster_states import apply
from tests.server.sasl.exchanges import authenticate, authenticator, decoded, handshake
from tests.server.sasl.scram_client import ScramClient

SALT = b"salt"
KEY = "key of tokens"
REFUSED = (AuthenticationFailed, CredentialsRefused, Malformed)


def record(user: str, password: str, mechanism: int = 1, iterations: int = 4_096) -> UserScramCredentialRecord:
    made = credential_of(mechanism, salted(mechanism, password.encode(), SALT, iterations), SALT, iterations)
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=SALT,
        stored_key=made.stored_key,
        server_key=made.server_key,
        iterations=iterations,
    )


@pytest.fixture(scope="module")
def image() -> MetadataImage:
    made = MetadataImage()
    apply(made, record("alice", "pw"), record("alice", "pw2", 2, 5_000), record("weak", "pw", iterations=4_095))
    apply(made, record("a,b=c", "pw"))
    apply(made, DelegationTokenRecord(token_id="token", owner="User:dora", expiration_timestamp=9_000))
    return made


def exchange(image: MetadataImage, mechanism: int = 1) -> Scram:
    return Scram(mechanism, credentials_of(mechanism, image, KEY), lambda: "server-nonce")


@pytest.mark.parametrize(("mechanism", "password", "iterations"), [(1, "pw", 4_096), (2, "pw2", 5_000)])
def test_both_sides_prove_that_they_know_the_credential(
    image: MetadataImage, mechanism: int, password: str, iterations: int
) -> None:
    server, client = exchange(image, mechanism), ScramClient("alice", password, mechanism)
    first = server.evaluate(client.first(), 0)
    assert first == f"r=client-nonceserver-nonce,s=c2FsdA==,i={iterations}".encode()
    final = server.evaluate(client.final(first), 0)
    assert client.is_signed(final)
    assert server.identity is not None
    assert (server.identity.principal, server.identity.by_token) == ("User:alice", False)


def test_names_are_unescaped(image: MetadataImage) -> None:
    server, client = exchange(image), ScramClient("a=2Cb=3Dc", "pw")
    server.evaluate(client.final(server.evaluate(client.first(), 0)), 0)
    assert server.identity is not None
    assert server.identity.name == "a,b=c"


@pytest.mark.parametrize(
    "client",
    [
        ScramClient("alice", "wrong"),
        ScramClient("alice", "pw2"),
        ScramClient("nobody", "pw"),
        ScramClient("weak", "pw"),
        ScramClient("ALICE", "pw"),
        ScramClient("alice", "pw", gs2="y,,"),
        ScramClient("alice", "pw", gs2="p=tls-unique,,"),
        ScramClient("alice", "pw", gs2="n,a=bob,"),
        ScramClient("alice", "pw", nonce=""),
        ScramClient("alice", "pw", nonce="a b"),
        ScramClient("alice=2X", "pw"),
        ScramClient("zoë", "pw"),
        ScramClient("alice", "pw", extensions=",tokenauth=true"),
        ScramClient("token", token_hmac(KEY, "token").hex()),
    ],
    ids=repr,
)
def test_others_are_not_authenticated(image: MetadataImage, client: ScramClient) -> None:
    server = exchange(image)
    with pytest.raises(REFUSED):
        server.evaluate(client.final(server.evaluate(client.first(), 0)), 0)
    assert server.identity is None


@pytest.mark.parametrize(
    "nonce", ["client-nonce", "client-nonceserver-noncX", "server-nonce", "client-nonceserver-nonce1", "x"]
)
def test_a_foreign_nonce_is_refused(image: MetadataImage, nonce: str) -> None:
    server, client = exchange(image), ScramClient("alice", "pw")
    first = server.evaluate(client.first(), 0)
    with pytest.raises(CredentialsRefused):
        server.evaluate(client.final(first, nonce), 0)


def test_an_exchange_cannot_be_replayed(image: MetadataImage) -> None:
    """The server's nonce differs in each exchange, so a proof that was overheard proves nothing."""
    nonces = iter(("one", "two"))
    servers = [Scram(1, credentials_of(1, image, KEY), lambda: next(nonces)) for _ in range(2)]
    client = ScramClient("alice", "pw")
    heard_first = client.first()
    heard_final = client.final(servers[0].evaluate(heard_first, 0))
    servers[0].evaluate(heard_final, 0)
    servers[1].evaluate(heard_first, 0)
    with pytest.raises(CredentialsRefused):
        servers[1].evaluate(heard_final, 0)


@pytest.mark.parametrize("length", [0, 3, 31, 33, 64])
def test_a_proof_of_another_length_is_malformed(image: MetadataImage, length: int) -> None:
    server, client = exchange(image), ScramClient("alice", "pw")
    first = server.evaluate(client.first(), 0)
    with pytest.raises(Malformed):
        server.evaluate(client.final(first, proof=bytes(length)), 0)


def test_an_exchange_ends_with_the_credential_it_began_with(image: MetadataImage) -> None:
    changing = MetadataImage()
    apply(changing, record("alice", "old"))
    server, client = exchange(changing), ScramClient("alice", "old")
    first = server.evaluate(client.first(), 0)
    apply(changing, record("alice", "new"))
    server.evaluate(client.final(first), 0)
    assert server.identity is not None


def test_a_token_logs_its_owner_in(image: MetadataImage) -> None:
    password = base64.b64encode(token_hmac(KEY, "token")).decode()
    client = ScramClient("token", password, extensions=",tokenauth=true")
    for mechanism in (1, 2):
        server, client.mechanism = exchange(image, mechanism), mechanism
        first = server.evaluate(client.first(), 0)
        salt = first.decode().partition(",s=")[2].partition(",")[0]
        assert len(base64.b64decode(salt)) == 20, "as long as Kafka's"
        final = server.evaluate(client.final(first), 0)
        assert client.is_signed(final)
        assert server.identity is not None
        assert (server.identity.principal, server.identity.by_token) == ("User:dora", True)
        assert server.identity.expires_at_ms == 9_000
    with pytest.raises(CredentialsRefused):
        Scram(1, credentials_of(1, image, None), str).evaluate(client.first(), 0)


def test_the_owner_of_a_token_may_have_colons_in_its_name() -> None:
    image = MetadataImage()
    apply(image, DelegationTokenRecord(token_id="t", owner="User:d:o:ra", expiration_timestamp=9_000))
    client = ScramClient("t", base64.b64encode(token_hmac(KEY, "t")).decode(), extensions=",tokenauth=true")
    server = exchange(image)
    server.evaluate(client.final(server.evaluate(client.first(), 0)), 0)
    assert server.identity is not None
    assert (server.identity.principal_type, server.identity.name) == ("User", "d:o:ra")


def test_the_session_of_a_token_ends_with_it(image: MetadataImage) -> None:
    settings = SaslSettings(mechanisms=("SCRAM-SHA-256",))
    password = base64.b64encode(token_hmac(KEY, "token")).decode()
    for now_ms, lifetime_ms in ((1_000, 8_000), (9_500, 0)):
        made = authenticator(settings, image, KEY)
        client = ScramClient("token", password, extensions=",tokenauth=true")
        made.receive(handshake("SCRAM-SHA-256"), now_ms)
        first = decoded(made.receive(authenticate(client.first()), now_ms).payload)
        final = decoded(made.receive(authenticate(client.final(first.auth_bytes)), now_ms).payload)
        assert final.session_lifetime_ms == lifetime_ms
        expected = Reaction.PASS if lifetime_ms else Reaction.CLOSE
        assert made.receive(b"\0\3\0\x09", now_ms + 1).reaction is expected


def test_messages_are_bounded(image: MetadataImage) -> None:
    with pytest.raises(CredentialsRefused):
        exchange(image).evaluate(ScramClient("alice", "pw", nonce="x" * MAX_MESSAGE_BYTES).first(), 0)
    rest = len(ScramClient("alice", "pw", nonce="").first())
    longest = ScramClient("alice", "pw", nonce="x" * (MAX_MESSAGE_BYTES - rest)).first()
    assert exchange(image).evaluate(longest, 0).startswith(b"r=x")
    with pytest.raises(CredentialsRefused):
        exchange(image).evaluate(ScramClient("alice", "pw", nonce="x" * (MAX_MESSAGE_BYTES - rest + 1)).first(), 0)
    began = time.perf_counter()
    for hostile in (b"n,,n=" + b"=2C" * 5_000, b"n,,n=a,r=b" + b",x=y" * 4_000, b"n,a=" + b"=3D" * 5_000 + b","):
        with pytest.raises(REFUSED):
            exchange(image).evaluate(hostile, 0)
    assert time.perf_counter() - began < 2


@given(st.lists(st.binary(max_size=60) | st.text(max_size=60).map(str.encode), min_size=1, max_size=3))
def test_no_messages_without_a_proof_authenticate(image: MetadataImage, messages: list[bytes]) -> None:
    for begun in (False, True):
        server = exchange(image)
        if begun:
            server.evaluate(ScramClient("alice", "pw").first(), 0)
        for message in messages:
            try:
                server.evaluate(message, 0)
            except REFUSED:
                break
        assert server.identity is None


@given(st.binary(min_size=32, max_size=32))
def test_no_other_proof_authenticates(image: MetadataImage, proof: bytes) -> None:
    server, client = exchange(image), ScramClient("alice", "pw")
    first = server.evaluate(client.first(), 0)
    with pytest.raises(CredentialsRefused):
        server.evaluate(client.final(first, proof=proof), 0)
    assert server.identity is None
