"""The numbers of SCRAM (RFC 5802): mechanisms, iterations, and the keys that follow from a salted password."""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from klamm.controller.metadata.scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512, ScramCredential
from klamm.protocol.records.security import UserScramCredentialRecord

DIGESTS: Final[Mapping[int, str]] = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
"""The digest of each mechanism, by its number in Kafka."""
SCRAM_NAMES: Final[Mapping[str, int]] = {"SCRAM-SHA-256": SCRAM_SHA_256, "SCRAM-SHA-512": SCRAM_SHA_512}
"""The number of each mechanism by its name in SASL."""
MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 16_384


def credential_of(mechanism: int, salted_password: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """What a server keeps of a salted password."""
    digest = DIGESTS[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", digest)
    return ScramCredential(
        salt=salt,
        iterations=iterations,
        stored_key=hashlib.new(digest, client_key).digest(),
        server_key=hmac.digest(salted_password, b"Server Key", digest),
    )


def credential_record(user: str, mechanism: int, credential: ScramCredential) -> UserScramCredentialRecord:
    """The record of a user's credential."""
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def salted(mechanism: int, password: bytes, salt: bytes, iterations: int) -> bytes:
    """The salted password."""
    return hashlib.pbkdf2_hmac(DIGESTS[mechanism], password, salt, iterations)
