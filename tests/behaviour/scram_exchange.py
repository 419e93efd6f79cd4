"""The client's side of a recorded SCRAM exchange: its final message is computed, and may be bent as the step says."""

import base64
import hashlib
import hmac
import re

DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class ScramExchange:
    """One exchange, from the client's first message on."""

    def __init__(self, first: bytes, mechanism: str) -> None:
        self._digest = DIGESTS[mechanism]
        begun = re.match(r"([^,]*,[^,]*,)(.*)", first.decode(), re.DOTALL)
        self._gs2, self.bare = (begun[1], begun[2]) if begun else ("n,,", first.decode())
        nonce = re.search(r"r=([^,]*)", self.bare)
        self.nonce = nonce[1] if nonce else ""
        self.server_first = ""
        self._signed = self._salted = b""

    def final(
        self,
        password: str,
        *,
        c: str | None = None,
        r: str | None = None,
        r_more: str = "",
        extra: str = "",
        proof: str | None = None,
        drop_proof: bool = False,
    ) -> bytes:
        fields = dict(part.split("=", 1) for part in self.server_first.split(","))
        channel = base64.b64encode(self._gs2.encode()).decode() if c is None else c
        unproven = f"c={channel},r={fields['r'] if r is None else r}{r_more}{extra}"
        self._signed = f"{self.bare},{self.server_first},{unproven}".encode()
        salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
        self._salted = hashlib.pbkdf2_hmac(self._digest, password.encode(), salt, iterations)
        key = hmac.digest(self._salted, b"Client Key", self._digest)
        signature = hmac.digest(hashlib.new(self._digest, key).digest(), self._signed, self._digest)
        right = base64.b64encode(bytes(one ^ other for one, other in zip(key, signature, strict=True))).decode()
        return (unproven if drop_proof else f"{unproven},p={right if proof is None else proof}").encode()

    def shown(self, token: bytes) -> str:
        """The server's message, with names for its nonce, its right signature and the salt of a token."""
        text = token.decode()
        if text.startswith("r="):
            self.server_first = text
            if text.startswith(f"r={self.nonce}"):
                text = re.sub(f"^r={re.escape(self.nonce)}[^,]+", f"r={self.nonce}<nonce>", text)
            return re.sub(",s=[^,]+", ",s=<salt>", text) if "tokenauth=true" in self.bare else text
        signature = hmac.digest(hmac.digest(self._salted, b"Server Key", self._digest), self._signed, self._digest)
        return "v=<signature>" if text == f"v={base64.b64encode(signature).decode()}" else text
