"""Large requests: measured, decoded and decided in a thread, one at a time, while others are served (decision 18).

The thread shares Python's lock with the event loop, which gets it back soon each time that it wants it
(`klamm.server.thread_turns`). A decision about metadata reads the image, which does not change meanwhile: requests that
would change it wait (`klamm.controller.long_decision`), and what may not wait, fencing, interrupts the decision, which
begins again. What the decision found is committed on the event loop.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from klamm.controller.core import Controller
from klamm.protocol.codec.sizes import DecodedSize
from klamm.server.faulty_requests import LateAnswer
from klamm.server.pending_answer import Arrived, PendingAnswer, Waits
from klamm.server.release import release
from klamm.server.reply import Reply
from klamm.server.request_limits import RequestLimits
from klamm.server.thread_turns import in_thread

INTERRUPTIONS_AT_MOST: Final = 3
"""After so many interruptions by fencing a decision is not interrupted any more, so that it ends."""

T = TypeVar("T")


class LargeRequest:
    """A request that is too large to be handled at once. Call `finish` before the connection's next request."""

    def __init__(
        self,
        measure: Callable[[], DecodedSize],
        decode: Callable[[], Arrived],
        charge: Callable[[Arrived], Arrived],
        attempt: Callable[[Arrived], Reply | PendingAnswer | LateAnswer | None],
        limits: RequestLimits,
        waits: Waits,
        may_be_faulty: Callable[[int], bool],
    ) -> None:
        """`measure` and `decode` are called in a thread and may raise ProtocolError; `charge` measures the request by
        quotas, and `attempt` decides it at once. `may_be_faulty`: whether a fault rule concerns an API; then the
        request is decided on the event loop."""
        self._measure = measure
        self._decode = decode
        self._charge = charge
        self._attempt = attempt
        self._limits = limits
        self._waits = waits
        self._may_be_faulty = may_be_faulty

    async def finish(self, hold: Callable[[int], None]) -> Reply | None:
        """Wait for the reply; None: the client expects none. `hold` is called with the bytes that the decoded request
        takes, before it is decoded. Raises ProtocolError if it would exceed a limit, and what `PendingAnswer.finish`
        raises."""
        async with self._waits.turns.of_large:
            found = await self._found(hold)
        return await found.finish(hold) if isinstance(found, PendingAnswer | LateAnswer) else found

    async def _found(self, hold: Callable[[int], None]) -> Reply | PendingAnswer | LateAnswer | None:
        size = await self._in_thread(self._measure)
        hold(size.memory_bytes)
        freed: list[object] = []
        with _no_collections():
            try:
                found = await self._decided(freed)
            finally:
                # No frame refers to these messages any more, unless an exception does.
                await self._in_thread(lambda: release(freed))
        return found

    async def _decided(self, freed: list[object]) -> Reply | PendingAnswer | LateAnswer | None:
        """Decode the request, and decide it. `freed` gets the messages that nothing needs any more."""
        arrived = self._charge(await self._in_thread(self._decode))
        found: Reply | PendingAnswer | LateAnswer | None
        if self._limits.of_metadata and not self._may_be_faulty(arrived.call.api.key):
            async with self._waits.turns.of_changes:
                found = await self._decided_in_thread(arrived, self._waits.controller, freed)
        else:
            found = self._attempt(arrived)
        if not isinstance(found, PendingAnswer | LateAnswer):
            freed.append(arrived.call.request)
        return found

    async def _decided_in_thread(
        self, arrived: Arrived, controller: Controller, freed: list[object]
    ) -> Reply | PendingAnswer | None:
        for interruptions in range(INTERRUPTIONS_AT_MOST + 1):
            decision = controller.begin_large(arrived.call, may_be_interrupted=interruptions < INTERRUPTIONS_AT_MOST)
            try:
                await self._in_thread(decision.run)
                if not decision.is_interrupted:
                    return self._waits.attempt(arrived, lambda done=decision: controller.finish(done))  # type: ignore[misc]
            finally:
                controller.abandon(decision)
                freed += decision.give_up()
        raise AssertionError("the last decision is not interrupted")

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await in_thread(work, self._waits.turns.threads)


@contextmanager
def _no_collections() -> Iterator[None]:
    """No garbage collections inside of the block: each would walk over all decoded objects, without a pause."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
