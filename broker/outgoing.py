"""Requests of simulated brokers to real ones, which run in other processes.

The broker room knows no sockets: it leaves a request here, and the server sends it (`klamm.server.outgoing`) and calls
back with the answer. What waits is bounded; a request beyond it fails at once, as one that gets no answer.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from klamm.protocol.api import Api
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.quick_dataclasses import dataclass

MAX_WAITING: Final = 10_000
"""The most requests that wait for an answer, of all brokers."""
Answered: TypeAlias = Callable[[Any], None]
"""Gets the answer; None: there is none."""


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request to a real broker, in the newest version of the API that the broker knows, too."""

    broker_id: int
    api: Api[Any, Any]
    body: Message
    answered: Answered


class Outgoing:
    """The requests that the server has to send."""

    def __init__(self) -> None:
        self.send: Callable[[OutgoingRequest], None] | None = None
        """Begins to send a request. Set by the server; None: there is no server."""
        self._waiting = 0

    def ask(self, broker_id: int, api: Api[Any, Any], body: Message, answered: Answered) -> None:
        """Send a request; `answered` is called once, at once if it cannot be sent."""
        if self.send is None or self._waiting >= MAX_WAITING:
            answered(None)
            return
        self._waiting += 1

        def done(answer: Any) -> None:
            self._waiting -= 1
            answered(answer)

        self.send(OutgoingRequest(broker_id, api, body, done))


def error_of(code: int) -> ErrorCode:
    """The error that an answer names; as in Java, an unknown one is UNKNOWN_SERVER_ERROR."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
