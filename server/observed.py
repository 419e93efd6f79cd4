"""What the page and the metrics read and follow of a running server. Nothing here changes the cluster."""

from collections.abc import Callable

from klamm.controller.metadata.delta import Delta
from klamm.controller.settings import Settings
from klamm.server.parts import ServerParts


class Observed:
    """The view of one server from outside of its rooms."""

    def __init__(self, parts: ServerParts) -> None:
        self._controller = parts.controller

    @property
    def settings(self) -> Settings:
        """The static configs of the cluster, and the options of its start."""
        return self._controller.settings

    def subscribe(self, follow: Callable[[Delta], None]) -> None:
        """Call `follow` with the delta of each batch (`Controller.subscribe`). A subscription lasts as long as the
        server."""
        self._controller.subscribe(follow)
