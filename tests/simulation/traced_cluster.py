"""A driven cluster that remembers what was done to it, so that the same can be done to another one."""

from collections.abc import Callable
from typing import Any

from controller.core import Answer
from protocol.fields import Message
from tests.controller.handlers.cluster import DrivenCluster


class TracedCluster(DrivenCluster):
    """Keeps every call to the controller with its time; starts without brokers."""

    def __init__(self, **fields: Any) -> None:
        self.trace: list[tuple[int, Callable[[TracedCluster], object]]] = []
        self._fields = fields
        super().__init__(0, **fields)

    def submit(self, request: Message, *, version: int | None = None, broker_id: int | None = 1) -> Answer:
        self._note(lambda other: DrivenCluster.submit(other, request, version=version, broker_id=broker_id))
        return super().submit(request, version=version, broker_id=broker_id)

    def tick(self) -> None:
        self._note(DrivenCluster.tick)
        super().tick()

    def restart(self) -> None:
        self._note(DrivenCluster.restart)
        super().restart()

    def done_again(self) -> "TracedCluster":
        """Another cluster, to which the same was done at the same times."""
        other = TracedCluster(**self._fields)
        for now_ms, call in self.trace:
            other.clock.now_ms = now_ms
            call(other)
        return other

    def _note(self, call: Callable[["TracedCluster"], object]) -> None:
        self.trace.append((self.clock.now_ms, call))
