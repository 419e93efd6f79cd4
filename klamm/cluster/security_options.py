"""The options `security`, `users` and `add_scram`: checked, without a password in any error."""

import re
from collections.abc import Mapping, Sequence

from klamm.console.shown import shown

SECURITY_PROTOCOLS = ("ssl", "sasl_plaintext", "sasl_ssl")
MAX_ADDED_CREDENTIALS = 1_000
"""Each takes some milliseconds of a start."""
_USER = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


def checked_security(protocol: object) -> str:
    """The name of a security protocol."""
    if protocol not in SECURITY_PROTOCOLS:
        raise ValueError(f"security {shown(protocol)}: one of {', '.join(SECURITY_PROTOCOLS)} is expected")
    return str(protocol)


def checked_users(users: object) -> tuple[tuple[str, str], ...]:
    """Users with their passwords, if each name can be that of a file and of a certificate. No error has a password."""
    if not isinstance(users, Mapping):
        raise ValueError('users: a mapping of names to passwords is expected, such as {"alice": "secret"}')
    for name, password in users.items():
        if not isinstance(name, str) or not _USER.fullmatch(name):
            raise ValueError(f"user {shown(name)}: up to 64 letters, digits and _.- are expected, a letter first")
        if not isinstance(password, str) or not password or not password.isprintable():
            raise ValueError(f"user {name}: a password of printable characters is expected")
    return tuple(users.items())


def decode_user(text: str) -> tuple[str, str]:
    """The user and the password in NAME:PASSWORD."""
    name, colon, password = text.partition(":")
    if not colon:
        raise ValueError("NAME:PASSWORD is expected")
    return checked_users({name: password})[0]


def checked_add_scram(arguments: object) -> tuple[str, ...]:
    """The arguments, if each is one of `kafka-storage format --add-scram`. No error has a password."""
    if isinstance(arguments, str) or not isinstance(arguments, Sequence):
        raise ValueError(
            'SCRAM credentials: a sequence is expected, such as ("SCRAM-SHA-256=[name=alice,password=secret]",)'
        )
    if len(arguments) > MAX_ADDED_CREDENTIALS:
        raise ValueError(f"SCRAM credentials: at most {MAX_ADDED_CREDENTIALS} credentials can be added")
    return tuple(map(decode_add_scram, arguments))


def decode_add_scram(text: object) -> str:
    """The argument, if it can be read."""
    if not isinstance(text, str):
        raise ValueError("SCRAM credential: MECHANISM=[name=…,password=…] is expected")
    from klamm.controller.transitions.first_credentials import decode_first_credential

    try:
        decode_first_credential(text)
    except ValueError as error:
        raise ValueError(f"SCRAM credential: {error}") from None
    return text
