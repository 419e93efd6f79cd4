"""A request that comes to much: planned and encoded in stretches, against one state of the image, then done at once.

While one is under way others are served, as long as they change nothing: `Controller.submit` raises Busy for those that
would, and they are decided when it is over. So a long request sees one state, nobody sees half of it, and its records
are one batch. Until `Controller.commit` nothing has happened: whoever gives it up leaves nothing half (docs/decisions).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from klamm.controller.calls import Call, Encoded
from klamm.controller.outcome import Outcome, RequestContext, Stretches, stretches_of
from klamm.controller.topic_policy import Unjudged
from klamm.protocol.record_batch import BatchBuilder


class Busy(Exception):
    """A request that would change something while a long one is under way. Nothing was changed: it has to wait."""


class LongDecision:
    """One such request, made by `Controller.begin`, which has taken the first stretch."""

    def __init__(
        self,
        call: Call,
        context: RequestContext,
        stretches: Stretches,
        chance: Mapping[str, Any],
        batch: BatchBuilder,
    ) -> None:
        """`batch` is an empty one, for its records."""
        self.call = call
        self.context = context
        self.chance = chance
        """The state of the random numbers before it."""
        self.outcome: Outcome | None = None
        """Set once it is planned."""
        self.batch: BatchBuilder | None = None
        """Its records as bytes, if it has any."""
        self.payload: Encoded | None = None
        """Its response as bytes, if the caller asked for that."""
        self._stretches = stretches
        self._empty_batch = batch

    def go_on(self) -> Iterator[None]:
        """The other stretches. Then it can be committed. Raises Unjudged if a policy has to be asked first."""
        outcome = yield from self._stretches
        if self.context.unjudged:
            raise Unjudged(self.context.unjudged)
        if outcome.records:
            self.batch = self._empty_batch
            for records in stretches_of(outcome.records, self.context.at_once):
                yield
                self.batch.add(records)
        yield
        self.payload = self.call.encoded(outcome.response)
        self.outcome = outcome
