"""PLAIN (RFC 4616): authorization id, user and password in one token, separated by NUL; texts as in Kafka's
PlainSaslServer. The users are those of the login module's options, `user_NAME="PASSWORD"`.
"""

import hmac
from collections.abc import Mapping
from typing import Final

from klamm.server.sasl.mechanism import AuthenticationFailed, Identity

_PARTS: Final = 3
_COUNTED_PARTS: Final = 4
"""Kafka counts no further."""
_REFUSED: Final = "Authentication failed: Invalid username or password"


class Plain:
    """One exchange of PLAIN, which has one token."""

    def __init__(self, users: Mapping[str, str]) -> None:
        """`users`: the passwords by user."""
        self._users = users
        self.identity: Identity | None = None

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        """The empty answer to a correct token."""
        # Java decodes invalid UTF-8 to U+FFFD, too.
        parts = token.decode(errors="replace").split("\0", _COUNTED_PARTS)[:_COUNTED_PARTS]
        if len(parts) != _PARTS:
            raise AuthenticationFailed(f"Invalid SASL/PLAIN response: expected {_PARTS} tokens, got {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            raise AuthenticationFailed("Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailed("Authentication failed: password not specified")
        if not self._is_password_of(user, password):
            raise AuthenticationFailed(_REFUSED)
        if authorization_id not in ("", user):
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.identity = Identity(user)
        return b""

    def _is_password_of(self, user: str, password: str) -> bool:
        # The same comparison for unknown users, so that the time does not tell which users exist.
        is_equal = hmac.compare_digest(self._users.get(user, password).encode(), password.encode())
        return is_equal and user in self._users
