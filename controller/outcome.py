"""The result of a handler: the response, the records and the effects.

Handlers change nothing. `klamm.controller.core` appends and replays the records of the outcome, and then applies the
effects (Kafka: ControllerResult).
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from klamm.controller.delayed_answer import DelayedAnswer
from klamm.controller.log_records import Records
from klamm.protocol.fields import Message
from klamm.quick_dataclasses import dataclass


class NoReply(Exception):
    """The request gets no response; its connection has to be closed.

    `unsent` is the response that is not sent, for the request log."""

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
    log_only_errors: Mapping[str, str] = field(default_factory=dict)
    """Refusals of topics, by name, that the response has no field for; for the request log."""
