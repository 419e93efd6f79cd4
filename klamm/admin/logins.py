"""The client's side of SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER, as exchanges of tokens without I/O.

The messages are those of Kafka's clients. A broker has to prove in SCRAM that it has the credential, too.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from typing import Final

from klamm.admin.security import Login, LoginFailed, LoginSteps

DIGESTS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 1_000_000
"""A broker that asks for more is refused, because a client would compute for seconds."""
_SERVER_FIRST: Final = re.compile(
    r"(?:m=[^,]*,)?r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[^,]*),i=(?P<count>\d{1,9})(?:,.*)?"
)
_ACKNOWLEDGED: Final = b"\x01"


def plain_login(user: str, password: str) -> Login:
    """PLAIN (RFC 4616)."""

    def steps() -> LoginSteps:
        yield f"\0{user}\0{password}".encode()

    return Login("PLAIN", steps)


def scram_login(mechanism: str, user: str, password: str, *, is_token: bool = False) -> Login:
    """SCRAM (RFC 5802). `is_token`: the user is the id of a delegation token, the password its HMAC in base64."""

    def steps() -> LoginSteps:
        nonce = secrets.token_urlsafe(24)
        name = user.replace("=", "=3D").replace(",", "=2C")
        bare = f"n={name},r={nonce}" + (",tokenauth=true" if is_token else "")
        server_first = (yield f"n,,{bare}".encode()).decode(errors="replace")
        found = _SERVER_FIRST.fullmatch(server_first)
        if found is None or not found["nonce"].startswith(nonce) or found["nonce"] == nonce:
            raise LoginFailed(f"the broker's first message is none of {mechanism}")
        if not MIN_ITERATIONS <= int(found["count"]) <= MAX_ITERATIONS:
            limits = f"{MIN_ITERATIONS} to {MAX_ITERATIONS}"
            raise LoginFailed(f"the broker asks for {found['count']} iterations, {limits} are expected")
        unproven = f"c=biws,r={found['nonce']}"
        signed = f"{bare},{server_first},{unproven}".encode()
        digest = DIGESTS[mechanism]
        salted = hashlib.pbkdf2_hmac(digest, password.encode(), _bytes(found["salt"]), int(found["count"]))
        key = hmac.digest(salted, b"Client Key", digest)
        signature = hmac.digest(hashlib.new(digest, key).digest(), signed, digest)
        proof = base64.b64encode(bytes(one ^ other for one, other in zip(key, signature, strict=True))).decode()
        server_final = yield f"{unproven},p={proof}".encode()
        proved = base64.b64encode(hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest))
        if not hmac.compare_digest(server_final.split(b",")[0], b"v=" + proved):
            raise LoginFailed("the broker does not have the credential of the user")

    return Login(mechanism, steps)


def bearer_login(new_token: Callable[[], str]) -> Login:
    """OAUTHBEARER (RFC 7628). `new_token` returns the token of each login, and may raise LoginFailed."""

    def steps() -> LoginSteps:
        if (yield f"n,,\x01auth=Bearer {new_token()}\x01\x01".encode()):
            # The answer says why the token is refused. The broker fails after this message, with the same text.
            yield _ACKNOWLEDGED
            raise LoginFailed("the broker refused the token")

    return Login("OAUTHBEARER", steps)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise LoginFailed("the broker's salt is not base64") from None
