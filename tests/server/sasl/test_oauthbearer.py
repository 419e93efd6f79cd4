"""OAUTHBEARER: tokens without and with signatures, and forged ones: `alg: none`, keys used as secrets, replaced
claims."""

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from klamm.server.sasl.authenticator import Reaction
from klamm.server.sasl.mechanism import AuthenticationFailed, CredentialsRefused, Malformed
from klamm.server.sasl.oauthbearer import (
    MAX_MESSAGE_BYTES,
    MAX_NAME_BYTES,
    OAuthBearer,
    TokenRefused,
    UnsecuredTokens,
)
from klamm.server.sasl.settings import SaslSettings
from klamm.server.sasl.signed_tokens import FixedKeys, JwksError, SignedTokens, decode_jwks
from tests.server.sasl.exchanges import authenticate, authenticator, decoded, handshake, some_metadata

NOW_MS = 1_700_000_000_000
NOW = NOW_MS // 1000
CLAIMS = {"sub": "alice", "exp": NOW + 60, "iat": NOW, "scope": "read write"}
RSA_KEY = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def unsecured(claims: Any, header: Any = None) -> str:
    return f"{part({'alg': 'none'} if header is None else header)}.{part(claims)}."


def message(token: str, authorization: str = "") -> bytes:
    return f"n,{authorization},\x01auth=Bearer {token}\x01\x01".encode()


