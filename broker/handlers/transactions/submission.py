"""How requests reach the transaction coordinators: as an effect, so that a refused request changes nothing."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.coordinator.answer import Part
from klamm.broker.coordinator.outbox import Outbox, Waiter
from klamm.broker.transactions.transactions import Transactions
from klamm.controller.context import RequestContext
from klamm.controller.effects import SoftState
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.internal_topics import TRANSACTION_STATE
from klamm.quick_dataclasses import dataclass

Operation: TypeAlias = Callable[[Transactions, Waiter, int], Outbox]
"""What to do on a shard: its transactions, the waiter to answer, the time in ms."""
FIRST_VERSION_WITH_PRODUCER_FENCED = 2
"""Of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn (KIP-588)."""


@dataclass(frozen=True, slots=True)
class TransactionSubmission:
    """An effect: submits one part of a request to the coordinator of a transactional id, or of a partition."""

    brokers: SimulatedBrokers
    broker_id: int | None
    """The broker that was asked."""
    at: str | int
    """The transactional id, or a partition of `__transaction_state`."""
    operation: Operation
    part: Part

    def apply(self, soft: SoftState, now_ms: int) -> None:
        coordinators, at = self.brokers.coordinators, self.at

        def run(state: Transactions) -> Outbox:
            return self.operation(state, self.part, now_ms)

        if isinstance(at, str):
            coordinators.submit(soft.image, (TRANSACTION_STATE, at, self.broker_id), self.part, run, now_ms)
        else:
            coordinators.submit_at(soft.image, (TRANSACTION_STATE, at, self.broker_id), self.part, run, now_ms)


def submit_each(
    brokers: SimulatedBrokers,
    context: RequestContext,
    parts: Sequence[tuple[str | int, Operation, Callable[[ErrorCode], object]]],
    finish: Callable[[list[Any]], Message],
) -> Outcome:
    """A request of several parts: for each of them the transactional id or the partition, the operation, and what makes
    a result of an error. `finish` makes the response of the results."""
    answer = brokers.coordinators.new_answer(len(parts), finish)
    asked = context.requester.asked_broker_id
    effects = [
        TransactionSubmission(brokers, asked, at, operation, Part(answer, index, error))
        for index, (at, operation, error) in enumerate(parts)
    ]
    return Outcome(answer, effects=effects)


def submit_one(
    brokers: SimulatedBrokers,
    context: RequestContext,
    transactional_id: str,
    operation: Operation,
    finish: Callable[[Any], Message],
) -> Outcome:
    """A request about one transactional id. `finish` makes the response of what the operation replies, or of an error
    code."""
    parts = [(transactional_id, operation, lambda code: code)]
    return submit_each(brokers, context, parts, lambda results: finish(results[0]))


def for_version(code: ErrorCode, api_version: int) -> ErrorCode:
    """The error in the form of a version: the first ones have no PRODUCER_FENCED."""
    if code is ErrorCode.PRODUCER_FENCED and api_version < FIRST_VERSION_WITH_PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
