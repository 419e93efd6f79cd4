"""What the page and the metrics read and follow of a running server. Nothing here changes the cluster."""

from collections.abc import Callable

from klamm.controller.metadata.delta import Delta
from klamm.controller.metadata_log import MetadataLog
from klamm.controller.settings import Settings
from klamm.quick_dataclasses import dataclass
from klamm.server.durations import Durations, Stopwatch
from klamm.server.flusher import Flusher
from klamm.server.parts import ServerParts
from klamm.server.request_counts import RequestCounts


@dataclass(slots=True)
class ChangeCounts:
    """What the batches of this process changed so far."""

    batches: int = 0
    isr_shrinks: int = 0
    isr_expansions: int = 0
    elections: int = 0
    unclean_elections: int = 0

    def follow(self, delta: Delta) -> None:
        """Count one batch."""
        self.batches += 1
        self.isr_shrinks += delta.isr_shrinks
        self.isr_expansions += delta.isr_expansions
        self.elections += delta.elections
        self.unclean_elections += delta.unclean_elections


class Observed:
    """The view of one server from outside of its rooms."""

    def __init__(self, parts: ServerParts, flusher: Flusher) -> None:
        self._controller = parts.controller
        self._request_log = parts.request_log
        self._flusher = flusher
        self.log: MetadataLog = parts.log
        """The metadata log. Read its offsets only."""
        self._appending = parts.controller.appending = Stopwatch()
        self.changes = ChangeCounts()
        self.subscribe(self.changes.follow)

    @property
    def settings(self) -> Settings:
        """The static configs of the cluster, and the options of its start."""
        return self._controller.settings

    @property
    def flushes(self) -> Durations:
        """How long the syncs of the metadata log took."""
        return self._flusher.durations

    @property
    def appends(self) -> Durations:
        """How long the appends to the metadata log took, each of one batch."""
        return self._appending.durations

    def requests(self) -> RequestCounts | None:
        """The requests of clients that were answered so far; None: they are not counted."""
        if self._request_log is None:
            return None
        self._request_log.flush()
        return self._request_log.counts

    def subscribe(self, follow: Callable[[Delta], None]) -> None:
        """Call `follow` with the delta of each batch (`Controller.subscribe`). A subscription lasts as long as the
        server."""
        self._controller.subscribe(follow)
