"""The names of certificates, as X500Principal.getName() of JDK 17 prints them (java_names.tsv), and hostile DER."""

import ssl
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.server.tls.names import subject_name

HERE = Path(__file__).parent
CERTS = HERE.parents[1] / "golden" / "security" / "certs"
ROWS = [line.split("\t") for line in (HERE / "java_names.tsv").read_text(encoding="utf-8").splitlines()[1:]]


def element(tag: int, content: bytes) -> bytes:
    length = len(content)
    if length < 0x80:
        return bytes([tag, length]) + content
    octets = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(octets)]) + octets + content


def certificate(subject: bytes, *, has_version: bool = True) -> bytes:
    """As much of a certificate as has a subject."""
    version = element(0xA0, element(0x02, b"\2")) if has_version else b""
    before = element(0x02, b"\1") + element(0x30, b"") + element(0x30, b"") + element(0x30, b"")
    return element(0x30, element(0x30, version + before + subject))


@pytest.mark.parametrize(("subject", "name"), ROWS, ids=[name for _, name in ROWS])
def test_names_are_those_of_java(subject: str, name: str) -> None:
    for has_version in (True, False):
        assert subject_name(certificate(bytes.fromhex(subject), has_version=has_version)) == name


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("alice.pem", "CN=Alice,OU=Engineering,O=Klamm,L=Vienna,C=AT"),
        ("service.pem", "CN=svc-1,OU=Services,O=Klamm\\, Inc.,C=DE"),
        ("nocn.pem", "OU=Engineering,O=Klamm"),
        ("ca.crt", "O=Klamm,CN=Klamm Test CA"),
    ],
)
def test_names_of_whole_certificates(file: str, name: str) -> None:
    text = (CERTS / file).read_text()
    der = ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE") :])
    assert subject_name(der) == name


def test_strings_of_other_encodings() -> None:
    def named(value: bytes) -> bytes:
        return element(0x30, element(0x31, element(0x30, element(0x06, bytes.fromhex("550403")) + value)))

    assert subject_name(certificate(named(element(0x1E, "Zoë".encode("utf-16-be"))))) == "CN=Zoë"
    assert subject_name(certificate(named(element(0x16, b"a\0b")))) == "CN=a\\00b"
    assert subject_name(certificate(named(element(0x02, b"\7")))) == "CN=#020107"


@pytest.mark.parametrize(
    ("oid", "shown"),
    [("27", "0.39"), ("28", "1.0"), ("4f", "1.39"), ("50", "2.0"), ("883703", "2.999.3"), ("2a864806", "1.2.840.6")],
)
def test_types_without_a_keyword_are_numbers(oid: str, shown: str) -> None:
    attribute = element(0x30, element(0x06, bytes.fromhex(oid)) + element(0x0C, b"x"))
    assert subject_name(certificate(element(0x30, element(0x31, attribute)))) == f"{shown}=#0c0178"


@given(st.binary(max_size=60), st.integers(0, 200))
def test_malformed_der_is_refused(tail: bytes, cut: int) -> None:
    whole = certificate(bytes.fromhex(ROWS[0][0]))
    for data in (whole[:cut] + tail, tail):
        try:
            subject_name(data)
        except ValueError:
            continue
