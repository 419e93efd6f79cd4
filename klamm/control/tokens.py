"""The token of a control interface that other machines can reach, and the variables of its clients. The standard
library alone."""

import secrets
from pathlib import Path
from typing import Final

TOKEN_VARIABLE: Final = "KLAMM_CONTROL_TOKEN"
"""The variable with the token, for clients of the control interface."""
CA_VARIABLE: Final = "KLAMM_CONTROL_CA"
"""The variable with the file of the certificates that clients of the control interface trust."""
NEW_BYTES: Final = 24
FEWEST_CHARACTERS, MOST_CHARACTERS = 16, 256


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(NEW_BYTES)


def read_token(path: Path) -> str:
    """The token in the first line of a file. Raises ValueError with a clause."""
    try:
        with path.open(encoding="ascii") as file:
            token = file.readline(MOST_CHARACTERS + 2).strip()
    except OSError as error:
        raise ValueError(f"control token {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ValueError(f"control token {path}: it is not ASCII") from None
    return checked_token(token, f"control token {path}")


def checked_token(token: str, what: str) -> str:
    """The token, if it can be sent in a header. Raises ValueError with a clause, which does not show the token."""
    if not FEWEST_CHARACTERS <= len(token) <= MOST_CHARACTERS:
        raise ValueError(f"{what}: {FEWEST_CHARACTERS} to {MOST_CHARACTERS} characters are expected")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(f"{what}: letters, digits and punctuation are expected")
    return token
