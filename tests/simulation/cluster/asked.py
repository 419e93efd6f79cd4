"""A request that a simulated client has sent, with what is known of its decision and its answer."""

from dataclasses import dataclass
from typing import Any

from klamm.protocol.api import Api
from klamm.protocol.fields import Message


@dataclass
class Asked:
    """A request on its way."""

    api: Api[Any, Any]
    version: int
    request: Message
    correlation_id: int
    sent_at: float
    saw: int | None = None
    """The end of the log when it was decided; None: nobody knows that it was."""
    decided_at: float = 0.0
    unclean_elections: int = 0
    expected: Any = None
    response: Any = None
