"""The client's side of SCRAM (RFC 5802), whose messages a test may bend."""

import base64
import hashlib
import hmac
from dataclasses import dataclass

DIGESTS = {1: "sha256", 2: "sha512"}


@dataclass
class ScramClient:
    """One exchange."""

    user: str
    password: str
    mechanism: int = 1
    nonce: str = "client-nonce"
    gs2: str = "n,,"
    extensions: str = ""

    def first(self) -> bytes:
        self.bare = f"n={self.user},r={self.nonce}{self.extensions}"
        return f"{self.gs2}{self.bare}".encode()

    def final(self, server_first: bytes, nonce: str | None = None, proof: bytes | None = None) -> bytes:
        digest = DIGESTS[self.mechanism]
        fields = dict(part.split("=", 1) for part in server_first.decode().split(","))
        channel = base64.b64encode(self.gs2.encode()).decode()
        unproven = f"c={channel},r={fields['r'] if nonce is None else nonce}"
        self.signed = f"{self.bare},{server_first.decode()},{unproven}".encode()
        salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
        self.salted = hashlib.pbkdf2_hmac(digest, self.password.encode(), salt, iterations)
        client_key = hmac.new(self.salted, b"Client Key", digest).digest()
        signature = hmac.new(hashlib.new(digest, client_key).digest(), self.signed, digest).digest()
        if proof is None:
            proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        return f"{unproven},p={base64.b64encode(proof).decode()}".encode()

    def is_signed(self, server_final: bytes) -> bool:
        """Whether the server has proved that it knows the credential."""
        digest = DIGESTS[self.mechanism]
        server_key = hmac.new(self.salted, b"Server Key", digest).digest()
        return server_final == b"v=" + base64.b64encode(hmac.new(server_key, self.signed, digest).digest())
