"""How requests reach the group coordinators: as an effect, so that a refused request changes nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.coordinator.answer import Part
from klamm.broker.coordinator.outbox import Outbox, Waiter
from klamm.broker.groups.groups_with_streams import GroupsWithStreams
from klamm.controller.context import RequestContext
from klamm.controller.effects import SoftState
from klamm.controller.outcome import Outcome
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.internal_topics import CONSUMER_OFFSETS

ResultT = TypeVar("ResultT")
Operation: TypeAlias = Callable[[GroupsWithStreams, Waiter, int], Outbox]
"""What to do on a shard: its groups, the waiter to answer, the time in ms."""


@dataclass(frozen=True, slots=True)
class Submission:
    """An effect: submits one part of a request to the coordinator of a group."""

    brokers: SimulatedBrokers
    broker_id: int | None
    """The broker that was asked."""
    group_id: str
    operation: Operation
    part: Part

    def apply(self, soft: SoftState, now_ms: int) -> None:
        where = CONSUMER_OFFSETS, self.group_id, self.broker_id
        self.brokers.coordinators.submit(
            soft.image, where, self.part, lambda groups: self.operation(groups, self.part, now_ms), now_ms
        )


def submit_one(
    brokers: SimulatedBrokers,
    context: RequestContext,
    group_id: str,
    operation: Operation,
    *,
    error: Callable[[ErrorCode], object],
    finish: Callable[[Any], Message] = lambda result: result,
) -> Outcome:
    """A request about one group. `finish` makes the response of what the operation replies, or of what `error` makes of
    an error."""
    return submit_each(brokers, context, [(group_id, operation, error)], lambda results: finish(results[0]))


def submit_each(
    brokers: SimulatedBrokers,
    context: RequestContext,
    parts: Sequence[tuple[str, Operation, Callable[[ErrorCode], object]]],
    finish: Callable[[list[Any]], Message],
) -> Outcome:
    """A request about several groups: for each of them its id, the operation, and what makes a result of an error."""
    answer = brokers.coordinators.new_answer(len(parts), finish)
    asked = context.requester.asked_broker_id
    effects = [
        Submission(brokers, asked, group_id, operation, Part(answer, index, error))
        for index, (group_id, operation, error) in enumerate(parts)
    ]
    return Outcome(answer, effects=effects)
