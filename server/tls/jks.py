"""Java's key stores of type JKS: their keys and certificates, read with the standard library alone.

The format has no specification; this follows what JDK's keytool writes. The store has a digest that needs its password,
and each key is encrypted by a stream of SHA-1 digests, which is Java's own and weak. Never written.
"""

import hashlib
import hmac
import struct
from dataclasses import dataclass, field
from typing import Final

MAGIC: Final = b"\xfe\xed\xfe\xed"
_VERSIONS: Final = (1, 2)
_KEY, _TRUSTED = 1, 2
_WHITENER: Final = b"Mighty Aphrodite"
_DIGEST_BYTES: Final = 20
# The algorithm 1.3.6.1.4.1.42.2.17.1.1 with NULL parameters, as keytool writes it before each encrypted key.
_PROTECTED: Final = bytes.fromhex("300e060a2b060104012a021101010500")


class JksError(ValueError):
    """A store that cannot be read. The text is one clause without secrets."""


@dataclass(slots=True)
class JksStore:
    """The contents of a store, in DER."""

    keys: list[tuple[bytes, list[bytes]]] = field(default_factory=list, repr=False)
    """Private keys (PKCS #8), each with its certificate chain."""
    trusted: list[bytes] = field(default_factory=list)


def decode_jks(data: bytes, password: str | None, key_password: str | None) -> JksStore:
    """The contents of a store. Without a password its digest is not compared, as in Java, and keys cannot be read.
    Raises JksError."""
    if password is not None:
        whole = hashlib.sha1(_utf16(password) + _WHITENER + data[:-_DIGEST_BYTES], usedforsecurity=False).digest()
        if not hmac.compare_digest(whole, data[-_DIGEST_BYTES:]):
            raise JksError("the password is wrong, or the file is damaged")
    try:
        return _Reader(data[:-_DIGEST_BYTES]).store(key_password if key_password is not None else password)
    except (struct.error, IndexError, UnicodeDecodeError):
        raise JksError("the file is damaged") from None


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def store(self, password: str | None) -> JksStore:
        if self._take(4) != MAGIC or self._number(">I") not in _VERSIONS:
            raise JksError("the file is no JKS store")
        store = JksStore()
        for _ in range(self._number(">I")):
            kind = self._number(">I")
            self._take(self._number(">H"))  # the alias
            self._take(8)  # the time of its creation
            if kind == _KEY:
                encrypted = self._take(self._number(">I"))
                chain = [self._certificate() for _ in range(self._number(">I"))]
                if password is not None:
                    store.keys.append((_decrypted(encrypted, password), chain))
            elif kind == _TRUSTED:
                store.trusted.append(self._certificate())
            else:
                raise JksError("the file has an entry of an unknown kind")
        return store

    def _certificate(self) -> bytes:
        self._take(self._number(">H"))  # its type, X.509
        return self._take(self._number(">I"))

    def _number(self, form: str) -> int:
        return int(struct.unpack(form, self._take(struct.calcsize(form)))[0])

    def _take(self, count: int) -> bytes:
        taken = self._data[self._position : self._position + count]
        if len(taken) < count:
            raise JksError("the file is damaged")
        self._position += count
        return taken


def _decrypted(encrypted: bytes, password: str) -> bytes:
    start = encrypted.find(_PROTECTED)
    if start < 0:
        raise JksError("a key is encrypted in an unknown way")
    # After the algorithm: an octet string with salt, key and digest.
    position = start + len(_PROTECTED)
    position += 2 + (encrypted[position + 1] & 0x7F if encrypted[position + 1] & 0x80 else 0)
    protected = encrypted[position:]
    salt, body, digest = protected[:_DIGEST_BYTES], protected[_DIGEST_BYTES:-_DIGEST_BYTES], protected[-_DIGEST_BYTES:]
    secret, stream, block = _utf16(password), b"", salt
    while len(stream) < len(body):
        block = hashlib.sha1(secret + block, usedforsecurity=False).digest()
        stream += block
    key = bytes(one ^ other for one, other in zip(body, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key, usedforsecurity=False).digest(), digest):
        raise JksError("the password of the key is wrong")
    return key


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")
