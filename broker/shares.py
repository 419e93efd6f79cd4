"""What simulated brokers do for share groups beside their coordinators: they ask the share coordinator."""

from collections.abc import Callable

from klamm.broker.coordinator.coordinators import Coordinators
from klamm.broker.share_state.initializer import Initializer
from klamm.broker.share_state.persister import Persister
from klamm.controller.metadata.image import MetadataImage


class Shares:
    """One for all brokers of a process."""

    def __init__(
        self, coordinators: Coordinators, image: Callable[[], MetadataImage], clock_ms: Callable[[], int]
    ) -> None:
        self.persister = Persister(coordinators, image, clock_ms)
        self.initializer = Initializer(coordinators, self.persister)

    def tick(self) -> None:
        """Do what is due."""
        self.persister.tick()
