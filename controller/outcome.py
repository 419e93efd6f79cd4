"""What a handler gives back: the response, and what makes it true.

Handlers change nothing: a change is the records of the outcome, which `klamm.controller.core` appends and replays, and
the effects, which it applies then (Kafka: ControllerResult).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from klamm.controller.delayed_answer import DelayedAnswer
from klamm.controller.log_records import Records
from klamm.protocol.fields import Message


class NoReply(Exception):
    """A request that cannot be answered in its own terms: the connection has to end.

    `unsent` is what would have been said, for the request log."""

    def __init__(self, reason: str, unsent: Message | None = None) -> None:
        super().__init__(reason)
        self.unsent = unsent


class Effect(Protocol):
    """One change of soft state by a request (`klamm.controller.effects`)."""

    def apply(self, soft: Any, now_ms: int) -> None:
        """Apply the change to `soft`, a `SoftState`. The core calls this after it has replayed the records of the
        outcome, with the time in ms at which the request was decided. Raises NoReply, after the change, if the
        connection has to be closed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A handler's decision: the response, the records and the effects. None of it has been applied yet."""

    response: Message | DelayedAnswer | None
    """A delayed one is asked whether it is complete once the effects are applied; a message is complete already. None:
    the client expects no response (a produce request with acks=0)."""
    records: Records = ()
    effects: Sequence[Effect] = ()
    """The changes of soft state, in order."""
    unsaid: Mapping[str, str] = field(default_factory=dict)
    """Why topics were refused, by name, where the response has no place for it: for the request log."""
