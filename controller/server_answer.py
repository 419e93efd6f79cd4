"""Answers that the core decides and the server completes: with bytes of the metadata log, or with another answer.

The core never reads the files of its log, and never decides a request inside of another one. A handler of such a
request returns one of these objects as its response. The server (`klamm.server.server_answers`) sets `response`, and
`Controller.try_complete` finds it there.
"""

from collections.abc import Callable, Collection
from typing import Final

from klamm.controller.delayed_answer import Key
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata_log_reader import MetadataLogReader
from klamm.controller.observers import ObserverFetch
from klamm.protocol.fields import Message
from klamm.quick_dataclasses import dataclass

_NEVER: Final = 2**63 - 1


class ServerAnswer:
    """A `DelayedAnswer` without a key: only the server completes it."""

    keys: Collection[Key] = ()
    retry_at_ms = _NEVER

    def __init__(self) -> None:
        self.response: Message | None = None
        """The response. Set by the server."""

    def try_complete(self, _image: MetadataImage, _now_ms: int) -> Message | None:
        return self.response


@dataclass(frozen=True, slots=True)
class LogPart:
    """What `LogAnswer.read` has found."""

    response: Message
    end_offset: int
    """The durable end of the log that `read` saw."""
    is_final: bool = True
    """Whether the response can be sent now. If not, the server waits until the log is longer than `end_offset`, or
    until `wait_ms` have passed, and then reads again."""
    fetched: ObserverFetch | None = None
    """The fetch of the observer that asked, if its log is a beginning of this one."""
    warning: str = ""
    """Why the operator should look at the broker that asked; empty: there is no reason."""


class LogAnswer(ServerAnswer):
    """An answer with bytes of the metadata log. The server may call `read` several times, and in a thread."""

    def __init__(self, read: Callable[[MetadataLogReader], LogPart], wait_ms: int = 0) -> None:
        """`wait_ms` is how long the server may wait while `read` finds nothing new."""
        super().__init__()
        self.read = read
        self.wait_ms = wait_ms


class Forwarded(ServerAnswer):
    """The answer to a request that a broker has forwarded for its client (KIP-590)."""

    def __init__(self, frame: bytes, principal: bytes | None, client_address: bytes) -> None:
        super().__init__()
        self.frame = frame
        """The embedded request with its header, without a size."""
        self.principal = principal
        """The principal of the broker's client, as the broker wrote it."""
        self.client_address = client_address
        """The address of the broker's client, as bytes."""
