"""A small reader of DER, the encoding of certificates. Malformed DER raises ValueError."""

from collections.abc import Iterator
from typing import Final

_VERSION: Final = 0xA0
_FEWEST_FIELDS: Final = 5


def certificate_fields(certificate: bytes) -> list[bytes]:
    """The fields of a certificate without its version, which some lack: serial number, signature algorithm, issuer,
    validity, subject, and more."""
    _, body, _ = element(certificate, 0)
    fields = list(elements(element(body, 0)[1]))
    if fields and fields[0][0] == _VERSION:
        del fields[0]
    if len(fields) < _FEWEST_FIELDS:
        raise ValueError("a certificate has no subject")
    return [value for _, value in fields]


def elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and value of each element of a sequence."""
    position = 0
    while position < len(data):
        tag, value, position = element(data, position)
        yield tag, value


def element(data: bytes, position: int) -> tuple[int, bytes, int]:
    """Tag and value of the element at a position, and the position after it."""
    if position + 2 > len(data):
        raise ValueError("DER ends early")
    tag, length, start = data[position], data[position + 1], position + 2
    if length & 0x80:
        count = length & 0x7F
        if not 1 <= count <= 4:
            raise ValueError("DER has an impossible length")
        length, start = int.from_bytes(data[start : start + count], "big"), start + count
    if start + length > len(data):
        raise ValueError("DER ends early")
    return tag, data[start : start + length], start + length
