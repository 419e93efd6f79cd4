"""PLAIN, beside the recorded exchanges: whose password counts, and that nothing but the whole of it does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.server.sasl.mechanism import AuthenticationFailed
from klamm.server.sasl.plain import Plain

USERS = {"alice": "secret", "bob": "other", "nopassword": ""}


@pytest.mark.parametrize("token", [b"\0alice\0secret", b"alice\0alice\0secret"])
def test_the_password_of_the_user_is_taken(token: bytes) -> None:
    exchange = Plain(USERS)
    assert exchange.evaluate(token, 0) == b""
    assert exchange.identity is not None
    assert (exchange.identity.name, exchange.identity.expires_at_ms, exchange.identity.by_token) == (
        "alice",
        None,
        False,
    )


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0\0\0\0\0\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0nopassword\0", "Authentication failed: password not specified"),
        (b"\0alice\0other", "Authentication failed: Invalid username or password"),
        (b"\0carol\0secret", "Authentication failed: Invalid username or password"),
        (
            b"bob\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"bob\0alice\0wrong", "Authentication failed: Invalid username or password"),
    ],
)
def test_others_are_refused_with_kafkas_text(token: bytes, text: str) -> None:
    exchange = Plain(USERS)
    with pytest.raises(AuthenticationFailed) as raised:
        exchange.evaluate(token, 0)
    assert str(raised.value) == text
    assert exchange.identity is None


@given(st.text().filter(lambda text: text != "secret"))
def test_no_other_password_is_taken(password: str) -> None:
    exchange = Plain(USERS)
    with pytest.raises(AuthenticationFailed):
        exchange.evaluate(b"\0alice\0" + password.encode(errors="surrogatepass"), 0)
    assert exchange.identity is None
