"""When a certificate is valid, at the edges, and hostile DER."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as some

from klamm.server.tls.stores import StoreError
from klamm.server.tls.validity import refuse_invalid_chain, refuse_invalid_trust
from tests.server.tls.test_names import element

UTC_TIME, GENERALIZED = 0x17, 0x18
SECOND = timedelta(seconds=1)


def certificate(validity: bytes) -> str:
    """As much of a certificate as has a subject, as PEM."""
    before = element(0x02, b"\1") + element(0x30, b"") + element(0x30, b"")
    der = element(0x30, element(0x30, before + element(0x30, validity) + element(0x30, b"")))
    return f"-----BEGIN CERTIFICATE-----\n{base64.encodebytes(der).decode()}-----END CERTIFICATE-----"


def valid(first: str, last: str, tag: int = GENERALIZED) -> str:
    return certificate(element(tag, first.encode()) + element(tag, last.encode()))


FIRST, LAST = datetime(2030, 6, 1, 12, tzinfo=UTC), datetime(2031, 6, 1, 12, tzinfo=UTC)
ONE = valid("20300601120000Z", "20310601120000Z")
SHORT = valid("300601120000Z", "310601120000Z", UTC_TIME)


@pytest.mark.parametrize("pem", [ONE, SHORT])
def test_both_edges_are_valid(pem: str) -> None:
    for now in (FIRST, LAST):
        refuse_invalid_chain([pem], now)
    with pytest.raises(StoreError, match=r"is not valid before 2030-06-01 12:00:00 UTC"):
        refuse_invalid_chain([pem], FIRST - SECOND)
    with pytest.raises(StoreError, match=r"expired on 2031-06-01 12:00:00 UTC"):
        refuse_invalid_chain([pem], LAST + SECOND)


def test_short_years_are_those_from_1950_to_2049() -> None:
    pem = valid("500101000000Z", "491231235959Z", UTC_TIME)
    refuse_invalid_chain([pem], datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC))
    refuse_invalid_chain([pem], datetime(1950, 1, 1, tzinfo=UTC))
    for now in (datetime(1949, 12, 31, tzinfo=UTC), datetime(2050, 1, 1, tzinfo=UTC)):
        with pytest.raises(StoreError):
            refuse_invalid_chain([pem], now)


def test_every_certificate_of_a_chain_has_to_be_valid_and_one_that_is_trusted() -> None:
    past, future = valid("20000101000000Z", "20010101000000Z"), valid("20400101000000Z", "99991231235959Z")
    for other in (past, future):
        with pytest.raises(StoreError):
            refuse_invalid_chain([ONE, other], FIRST)
        refuse_invalid_trust([other, ONE], FIRST)
    with pytest.raises(StoreError, match=r"no trusted certificate is valid: .* expired on 2001-01-01 00:00:00 UTC"):
        refuse_invalid_trust([past, future], FIRST)
    refuse_invalid_trust([], FIRST)


@given(some.binary(max_size=80), some.sampled_from([UTC_TIME, GENERALIZED, 0x0C]))
def test_what_is_no_validity_cannot_be_read(noise: bytes, tag: int) -> None:
    for validity in (noise, element(tag, noise) * 2, element(tag, noise)):
        with pytest.raises(StoreError):
            refuse_invalid_chain([certificate(validity)], FIRST)
