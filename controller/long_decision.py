"""A request that comes to much: planned and encoded in steps, against one state of the image, then done at once.

While one is under way others are served, as long as they change nothing: `Controller.submit` raises Busy for those that
would, and they are decided when it is over. So a long request sees one state, nobody sees half of it, and its records
are one batch. Until `Controller.commit` nothing has happened: whoever gives it up leaves nothing half (docs/decisions).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from klamm.controller.calls import Call, Encoded
from klamm.controller.context import RequestContext
from klamm.controller.outcome import Outcome
from klamm.controller.steps import Steps, in_pieces
from klamm.controller.topic_policy import Unjudged
from klamm.protocol.record_batch import BatchBuilder

_OVER: Final = False


class Busy(Exception):
    """A request that would change something while a long one is under way. Nothing was changed: it has to wait."""


class LongDecision:
    """One such request, made by `Controller.begin`, which has taken the first step."""

    def __init__(
        self, call: Call, context: RequestContext, steps: Steps, rng_state: Mapping[str, Any], batch: BatchBuilder
    ) -> None:
        """`batch` is an empty one, for its records."""
        self.call = call
        self.context = context
        self.rng_state = rng_state
        """The state of the random numbers before it."""
        self.outcome: Outcome | None = None
        """Set once it is planned."""
        self.batch: BatchBuilder | None = None
        """Its records as bytes, if it has any."""
        self.payload: Encoded | None = None
        """Its response as bytes, if the caller asked for that."""
        self._rest = self._go_on(steps)
        self._empty_batch = batch

    def advance(self) -> bool:
        """Take the next step; False if all are taken: then it can be committed. Raises Unjudged if a policy has to be
        asked first."""
        return next(self._rest, _OVER) is None

    def _go_on(self, steps: Steps) -> Iterator[None]:
        outcome = yield from steps
        if self.context.ledger.unjudged:
            raise Unjudged(self.context.ledger.unjudged)
        if outcome.records:
            self.batch = self._empty_batch
            for records in in_pieces(outcome.records, self.context.at_once):
                yield
                self.batch.add(records)
        yield
        self.payload = self.call.encoded(outcome.response)
        self.outcome = outcome