def jwk(key: Any, **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = (
        jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    ).to_jwk(key.public_key(), as_dict=True)
    return {**made, **more}


def jwks(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


SIGNED = SignedTokens(
    keys=FixedKeys(decode_jwks(jwks(jwk(RSA_KEY, kid="one", use="sig"), jwk(EC_KEY, kid="two", alg="ES256"))))
)


def test_an_unsecured_token_names_the_client_until_it_expires() -> None:
    exchange = OAuthBearer(UnsecuredTokens())
    assert exchange.evaluate(message(unsecured(CLAIMS)), NOW_MS) == b""
    assert exchange.identity is not None
    assert (exchange.identity.principal, exchange.identity.expires_at_ms) == ("User:alice", 1000 * (NOW + 60))
    assert exchange.identity.by_token is False


@pytest.mark.parametrize(
    "claims",
    [
        {**CLAIMS, "exp": NOW},
        {**CLAIMS, "exp": NOW - 1},
        {**CLAIMS, "exp": "soon"},
        {**CLAIMS, "exp": True},
        {**CLAIMS, "exp": 1e300},
        {**CLAIMS, "iat": NOW + 1},
        {**CLAIMS, "sub": ""},
        {**CLAIMS, "sub": 7},
        {"sub": "alice"},
        {"exp": NOW + 60},
        {**CLAIMS, "sub": "half \ud83d"},
        {**CLAIMS, "sub": "\udc00"},
        {**CLAIMS, "sub": "é" * (MAX_NAME_BYTES // 2) + "x"},
    ],
    ids=lambda claims: repr(claims)[:70],
)
def test_claims_that_are_not_valid_now_are_refused(claims: Any) -> None:
    with pytest.raises(TokenRefused):
        UnsecuredTokens()(unsecured(claims), NOW_MS)
    with pytest.raises(TokenRefused):
        SignedTokens(keys=SIGNED.keys, clock_skew_ms=0)(jwt.encode(claims, RSA_KEY, "RS256"), NOW_MS)


@pytest.mark.parametrize("name", ["é" * (MAX_NAME_BYTES // 2), "\U0001f600", " a\n\0b"])
def test_a_name_may_have_any_characters_and_a_bounded_size(name: str) -> None:
    claims = {**CLAIMS, "sub": name}
    assert UnsecuredTokens()(unsecured(claims), NOW_MS).name == name
    assert SIGNED(jwt.encode(claims, RSA_KEY, "RS256"), NOW_MS).name == name


@pytest.mark.parametrize("header", [{}, {"alg": "RS256"}, {"alg": "None"}, {"alg": ["none"]}, {"alg": None}])
def test_an_unsecured_token_says_that_it_has_no_signature(header: Any) -> None:
    with pytest.raises(TokenRefused):
        UnsecuredTokens()(unsecured(CLAIMS, header), NOW_MS)


def test_nbf_counts_in_signed_tokens_alone() -> None:
    claims = {**CLAIMS, "nbf": NOW + 1}
    assert UnsecuredTokens()(unsecured(claims), NOW_MS).name == "alice"
    with pytest.raises(TokenRefused):
        SignedTokens(keys=SIGNED.keys, clock_skew_ms=0)(jwt.encode(claims, RSA_KEY, "RS256"), NOW_MS)


@pytest.mark.parametrize("claims", [[], "alice", 7, None])
def test_json_that_is_no_object_ends_the_connection(claims: Any) -> None:
    for token in (unsecured(claims), unsecured(CLAIMS, claims if claims is not None else [])):
        with pytest.raises(Malformed):
            UnsecuredTokens()(token, NOW_MS)


@pytest.mark.parametrize("skew_ms", [0, 5_000])
def test_clocks_may_differ_by_the_skew(skew_ms: int) -> None:
    validate = UnsecuredTokens(clock_skew_ms=skew_ms)
    token = unsecured({**CLAIMS, "exp": NOW + 1})
    assert validate(token, 1000 * (NOW + 1) + skew_ms - 1).name == "alice"
    with pytest.raises(TokenRefused):
        validate(token, 1000 * (NOW + 1) + skew_ms)


def test_scopes_and_names_of_claims_are_configured() -> None:
    validate = UnsecuredTokens(principal_claim="user", scope_claim="scp", required_scope=("read",))
    assert validate(unsecured({"user": "bob", "exp": NOW + 9, "scp": ["read"]}), NOW_MS).name == "bob"
    assert validate(unsecured({"user": "bob", "exp": NOW + 9, "scp": " read "}), NOW_MS).name == "bob"
    refusals: list[Any] = ["reader", "read write", "", []]
    for granted in refusals:
        with pytest.raises(TokenRefused) as refused:
            validate(unsecured({"user": "bob", "exp": NOW + 9, "scp": granted}), NOW_MS)
        assert refused.value.scope == "[read]"
    with pytest.raises(TokenRefused) as refused:
        UnsecuredTokens()(unsecured({**CLAIMS, "scope": 5}), NOW_MS)
    assert refused.value.scope == ""
    exchange = OAuthBearer(UnsecuredTokens(required_scope=("read", "write")))
    answer = exchange.evaluate(message(unsecured({**CLAIMS, "scope": ["read"]})), NOW_MS)
    assert answer == b'{"status":"insufficient_scope", "scope":"[read, write]"}'


@pytest.mark.parametrize(
    ("key", "algorithm", "headers"),
    [
        (RSA_KEY, "RS256", {"kid": "one"}),
        (RSA_KEY, "PS512", {"kid": "one"}),
        (RSA_KEY, "RS256", {}),
        (EC_KEY, "ES256", {"kid": "two"}),
        (EC_KEY, "ES256", {}),
    ],
)
def test_a_token_that_a_known_key_has_signed_is_taken(key: Any, algorithm: str, headers: dict[str, Any]) -> None:
    token = jwt.encode(CLAIMS, key, algorithm, headers=headers)
    assert SIGNED(token, NOW_MS).principal == "User:alice"


def forged() -> dict[str, str]:
    """Tokens without a signature of a known key."""
    good = jwt.encode(CLAIMS, RSA_KEY, "RS256", headers={"kid": "one"})
    head, claims, signature = good.split(".")
    pem = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    hs_head = part({"alg": "HS256", "typ": "JWT", "kid": "one"})
    as_secret = hmac.digest(pem, f"{hs_head}.{claims}".encode(), hashlib.sha256)
    return {
        "none": unsecured(CLAIMS),
        "None": unsecured(CLAIMS, {"alg": "None", "kid": "one"}),
        "none with a signature": f"{part({'alg': 'none'})}.{claims}.{signature}",
        "another key": jwt.encode(CLAIMS, OTHER_KEY, "RS256", headers={"kid": "one"}),
        "unknown key id": jwt.encode(CLAIMS, RSA_KEY, "RS256", headers={"kid": "three"}),
        "key id of the other key": jwt.encode(CLAIMS, RSA_KEY, "RS256", headers={"kid": "two"}),
        "the public key as a secret": f"{hs_head}.{claims}." + base64.urlsafe_b64encode(as_secret).decode().rstrip("="),
        "other claims": f"{head}.{part({**CLAIMS, 'sub': 'admin'})}.{signature}",
        "no signature": f"{head}.{claims}.",
        "half a signature": good[: -len(signature) // 2],
        "an algorithm of another key": f"{part({'alg': 'ES256', 'kid': 'one'})}.{claims}.{signature}",
        "no algorithm": f"{part({})}.{claims}.{signature}",
        "a key in the header": jwt.encode(CLAIMS, OTHER_KEY, "RS256", headers={"jwk": jwk(OTHER_KEY)}),
        "critical extension": jwt.encode(CLAIMS, RSA_KEY, "RS256", headers={"crit": ["x"], "x": 1}),
    }


@pytest.mark.parametrize("name", forged())
def test_forged_tokens_are_refused(name: str) -> None:
    with pytest.raises(TokenRefused):
        SIGNED(forged()[name], NOW_MS)


def test_audience_and_issuer_have_to_be_the_expected_ones() -> None:
    validate = SignedTokens(keys=SIGNED.keys, audience=("kafka", "other"), issuer="https://issuer")
    good = {**CLAIMS, "aud": "kafka", "iss": "https://issuer"}
    assert validate(jwt.encode(good, RSA_KEY, "RS256"), NOW_MS).name == "alice"
    for bad in ({**good, "aud": "x"}, {**good, "iss": "x"}, {**CLAIMS, "aud": "kafka"}, {**CLAIMS, "iss": good["iss"]}):
        with pytest.raises(TokenRefused):
            validate(jwt.encode(bad, RSA_KEY, "RS256"), NOW_MS)
    with pytest.raises(TokenRefused):
        SIGNED(jwt.encode({**CLAIMS, "aud": "any"}, RSA_KEY, "RS256"), NOW_MS)


def test_private_keys_secrets_and_keys_for_encryption_are_no_public_keys() -> None:
    private = jwt.algorithms.RSAAlgorithm.to_jwk(RSA_KEY, as_dict=True)
    secret = {"kty": "oct", "k": "c2VjcmV0"}
    for some in ((), (private,), (secret,), (jwk(RSA_KEY, use="enc"),)):
        with pytest.raises(JwksError, match="no public key"):
            decode_jwks(jwks(*some))
    for data in (b"", b"[]", b"{}", b'{"keys": [7]}', b'{"keys": [{"kty": "RSA"}]}', b"\xff", b"[" * 100_000):
        with pytest.raises(JwksError, match="no JWKS"):
            decode_jwks(data)


def test_a_refused_token_is_told_as_json_and_fails_with_the_next_message() -> None:
    settings = SaslSettings(mechanisms=("OAUTHBEARER",), validate_token=UnsecuredTokens())
    made = authenticator(settings)
    made.receive(handshake("OAUTHBEARER"), NOW_MS)
    first = decoded(made.receive(authenticate(message("x.y.z")), NOW_MS).payload)
    assert (first.error_code, bytes(first.auth_bytes)) == (0, b'{"status":"invalid_token"}')
    verdict = made.receive(authenticate(b"\x01"), NOW_MS)
    assert (verdict.reaction, decoded(verdict.payload).error_message) == (Reaction.REFUSE, '{"status":"invalid_token"}')
    for second in (b"", b"\x01\x01", b"x"):
        made = authenticator(settings)
        for frame in (handshake("OAUTHBEARER"), authenticate(message("x.y.z"))):
            made.receive(frame, NOW_MS)
        assert made.receive(authenticate(second), NOW_MS).reaction is Reaction.REFUSE


def test_another_token_may_follow_a_refused_one_as_in_kafka() -> None:
    made = authenticator(SaslSettings(mechanisms=("OAUTHBEARER",), validate_token=UnsecuredTokens()))
    made.receive(handshake("OAUTHBEARER"), NOW_MS)
    for _ in range(2):
        answer = decoded(made.receive(authenticate(message("x.y.z")), NOW_MS).payload)
        assert bytes(answer.auth_bytes) == b'{"status":"invalid_token"}'
        assert not made.is_authenticated
    assert made.receive(authenticate(message(unsecured(CLAIMS))), NOW_MS).reaction is Reaction.ANSWER
    assert made.is_authenticated


def test_the_session_ends_with_the_token() -> None:
    made = authenticator(SaslSettings(mechanisms=("OAUTHBEARER",), validate_token=UnsecuredTokens()))
    made.receive(handshake("OAUTHBEARER"), NOW_MS)
    answer = decoded(made.receive(authenticate(message(unsecured(CLAIMS))), NOW_MS).payload)
    assert answer.session_lifetime_ms == 60_000
    assert made.receive(some_metadata(), NOW_MS + 60_000).reaction is Reaction.PASS
    assert made.receive(some_metadata(), NOW_MS + 60_001).reaction is Reaction.CLOSE


def test_another_authorization_id_is_refused() -> None:
    assert OAuthBearer(UnsecuredTokens()).evaluate(message(unsecured(CLAIMS), "a=alice"), NOW_MS) == b""
    with pytest.raises(AuthenticationFailed, match=r"authorization id \(bob\) that is different"):
        OAuthBearer(UnsecuredTokens()).evaluate(message(unsecured(CLAIMS), "a=bob"), NOW_MS)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01\x01",
        b"y,,\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Bearer x\x01",
        message("x" * MAX_MESSAGE_BYTES),
    ],
    ids=lambda sent: repr(sent[:30]),
)
def test_other_messages_are_refused(sent: bytes) -> None:
    with pytest.raises(CredentialsRefused):
        OAuthBearer(UnsecuredTokens()).evaluate(sent, NOW_MS)


def test_another_scheme_ends_the_connection() -> None:
    for scheme in ("Basic", "Bearers", "X"):
        with pytest.raises(Malformed):
            OAuthBearer(UnsecuredTokens()).evaluate(f"n,,\x01auth={scheme} x\x01\x01".encode(), NOW_MS)


@given(st.lists(st.binary(max_size=40) | st.text(max_size=40).map(message), max_size=3))
def test_no_messages_without_a_good_token_authenticate(messages: list[bytes]) -> None:
    exchange = OAuthBearer(SIGNED)
    for one in messages:
        try:
            exchange.evaluate(one, NOW_MS)
        except (AuthenticationFailed, CredentialsRefused, Malformed):
            break
    assert exchange.identity is None
