"""The interface of the core: calls, their answers, and snapshots that are not written yet."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from klamm.controller.client import Client
from klamm.controller.delayed_answer import DelayedAnswer
from klamm.controller.log_records import Records
from klamm.controller.metadata.snapshot import ImageCopy, snapshot_batches
from klamm.controller.metadata_log import Snapshot, SnapshotPlace
from klamm.controller.reading import Readings
from klamm.controller.requester import Requester
from klamm.controller.topic_policy import Verdicts
from klamm.protocol.api import Api, Listener
from klamm.protocol.fields import Message
from klamm.protocol.served import ApiTable
from klamm.quick_dataclasses import dataclass

Encoded: TypeAlias = bytes | bytearray
"""A response with its header, as it is sent, without the size prefix."""


@dataclass(frozen=True, slots=True)
class Call:
    """One decoded request, with the listener and the client that it came from."""

    api: Api[Any, Any]
    api_version: int
    request: Message
    listener: Listener = "broker"
    broker_id: int | None = None
    client_id: str | None = None
    principal: str | None = None
    """The authenticated principal, such as "User:ANONYMOUS"; None: the cluster itself, which may do everything."""
    host: str = ""
    """The client's address, as Java prints it."""
    verdicts: Verdicts | None = None
    """The create-topic policy's verdicts so far on the request's topics; None: there is no policy."""
    readings: Readings | None = None
    """What a thread has read for this request so far; None: everything is read when the request is decided."""
    served: ApiTable | None = None
    """The APIs by which the request was decoded; None: those that every client of the listener is served."""
    encode: Callable[[Message], Encoded] | None = None
    """Makes the bytes of the response. The core calls it before anything else can change the columns that a response
    may view, and before the request's own records do. None: the caller takes the response as an object."""
    listener_name: str | None = None
    """The listener that the client connected to: answers contain its end points. None: the first one of each broker."""
    client: Client | None = None
    """What else is known of the client from its connection."""
    throttle_time_ms: int = 0
    """For how long quotas throttle the client because of this request; quotas in the decision may make it longer."""
    may_use_tokens: bool = False
    """As in `Client`."""

    connection_id: int = 0
    """The number of the client's connection among those of its server; 0: it has none."""

    @property
    def requester(self) -> Requester:
        """The client that made the call."""
        return Requester(
            self.listener,
            self.broker_id,
            self.client_id,
            self.principal,
            self.host,
            self.listener_name,
            self.may_use_tokens,
            self.connection_id,
            self.client,
        )

    def encoded(self, response: Message | DelayedAnswer | None) -> Encoded | None:
        """The bytes of a response, which gets the throttle time of the request if it has none that is longer; None if
        there is no response yet, or if the caller did not ask for bytes."""
        if not isinstance(response, Message):
            return None
        if self.throttle_time_ms:
            _throttle(response, self.throttle_time_ms)
        return None if self.encode is None else self.encode(response)


def _throttle(response: Any, throttle_time_ms: int) -> None:
    if getattr(response, "throttle_time_ms", throttle_time_ms) < throttle_time_ms:
        response.throttle_time_ms = throttle_time_ms


@dataclass(frozen=True, slots=True)
class PendingSnapshot:
    """The image at one offset, copied for a snapshot. Write it off the event loop once the log is durable up to
    there."""

    place: SnapshotPlace
    content: ImageCopy
    timestamp_ms: int

    def write(self, rest: Callable[[], None] = lambda: None) -> Snapshot:
        """Write the snapshot. Calls `rest` after each piece of work of some milliseconds. Raises SnapshotFailed."""
        return self.place.write(_with_rests(snapshot_batches(self.content), rest), self.timestamp_ms)


def _with_rests(batches: Iterable[Records], rest: Callable[[], None]) -> Iterator[Records]:
    for batch in batches:
        yield batch
        rest()


@dataclass(frozen=True, slots=True)
class Answer:
    """A decided request. The response may be sent when the log is durable up to `durable_at`."""

    response: Message | DelayedAnswer | None
    """A delayed one has to be passed to `Controller.try_complete` until it is complete. None: the client expects no
    response. Its columns may be views of live state, so send `payload` instead."""
    durable_at: int
    log_end_offset: int
    """The offset that the request's first record could have got: the request saw the state before this offset."""
    record_offsets: tuple[int, int] | None
    """First and last offset of the request's records; None if it changed nothing."""
    log_only_errors: Mapping[str, str] = field(default_factory=dict)
    """Refusals of topics, by name, that the response has no field for; for the request log."""
    payload: Encoded | None = None
    """The response as bytes; None: it is not complete, or `Call.encode` is not set."""
