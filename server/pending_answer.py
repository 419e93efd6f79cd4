"""Answers that are not complete after the first attempt at their request, and the one way to finish them.

The core gives five causes. The request needs more steps (LongDecision); it would change something while a long request
is being decided (Busy); it creates or alters topics that a policy has to judge first (Unjudged); it carries what a
thread has to read first (Unread); or it is decided, and its answer waits for record data (a delayed Answer). One cause
may follow another.

A request that would change something during a long request waits for `Turns.of_changes`. For requests, only this module
takes and releases that lock.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from klamm.controller.busy import Busy
from klamm.controller.calls import Answer, Call
from klamm.controller.client import Client
from klamm.controller.core import Controller
from klamm.controller.delayed_answer import DelayedAnswer
from klamm.controller.long_decision import LongDecision
from klamm.controller.reading import Unread
from klamm.controller.server_answer import ServerAnswer
from klamm.controller.topic_policy import Unjudged
from klamm.protocol.fields import Message
from klamm.protocol.messages.headers import RequestHeader
from klamm.quick_dataclasses import dataclass
from klamm.server.faults.struck import Struck
from klamm.server.policy_asker import PolicyAsker
from klamm.server.purgatory import Purgatory
from klamm.server.reply import Reply
from klamm.server.server_answers import ServerAnswers
from klamm.server.thread_turns import in_thread
from klamm.server.turns import Turns

WAITING_BYTES_PER_KEY = 600
"""The memory of a decoded waiting request for each partition that it waits for, beside its encoded bytes. Measured with
a Fetch of 50,000 partitions."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A decoded request, its client, and when it arrived: `started` on trio's clock (s), `arrived_ms` on the
    controller's. `frame_bytes` is its size without the size field."""

    call: Call
    header: RequestHeader
    client: Client
    frame_bytes: int
    started: float
    arrived_ms: int
    struck: Struck | None = None
    """What simulated faults do to the request; None: no rule hit it."""


Decide: TypeAlias = Callable[[], Answer | LongDecision]
Cause: TypeAlias = LongDecision | Busy | Unjudged | Unread | Answer
"""Why an answer is not complete. An Answer is here always a delayed one."""


@dataclass(frozen=True, slots=True)
class Waits:
    """What requests can wait for, and how they are attempted again."""

    controller: Controller
    turns: Turns
    purgatory: Purgatory
    server_answers: ServerAnswers
    policy: PolicyAsker | None
    clock_ms: Callable[[], int]
    attempt: "Callable[[Arrived, Decide], Reply | PendingAnswer | None]"
    """Decides a request by the given function. If its answer is complete, it is written to the request log."""


class PendingAnswer:
    """An answer that is not complete. Call `finish` at once, before the connection's next request is handled."""

    def __init__(self, arrived: Arrived, cause: Cause, waits: Waits) -> None:
        self._arrived = arrived
        self._cause = cause
        self._waits = waits

    async def finish(self, hold: Callable[[int], None]) -> Reply | None:
        """Wait for the reply; None: the client expects none. `hold` is called with the bytes that the request takes
        beside its frame. If this is cancelled, the request either has happened as a whole or not at all. Raises
        ServerStops, and NoReply as the request path does."""
        if isinstance(self._cause, Answer):
            hold(WAITING_BYTES_PER_KEY * len(_delayed(self._cause).keys))
        found: Reply | PendingAnswer | None = self
        while isinstance(found, PendingAnswer):
            found = await found._next(hold)
        return found

    async def _next(self, hold: Callable[[int], None]) -> "Reply | PendingAnswer | None":
        waits, arrived, cause = self._waits, self._arrived, self._cause
        if isinstance(cause, Answer):
            delayed = _delayed(cause)
            if isinstance(delayed, ServerAnswer):
                await waits.server_answers.complete(delayed, arrived.client, hold)
            else:
                await waits.purgatory.wait(delayed, waits.clock_ms(), arrived.started)
            return waits.attempt(arrived, partial(waits.controller.try_complete, arrived.call, cause))
        if isinstance(cause, Unread):
            arrived = await self._read(cause)
            return waits.attempt(arrived, partial(waits.controller.begin, arrived.call))
        if isinstance(cause, Unjudged):
            arrived = await self._judged(cause)
        return await self._decide_in_turn(arrived, cause if isinstance(cause, LongDecision) else None)

    async def _read(self, cause: Unread) -> Arrived:
        call = self._arrived.call
        found = await in_thread(cause.read, self._waits.turns.threads)
        return replace(self._arrived, call=replace(call, readings={**(call.readings or {}), **found}))

    async def _judged(self, cause: Unjudged) -> Arrived:
        policy, call = self._waits.policy, self._arrived.call
        assert policy is not None, "without a policy there is nothing to judge"
        verdicts = dict(call.verdicts or {})
        for topic in cause.topics:
            verdicts[topic.topic_name] = await policy.judge(topic)
        return replace(self._arrived, call=replace(call, verdicts=verdicts))

    async def _decide_in_turn(self, arrived: Arrived, decision: LongDecision | None) -> "Reply | PendingAnswer | None":
        """Decide while no other request changes anything. If `decision` is given, it was begun while the lock was
        free."""
        waits = self._waits
        try:
            async with waits.turns.of_changes:
                if decision is None:
                    found = waits.attempt(arrived, partial(waits.controller.begin, arrived.call))
                    decision = _under_way(found)
                    if decision is None:
                        return found
                while True:
                    await waits.turns.let_others_in()
                    found = waits.attempt(arrived, partial(waits.controller.advance, decision))
                    if _under_way(found) is None:
                        return found
        finally:
            if decision is not None:
                waits.controller.abandon(decision)


def _under_way(found: Reply | PendingAnswer | None) -> LongDecision | None:
    cause = found._cause if isinstance(found, PendingAnswer) else None
    return cause if isinstance(cause, LongDecision) else None


def _delayed(answer: Answer) -> DelayedAnswer:
    response = answer.response
    assert response is not None, "a request without a response does not wait"
    # Not by isinstance of DelayedAnswer, a protocol with fields: that takes 7 µs.
    assert not isinstance(response, Message), "an answer that is there has left"
    return response
