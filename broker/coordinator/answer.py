"""The answer of a request that coordinators decide: it waits for records, for other members, or for a timer."""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final

from klamm.broker.data.watches import Watches
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.metadata.partition import LogKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.uuid import Uuid

if TYPE_CHECKING:
    from klamm.broker.coordinator.shard import Shard

ANSWERS: Final = Uuid(b"\xff" * 16)
"""The first part of the keys of these answers, in place of a topic id. No topic has this id."""
LONGEST_WAIT_MS: Final = 60_000
"""An answer that no timer concerns is tried again after this time."""


class CoordinatorAnswer:
    """A `DelayedAnswer`. State machines resolve its parts, `waiters`; with the last part it is complete."""

    def __init__(self, watches: Watches, serial: int, part_count: int, finish: Callable[[list[Any]], Message]) -> None:
        """`finish` makes the response of the parts' results, in their order. `serial` is unique among answers."""
        self.keys: Collection[LogKey] = ((ANSWERS, serial),)
        self.retry_at_ms = 0
        self._watches = watches
        self._finish = finish
        self._results: list[Any] = [None] * part_count
        self._missing = part_count
        self._shards: list[Shard] = []
        self._response: Message | None = None
        if not part_count:
            self._response = finish([])

    def wait_on(self, shard: "Shard") -> None:
        """Note a shard that decides a part of the request."""
        if shard not in self._shards:
            self._shards.append(shard)

    def set_result(self, index: int, result: object) -> None:
        """Set the result of one part. The last one wakes the connection."""
        self._results[index] = result
        self._missing -= 1
        if not self._missing:
            self._response = self._finish(self._results)
            self.retry_at_ms = 0
            self._shards.clear()
            for key in self.keys:
                self._watches.touch(key)

    def try_complete(self, image: MetadataImage, now_ms: int) -> Message | None:
        """The response, if there is one by now."""
        for shard in tuple(self._shards):
            shard.advance(image, now_ms)
        if self._response is None:
            due = [due_ms for shard in self._shards if (due_ms := shard.next_due_ms(now_ms)) is not None]
            self.retry_at_ms = max(now_ms + 1, min([*due, now_ms + LONGEST_WAIT_MS]))
        return self._response


class Part:
    """A `Waiter`: one part of a `CoordinatorAnswer`."""

    __slots__ = ("_answer", "_error", "_index")

    def __init__(self, answer: CoordinatorAnswer, index: int, error: Callable[[ErrorCode], object]) -> None:
        """`error` makes the result of this part of an error."""
        self._answer: CoordinatorAnswer | None = answer
        self._index = index
        self._error = error

    def wait_on(self, shard: "Shard") -> None:
        """Note the shard that decides this part."""
        if self._answer is not None:
            self._answer.wait_on(shard)

    def resolve(self, response: object) -> None:
        """Set the result. Only the first one counts."""
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.set_result(self._index, response)

    def refuse(self, code: ErrorCode) -> None:
        """Set the result to an error."""
        self.resolve(self._error(code))


class Step:
    """A `Waiter` between two operations: what the first one replies decides how the request goes on."""

    __slots__ = ("_refused", "_resolved", "_wait_on")

    def __init__(
        self,
        resolved: Callable[[object], None],
        refused: Callable[[ErrorCode], None],
        wait_on: Callable[["Shard"], None],
    ) -> None:
        self._resolved: Callable[[object], None] | None = resolved
        self._refused = refused
        self._wait_on = wait_on

    def wait_on(self, shard: "Shard") -> None:
        """Note the shard that decides this step."""
        self._wait_on(shard)

    def resolve(self, response: object) -> None:
        """Go on. Only the first result counts."""
        resolved, self._resolved = self._resolved, None
        if resolved is not None:
            resolved(response)

    def refuse(self, code: ErrorCode) -> None:
        """Go on with an error."""
        if self._resolved is not None:
            self._resolved = None
            self._refused(code)
