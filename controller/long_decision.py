"""A long request: planned and encoded in steps against one state of the image, then committed at once.

During its steps other requests are served if they change nothing. For those that would, `Controller.submit` raises
Busy; they are decided afterwards. So a long request sees one state, no request sees half of its changes, and its
records are one batch. Nothing is changed before `Controller.commit`, so abandoning it leaves no trace (docs/decisions).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from klamm.controller.calls import Call, Encoded
from klamm.controller.context import RequestContext
from klamm.controller.outcome import NoReply, Outcome
from klamm.controller.steps import Steps, in_pieces
from klamm.controller.topic_policy import Unjudged
from klamm.protocol.record_batch import BatchBuilder

_OVER: Final = False


def as_steps(decide: Callable[[], Outcome | Steps]) -> Steps:
    """A decision as steps, of which the first does nothing."""
    yield
    decision = decide()
    return decision if isinstance(decision, Outcome) else (yield from decision)


class LongDecision:
    """A long request. `Controller.begin` makes it and does its first step, or `Controller.begin_large` makes it for a
    thread, where `run` does all its steps."""

    def __init__(
        self, call: Call, context: RequestContext, steps: Steps, rng_state: Mapping[str, Any], batch: BatchBuilder
    ) -> None:
        """`batch` must be empty; it gets the records of this request."""
        self.may_be_interrupted = False
        """Whether the controller may abandon it for a change that cannot wait."""
        self.is_interrupted = False
        """Set when the controller has abandoned it. It has to be decided again."""
        self.failure: Exception | None = None
        """What `run` raised."""
        self.call = call
        self.context = context
        self.rng_state = rng_state
        """The state of the random numbers before the first step, to restore if the request is abandoned."""
        self.outcome: Outcome | None = None
        """Set once the request is planned."""
        self.batch: BatchBuilder | None = None
        """The encoded records, if there are any."""
        self.payload: Encoded | None = None
        """The encoded response, if `call.encode` is set."""
        self._rest = self._go_on(steps)
        self._empty_batch = batch

    def advance(self) -> bool:
        """Do the next step; returns False when all are done and it can be committed. Raises Unjudged if a policy has to
        be asked first."""
        return next(self._rest, _OVER) is None

    def run(self) -> None:
        """Do all steps. Nothing is raised: an exception is kept in `failure`. May be called in a thread; if the
        decision is interrupted meanwhile, what it finds is of no use."""
        try:
            while self.advance():
                pass
        except NoReply as failure:
            self.failure = failure.with_traceback(None)  # whose frames hold all that was decoded and decided
        except Exception as failure:  # noqa: BLE001 - raised by `Controller.finish`, where it can be answered
            self.failure = failure

    def give_up(self) -> list[object]:
        """The messages of the outcome, which the caller frees. Call it when the decision is committed or abandoned."""
        outcome, self.outcome = self.outcome, None
        return [] if outcome is None else [outcome.response, outcome.records]

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
        self.outcome = outcome
        self.payload = self.call.encoded(outcome.response)
