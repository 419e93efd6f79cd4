"""What the core is asked, and what it gives back: calls, answers, snapshots that are still to be written."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from klamm.controller.metadata.snapshot import ImageCopy, snapshot_batches
from klamm.controller.metadata_log import Snapshot, SnapshotPlace
from klamm.controller.outcome import Records, Waiting
from klamm.controller.topic_policy import Verdicts
from klamm.protocol.api import Api, Listener
from klamm.protocol.fields import Message


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it reaches the core: decoded, and by whom it was received."""

    api: Api[Any, Any]
    api_version: int
    request: Message
    listener: Listener = "broker"
    broker_id: int | None = None
    client_id: str | None = None
    principal: str | None = None
    """Who asks; None: the cluster itself, which may do everything."""
    host: str = ""
    """Where the request came from, as Java prints addresses."""
    verdicts: Verdicts | None = None
    """What the create-topic policy said so far of the request's topics; None: there is no policy."""
    listener_name: str | None = None
    """The listener that was connected to: answers tell its end points. None: the first listener of each broker."""


@dataclass(frozen=True, slots=True)
class PendingSnapshot:
    """All that the log said at one moment, while it goes on: to be written when that is durable, off the event loop."""

    place: SnapshotPlace
    content: ImageCopy
    timestamp_ms: int

    def write(self, rest: Callable[[], None] = lambda: None) -> Snapshot:
        """Raises SnapshotFailed. `rest` is called after each piece of the work, of some milliseconds."""
        return self.place.write(_with_rests(snapshot_batches(self.content), rest), self.timestamp_ms)


def _with_rests(batches: Iterable[Records], rest: Callable[[], None]) -> Iterator[Records]:
    for batch in batches:
        yield batch
        rest()


@dataclass(frozen=True, slots=True)
class Answer:
    """A decided request. The response may leave when the log is durable up to `durable_at`."""

    response: Message | Waiting | None
    """One that waits is to be given to `Controller.look` now and then; None: the client wants no answer."""
    durable_at: int
    log_end_offset: int
    """The offset that the request's first record could have got: the state that it saw."""
    record_offsets: tuple[int, int] | None
    """First and last offset of the request's records; None if it changed nothing."""
    unsaid: Mapping[str, str] = field(default_factory=dict)
    """Why topics were refused, by name, where the response has no place for it."""
