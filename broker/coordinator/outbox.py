"""What an operation of a coordinator leaves behind: records to write, and responses for when they are replicated."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import NamedTuple, Protocol

from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.quick_dataclasses import dataclass


class Waiter(Protocol):
    """A request, or a part of one, whose response is not there yet."""

    def resolve(self, response: object) -> None:
        """Set the response: what the operation of the state machine promises. Only the first one counts."""

    def refuse(self, code: ErrorCode) -> None:
        """Set the response of the request's API to this error."""


class CoordinatorRecord(NamedTuple):
    """One record of an internal topic: its key, and its value (None: a tombstone)."""

    key: Message
    value: Message | None
    value_version: int | None = None
    """The version of the value; None: the one that Kafka 4.3 writes."""


class Reply(NamedTuple):
    """A response for one waiter. None: the error `code`, in the form of the waiter's own API."""

    waiter: Waiter
    response: object
    code: ErrorCode = ErrorCode.NONE


@dataclass(slots=True)
class Outbox:
    """The records of an operation, in order, and its replies. The replies are delivered when all records of the
    partition up to these are below the high watermark."""

    records: list[CoordinatorRecord] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    producer_id: int = -1
    """The producer of a transaction that the records belong to (KIP-447); -1: none."""
    producer_epoch: int = -1
    on_written: list[Callable[[], None]] = field(default_factory=list)
    """Called, in order, when the records are below the high watermark, before the replies are delivered."""

    def write(self, key: Message, value: Message | None, value_version: int | None = None) -> None:
        self.records.append(CoordinatorRecord(key, value, value_version))

    def reply(self, waiter: Waiter | None, response: object) -> None:
        if waiter is not None:
            self.replies.append(Reply(waiter, response))

    def refuse(self, waiter: Waiter | None, code: ErrorCode) -> None:
        if waiter is not None:
            self.replies.append(Reply(waiter, None, code))


@dataclass(frozen=True, slots=True)
class Written:
    """Where and how a record was written."""

    offset: int
    timestamp_ms: int
    producer_id: int = -1
    """The producer of the transaction that the record belongs to; -1: none."""
    producer_epoch: int = -1
    live: bool = False
    """Whether this coordinator has just written the record itself; False: the partition is being loaded."""


class CoordinatorState(Protocol):
    """The state machine of one shard. It does no input or output, and reads no clock."""

    def replay(self, key: Message, value: Message | None, written: Written) -> None:
        """Apply one record. Called for each record of the partition while it is loaded, then for each one written."""

    def replay_end_of_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply a control record: the transaction of a producer has ended in this partition."""

    def loaded(self, now_ms: int) -> Outbox:
        """Called once, after the replay of the whole partition."""

    def topics_removed(self, names: Iterable[str]) -> Outbox:
        """Called after topics of these names were deleted."""

    @property
    def next_due_ms(self) -> int | None:
        """When to call `tick`, in ms on the controller's clock."""

    def tick(self, now_ms: int) -> Outbox | None:
        """Do the work of one timer that is due. None: no timer is due."""

    def waiters(self) -> Iterable[Waiter]:
        """The requests that wait for something else than records."""

    def snapshots(self) -> Iterator[list[CoordinatorRecord]] | None:
        """Records that replace all that the partition has, some at a time. None: the newest record of each key does."""
