"""What simulated brokers do for share groups beside their coordinators: they lead share partitions, and ask the share
coordinator."""

from collections.abc import Callable
from math import inf

from klamm.broker.coordinator.coordinators import Coordinators
from klamm.broker.data.data_plane import DataPlane
from klamm.broker.outgoing import Outgoing
from klamm.broker.share_partitions.leaders import ShareLeaders
from klamm.broker.share_state.initializer import Initializer
from klamm.broker.share_state.persister import Persister
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.settings import Settings


class Shares:
    """One for all brokers of a process."""

    def __init__(
        self,
        coordinators: Coordinators,
        outgoing: Outgoing,
        data: DataPlane,
        settings: Settings,
        image: Callable[[], MetadataImage],
        clock_ms: Callable[[], int],
    ) -> None:
        self.persister = Persister(coordinators, outgoing, image, clock_ms)
        self.initializer = Initializer(coordinators, self.persister)
        self.leaders = ShareLeaders(data, self.persister, settings, image, clock_ms)

    @property
    def next_due_ms(self) -> float:
        """When `tick` has something to do if nothing happens before; infinite: there is nothing."""
        if self.persister.has_work:
            return 0
        return min(
            (due for due in (self.persister.next_due_ms, self.leaders.next_due_ms) if due is not None), default=inf
        )

    def tick(self) -> None:
        """Do what is due."""
        self.persister.work()
        self.persister.tick()
        self.leaders.tick()
