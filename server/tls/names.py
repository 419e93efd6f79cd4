"""The subject of a certificate as text, as Java's X500Principal prints it (RFC 2253): the last part first, escaped.

The certificate has been verified before. Malformed DER raises ValueError.
"""

from collections.abc import Iterator
from typing import Final

from klamm.server.tls.der import certificate_fields, element, elements

_OID: Final = 0x06
_SUBJECT: Final = 4
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The attributes with a keyword in RFC 2253. Java prints others by number, with the bytes of their value."""
_STRINGS: Final = {0x0C: "utf-8", 0x13: "latin-1", 0x14: "latin-1", 0x16: "latin-1", 0x1E: "utf-16-be"}
"""The encodings of strings: UTF8, Printable, T61, IA5 and BMP."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')


def subject_name(certificate: bytes) -> str:
    """The subject of a certificate in DER. Raises ValueError."""
    parts = [
        "+".join(map(_printed, _attributes(part))) for _, part in elements(certificate_fields(certificate)[_SUBJECT])
    ]
    return ",".join(reversed(parts))


def _attributes(part: bytes) -> Iterator[tuple[str, bytes]]:
    """The number of each attribute of one part, and its value with tag and length."""
    for _, attribute in elements(part):
        tag, oid, end = element(attribute, 0)
        if tag != _OID:
            raise ValueError("an attribute has no type")
        yield _dotted(oid), attribute[end:]


def _printed(attribute: tuple[str, bytes]) -> str:
    oid, encoded = attribute
    tag, value, _ = element(encoded, 0)
    keyword, encoding = _KEYWORDS.get(oid), _STRINGS.get(tag)
    if keyword is None or encoding is None:
        return f"{keyword or oid}=#{encoded.hex()}"
    return f"{keyword}={_escaped(value.decode(encoding, 'replace'))}"


def _escaped(text: str) -> str:
    escaped = "".join(f"\\{one}" if one in _ESCAPED else "\\00" if one == "\0" else one for one in text)
    leading = len(escaped) - len(escaped.lstrip(" "))
    trailing = len(escaped) - len(escaped.rstrip(" ")) if leading < len(escaped) else 0
    middle = escaped[leading : len(escaped) - trailing]
    return "\\ " * leading + middle + "\\ " * trailing


def _dotted(oid: bytes) -> str:
    numbers: list[int] = []
    value = 0
    for byte in oid:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    if not numbers:
        raise ValueError("an attribute has an empty type")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
