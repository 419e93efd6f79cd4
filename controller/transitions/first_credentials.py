"""The SCRAM credentials that a new metadata log begins with, from arguments in the form of `kafka-storage format
--add-scram`: `SCRAM-SHA-256=[name=alice,password=secret,iterations=8192]`.

What is taken and what is refused is that of Kafka 4.3's ScramParser, but for an empty name. Errors have no values of
the argument, because these are secrets.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from klamm.controller.log_records import Record
from klamm.controller.transitions.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SCRAM_NAMES,
    credential_of,
    credential_record,
    salted,
)

MAX_SALT_BYTES: Final = 1_024
_NEW_SALT_BYTES: Final = 20
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,10}")
_SETTINGS: Final = ("iterations", "name", "password", "salt", "saltedpassword")


@dataclass(frozen=True, slots=True)
class FirstCredential:
    """One argument."""

    name: str
    mechanism: int
    iterations: int
    salt: bytes | None = field(repr=False)
    """None: a new one."""
    password: str | None = field(repr=False)
    salted_password: bytes | None = field(repr=False)
    """Given in place of the password."""


def decode_first_credential(text: str) -> FirstCredential:
    """The credential of one argument. Raises ValueError with a clause for users."""
    mechanism, pairs = _split(text.strip())
    name, password = pairs.get("name"), pairs.get("password")
    if name is None:
        raise ValueError("name is missing")
    if not name:
        raise ValueError("the name is empty")
    salt = None if "salt" not in pairs else _bytes("salt", pairs["salt"])
    if salt is not None and len(salt) > MAX_SALT_BYTES:
        raise ValueError(f"the salt has more than {MAX_SALT_BYTES} bytes")
    iterations = _iterations(pairs.get("iterations"))
    salted_password = None
    if password is None:
        if "saltedpassword" not in pairs:
            raise ValueError("password or saltedpassword is missing")
        if salt is None:
            raise ValueError("saltedpassword needs salt")
        salted_password = _bytes("saltedpassword", pairs["saltedpassword"])
    if not (salted_password if password is None else password):
        raise ValueError("the password is empty")
    if unknown := pairs.keys() - set(_SETTINGS):
        raise ValueError(f"{len(unknown)} unknown; the settings are {', '.join(_SETTINGS)}")
    return FirstCredential(name, mechanism, iterations, salt, password, salted_password)


def _split(text: str) -> tuple[int, dict[str, str]]:
    """The number of the mechanism, and the settings in brackets; the last one of a name counts."""
    mechanism, equals, rest = text.partition("=")
    if not equals:
        raise ValueError("MECHANISM=[…] is expected")
    if mechanism not in SCRAM_NAMES:
        raise ValueError(f"the mechanism must be {' or '.join(SCRAM_NAMES)}")
    if not (len(rest) > 1 and rest.startswith("[") and rest.endswith("]")):
        raise ValueError("[…] is expected behind the mechanism")
    # As in Java, empty parts at the end do not count, and quotes do not protect a comma.
    parts = rest[1:-1].rstrip(",").split(",")
    pairs = {}
    for number, part in enumerate(parts, start=1):
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"part {number} has no '='")
        pairs[name] = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
    return SCRAM_NAMES[mechanism], pairs


def _iterations(text: str | None) -> int:
    if text is None:
        return MIN_ITERATIONS
    if not _NUMBER.fullmatch(text) or not MIN_ITERATIONS <= int(text) <= MAX_ITERATIONS:
        raise ValueError(f"iterations must be {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    return int(text)


def _bytes(what: str, text: str) -> bytes:
    """The bytes in base64, whose padding may be missing as in Java."""
    if "=" in text and len(text) % 4:
        raise ValueError(f"{what} is not base64")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        raise ValueError(f"{what} is not base64") from None


def first_credentials(arguments: Iterable[str], new_bytes: Callable[[int], bytes]) -> list[Record]:
    """The records for a new log, of arguments that have been checked. `new_bytes` makes salts."""
    records: list[Record] = []
    for one in map(decode_first_credential, arguments):
        salt = new_bytes(_NEW_SALT_BYTES) if one.salt is None else one.salt
        secret = one.salted_password
        if secret is None:
            assert one.password is not None, "one of the two is given"
            secret = salted(one.mechanism, one.password.encode(), salt, one.iterations)
        records.append(
            credential_record(one.name, one.mechanism, credential_of(one.mechanism, secret, salt, one.iterations))
        )
    return records
