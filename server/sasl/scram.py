"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, KIP-84): four messages, as Kafka's ScramSaslServer reads and writes them.

The server has the keys of a credential, not its password, and an exchange ends with the credential that it began with.
A delegation token is a credential, too: its id is the user, its secret in base64 the password (KIP-48).
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from klamm.controller.metadata.scram_credentials import ScramCredential
from klamm.controller.transitions.scram import DIGESTS, MIN_ITERATIONS
from klamm.server.sasl.mechanism import AuthenticationFailed, CredentialsRefused, Identity, Malformed

MAX_MESSAGE_BYTES: Final = 16_384
"""The longest message of a client. Apache Kafka has no such limit."""
_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authorization>{_NAME}))?,(?P<bare>(?:m={_VALUE},)?n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})"
    rf"(?P<extensions>(?:,[A-Za-z]+={_VALUE})*))"
)
_FINAL: Final = re.compile(rf"(?P<unproven>c={_BASE64},r=(?P<nonce>{_PRINTABLE})),p=(?P<proof>{_BASE64})")


@dataclass(frozen=True, slots=True)
class Found:
    """A credential, and whose it is."""

    credential: ScramCredential
    identity: Identity


FindCredential = Callable[[str, bool], Found | None]
"""The credential by the name in an exchange; the flag says that it is the id of a delegation token."""


class Scram:
    """One exchange."""

    def __init__(self, mechanism: int, find: FindCredential, new_nonce: Callable[[], str]) -> None:
        """`mechanism` is the number in Kafka."""
        self.identity: Identity | None = None
        self._digest = DIGESTS[mechanism]
        self._find = find
        self._new_nonce = new_nonce
        self._found: Found | None = None
        self._nonce = ""
        self._so_far = ""
        """What client and server have said, as it is signed."""

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        """The answer to the client's first or final message."""
        if len(token) > MAX_MESSAGE_BYTES:
            raise CredentialsRefused
        text = token.decode(errors="replace")
        return self._begin(text) if self._found is None else self._end(text, self._found)

    def _begin(self, text: str) -> bytes:
        message = _FIRST.fullmatch(text)
        if message is None:
            raise CredentialsRefused
        name = _user(message["name"])
        found = self._find(name, _is_of_token(message["extensions"]))
        if found is None or found.credential.iterations < MIN_ITERATIONS:
            raise CredentialsRefused
        # Kafka compares with the name as it is escaped in the message.
        if message["authorization"] not in (None, name):
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self._found = found
        self._nonce = message["nonce"] + self._new_nonce()
        salt = base64.b64encode(found.credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={found.credential.iterations}"
        self._so_far = f"{message['bare']},{answer}"
        return answer.encode()

    def _end(self, text: str, found: Found) -> bytes:
        message = _FINAL.fullmatch(text)
        if message is None or not hmac.compare_digest(message["nonce"], self._nonce):
            raise CredentialsRefused
        signed = f"{self._so_far},{message['unproven']}".encode()
        credential, proof = found.credential, base64.b64decode(message["proof"])
        signature = hmac.digest(credential.stored_key, signed, self._digest)
        if len(proof) != len(signature):
            raise Malformed("a proof of another length than the digest's")
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(self._digest, client_key).digest(), credential.stored_key):
            raise CredentialsRefused
        self.identity = found.identity
        return b"v=" + base64.b64encode(hmac.digest(credential.server_key, signed, self._digest))


def _user(escaped: str) -> str:
    """The name behind an escaped one. Raises CredentialsRefused if it has another escape."""
    name = escaped.replace("=2C", ",")
    if "=" in name.replace("=3D", ""):
        raise CredentialsRefused
    return name.replace("=3D", "=")


def _is_of_token(extensions: str) -> bool:
    pairs = [extension.partition("=") for extension in extensions.split(",") if extension]
    return {name: value for name, _, value in pairs}.get("tokenauth", "").lower() == "true"
