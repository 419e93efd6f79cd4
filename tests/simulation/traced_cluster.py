"""A driven cluster that remembers what was done to it, so that the same can be done to another one."""

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from klamm.controller.core import Answer
from klamm.controller.outcome import NoReply
from klamm.protocol.fields import Message
from tests.controller.handlers.cluster import DrivenCluster

MAX_STEPS = 1000


class TracedCluster(DrivenCluster):
    """Keeps every call to the controller with its time; starts without brokers."""

    def __init__(self, **fields: Any) -> None:
        self.trace: list[tuple[int, Callable[[TracedCluster], object]]] = []
        self._fields = fields
        self.down: Collection[int] = ()
        super().__init__(0, **fields)

    def submit(self, request: Message, *, version: int | None = None, broker_id: int | None = 1) -> Answer:
        def again(other: TracedCluster) -> None:
            with suppress(NoReply):
                DrivenCluster.submit(other, request, version=version, broker_id=broker_id)

        self._note(again)
        return super().submit(request, version=version, broker_id=broker_id)

    def ask(self, request: Message, *, version: int | None = None, broker_id: int | None = 1) -> Any:
        """As a server does: the response is encoded at once, then the controller does what is left to do."""
        response = super().ask(request, version=version, broker_id=broker_id)
        self.drain()
        return response

    def tick(self) -> None:
        self._note(DrivenCluster.tick)
        super().tick()
        self.drain()

    def drain(self) -> None:
        """What follows from changes, to its end."""
        self._note(_work)
        _work(self)

    def restart(self) -> None:
        """As the process does: where logs ended is kept, what they held is not, and who is down is said again."""
        self._note(TracedCluster.restart)
        self.start(dict(self.data.log_end_offsets()))
        super().set_down(self.down)
        _work(self)

    def set_down(self, broker_ids: Collection[int]) -> None:
        """Who is down, though the cluster may not know yet."""
        self._note(lambda other: other.set_down(broker_ids))
        self.down = broker_ids
        super().set_down(broker_ids)

    def end_session(self, broker_id: int) -> None:
        """A broker's process is over."""
        self._note(lambda other: other.end_session(broker_id))
        self.controller.end_session(broker_id)

    def done_again(self) -> "TracedCluster":
        """Another cluster, to which the same was done at the same times."""
        other = TracedCluster(**self._fields)
        for now_ms, call in self.trace:
            other.clock.now_ms = now_ms
            call(other)
        return other

    def _note(self, call: Callable[["TracedCluster"], object]) -> None:
        self.trace.append((self.clock.now_ms, call))


def _work(cluster: DrivenCluster) -> None:
    for _ in range(MAX_STEPS):
        if not cluster.controller.has_work:
            return
        cluster.controller.work()
    raise AssertionError("the controller's work does not end")
