"""When certificates are valid: a listener whose own certificate no client accepts is refused before it opens."""

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from klamm.protocol.printable import printable
from klamm.server.tls.der import certificate_fields, elements
from klamm.server.tls.names import subject_name
from klamm.server.tls.stores import StoreError

_VALIDITY: Final = 3
_UTC_TIME: Final = 0x17
_FORMS: Final = {_UTC_TIME: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
"""UTCTime and GeneralizedTime, as RFC 5280 restricts them."""
_FIRST_YEAR, _CENTURY = 1950, 100
"""UTCTime is for the century from 1950 on; Python reads the years 50 to 68 as those after 2000."""


def refuse_invalid_chain(chain: Sequence[str], now: datetime) -> None:
    """Raise StoreError if a certificate, in PEM, has expired or is not valid yet."""
    for pem in chain:
        name, first, last = _read(pem)
        if now > last:
            raise StoreError(f"the certificate of {name} expired on {_shown(last)}")
        if now < first:
            raise StoreError(f"the certificate of {name} is not valid before {_shown(first)}")


def refuse_invalid_trust(trusted: Sequence[str], now: datetime) -> None:
    """Raise StoreError if none of the trusted certificates is valid: no client could be authenticated."""
    faults = []
    for pem in trusted:
        try:
            refuse_invalid_chain([pem], now)
        except StoreError as fault:
            faults.append(str(fault))
        else:
            return
    if faults:
        raise StoreError(f"no trusted certificate is valid: {faults[0]}")


def _read(pem: str) -> tuple[str, datetime, datetime]:
    """The subject of a certificate, and when its validity begins and ends."""
    try:
        der = ssl.PEM_cert_to_DER_cert(pem.strip())
        first, last = (_time(tag, value.decode("ascii")) for tag, value in elements(certificate_fields(der)[_VALIDITY]))
        return printable(subject_name(der)), first, last
    except (ValueError, KeyError):
        raise StoreError("a certificate cannot be read") from None


def _time(tag: int, text: str) -> datetime:
    found = datetime.strptime(text, _FORMS[tag]).replace(tzinfo=UTC)
    if tag == _UTC_TIME and found.year >= _FIRST_YEAR + _CENTURY:
        found = found.replace(year=found.year - _CENTURY)
    return found


def _shown(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC")
