"""What the core is asked, and what it gives back: calls, answers, snapshots that are still to be written."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from klamm.controller.delayed_answer import DelayedAnswer
from klamm.controller.log_records import Records
from klamm.controller.metadata.snapshot import ImageCopy, snapshot_batches
from klamm.controller.metadata_log import Snapshot, SnapshotPlace
from klamm.controller.requester import Requester
from klamm.controller.topic_policy import Verdicts
from klamm.protocol.api import Api, Listener
from klamm.protocol.fields import Message
from klamm.protocol.served import ApiTable

Encoded: TypeAlias = bytes | bytearray
"""A response with its header, as it leaves, without the size in front."""


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
    served: ApiTable | None = None
    """What the client is served, as the request was read by it; None: what its listener's clients are served."""
    encode: Callable[[Message], Encoded] | None = None
    """Makes the bytes of the response. The core calls it before anything else can change the columns that a response
    may view, and before the request's own records do. None: the caller takes the response as an object."""
    listener_name: str | None = None
    """The listener that the client connected to: answers tell its end points. None: the first one of each broker."""

    @property
    def requester(self) -> Requester:
        """Who asks."""
        return Requester(self.listener, self.broker_id, self.client_id, self.principal, self.host, self.listener_name)

    def encoded(self, response: Message | DelayedAnswer | None) -> Encoded | None:
        """The bytes of a response that is there."""
        return self.encode(response) if self.encode is not None and isinstance(response, Message) else None


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

    response: Message | DelayedAnswer | None
    """A delayed one is to be given to `Controller.try_complete` now and then; None: the client wants no answer. Its
    columns are views of what is changed next: use `payload` for what leaves."""
    durable_at: int
    log_end_offset: int
    """The offset that the request's first record could have got: the state that it saw."""
    record_offsets: tuple[int, int] | None
    """First and last offset of the request's records; None if it changed nothing."""
    unsaid: Mapping[str, str] = field(default_factory=dict)
    """Why topics were refused, by name, where the response has no place for it."""
    payload: Encoded | None = None
    """The response as bytes; None: there is none yet, or nobody asked for it (`Call.encode`)."""
