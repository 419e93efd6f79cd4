"""Key stores of all types: made by keytool and openssl (tests/golden/security/certs/README.md)."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.server.tls.jks import JksError, decode_jks
from klamm.server.tls.stores import StoreError, decode_pem, decode_store

CERTS = Path(__file__).parents[2] / "golden" / "security" / "certs"
KEY = "-----BEGIN PRIVATE KEY-----"
STORE, OWN, TRUST = "store-secret", "key-secret", "trust-secret"


def blocks(text: str) -> list[str]:
    return text.replace("\n", "").replace("-----BEGIN", "\n-----BEGIN").split("\n")[1:]


@pytest.mark.parametrize(("file", "key_password"), [("server.jks", OWN), ("server.p12", None)])
def test_key_stores_have_the_key_and_its_certificates(file: str, key_password: str | None) -> None:
    found = decode_store((CERTS / file).read_bytes(), STORE, key_password)
    pem = decode_pem((CERTS / "server.pem").read_text())
    assert found.key is not None
    assert pem.key is not None
    assert blocks(found.key) == blocks(pem.key)
    assert blocks(found.chain[0]) == blocks(pem.chain[0])
    assert blocks(found.chain[-1]) == blocks((CERTS / "ca.crt").read_text())


@pytest.mark.parametrize("file", ["trust.jks", "trust.p12"])
def test_trust_stores_have_the_trusted_certificates_and_no_key(file: str) -> None:
    found = decode_store((CERTS / file).read_bytes(), TRUST, None)
    assert (found.key, found.chain) == (None, ())
    assert blocks("".join(found.trusted)) == blocks((CERTS / "ca.crt").read_text())


def test_a_trust_store_can_be_read_without_its_password() -> None:
    assert len(decode_store((CERTS / "trust.jks").read_bytes(), None, None).trusted) == 1


@pytest.mark.parametrize(
    ("file", "password", "key_password", "reason"),
    [
        ("server.jks", "wrong", OWN, "the password is wrong, or the file is damaged"),
        ("server.jks", STORE, "wrong", "the password of the key is wrong"),
        ("server.jks", STORE, None, "the password of the key is wrong"),
        ("server.p12", "wrong", None, "the password is wrong, or the file is no PKCS12 or JKS store"),
        ("server.pem", STORE, None, "the password is wrong, or the file is no PKCS12 or JKS store"),
    ],
)
def test_wrong_passwords_and_other_files_are_refused(
    file: str, password: str, key_password: str | None, reason: str
) -> None:
    with pytest.raises(StoreError) as refused:
        decode_store((CERTS / file).read_bytes(), password, key_password)
    assert str(refused.value) == reason


@given(st.binary(max_size=80), st.integers(0, 3_000))
def test_damaged_stores_are_refused(tail: bytes, cut: int) -> None:
    whole = (CERTS / "server.jks").read_bytes()
    for password in (STORE, None):
        try:
            decode_jks(whole[: min(cut, len(whole) - 1)] + tail, password, OWN)
        except JksError:
            continue
        assert password is None


def test_pem_has_its_parts_in_any_order() -> None:
    text = (CERTS / "server.pem").read_text()
    key, certificate = text[: text.index("-----BEGIN CERT")], text[text.index("-----BEGIN CERT") :]
    for order in (key + certificate, f"# note\n{certificate}{key}", text.replace("\n", "\r\n")):
        found = decode_pem(order)
        assert found.key is not None
        assert found.key.startswith(KEY)
        assert found.chain == found.trusted
        assert len(found.chain) == 1


def test_two_keys_are_too_many() -> None:
    with pytest.raises(StoreError, match="more than one private key"):
        decode_pem((CERTS / "server.pem").read_text() * 2)


def test_keys_are_not_printed() -> None:
    assert "PRIVATE" not in repr(decode_pem((CERTS / "server.pem").read_text()))
    assert "PRIVATE" not in repr(decode_store((CERTS / "server.jks").read_bytes(), STORE, OWN))
