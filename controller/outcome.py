"""What a handler is given beside the image and the request, and what it gives back.

Handlers are synchronous functions `(image, request, context) -> Outcome`. They change nothing: a change is the
records of the outcome, which `klamm.controller.core` appends and replays. Time, randomness and new ids are taken from
the context, before a record exists, so that replay needs none of them (Kafka: ControllerResult).
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from klamm.controller.authorizer import (
    CLUSTER_NAME,
    Access,
    AclOperation,
    AclResourceType,
    all_operations,
    refused_as_a_whole,
)
from klamm.controller.random_ids import new_uuid, random_bytes
from klamm.controller.settings import Settings
from klamm.controller.topic_policy import RequestedTopic, Verdicts
from klamm.protocol.api import Api, Listener
from klamm.protocol.columns import Columns
from klamm.protocol.errors import ApiError
from klamm.protocol.fields import Message
from klamm.protocol.uuid import Uuid

if TYPE_CHECKING:
    from klamm.controller.data.data_plane import DataPlane, LogKey
    from klamm.controller.metadata.image import MetadataImage

# One request is one batch: with the ids of replicas, ISR and directories this many come to about 250 MB.
MAX_PLACED_REPLICAS_PER_REQUEST = 10_000_000

ITEMS_AT_ONCE = 100
"""New topics, or changes of partitions, decided one by one: 2 to 4 ms on a laptop, so that no other request waits long.
A hundred columns count as one."""
COLUMNS_PER_ITEM = 100

Record: TypeAlias = Message | Columns[Any]
Records: TypeAlias = Sequence[Record]
"""Records in log order; a run of columns stands for one record per row."""


def count_records(records: Records) -> int:
    """How many offsets `records` take."""
    return sum(len(record) if isinstance(record, Columns) else 1 for record in records)


def stretches_of(records: Records, at_once: int) -> Iterator[Records]:
    """The same records in pieces of about as many, or of one long run."""
    begin = cost = 0
    for end, record in enumerate(records):
        if cost >= at_once:
            yield records[begin:end]
            begin, cost = end, 0
        cost += 1 + len(record) // COLUMNS_PER_ITEM if isinstance(record, Columns) else 1
    yield records[begin:]


class NoReply(Exception):
    """A request that cannot be answered in its own terms: the connection has to end.

    `unsent` is what would have been said, for the request log."""

    def __init__(self, reason: str, unsent: Message | None = None) -> None:
        super().__init__(reason)
        self.unsent = unsent


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """Who this cluster and its controller are: fixed while the process runs."""

    cluster_id: str
    controller_id: int
    controller_end_point: tuple[str, int] | None = None
    """Host and port of the controller listener, if there is one."""


@dataclass(slots=True)
class Taken:
    """What the accepted items of one request add, before it is in the image: each item sees what former ones took."""

    replicas: dict[int, int] = field(default_factory=dict)
    """New replicas by broker id, as far as limits count them."""
    partitions: int = 0
    """New partitions, as far as limits count them."""
    replicas_left: int = MAX_PLACED_REPLICAS_PER_REQUEST
    """How many replicas the request may still have placed."""


@dataclass(slots=True)
class RequestContext:
    """Everything a decision may depend on besides the image and the request."""

    settings: Settings
    cluster: ClusterIdentity
    api_version: int
    now_ms: int
    rng: np.random.Generator
    log_end_offset: int
    """The offset that the first record of this request will get."""
    data: "DataPlane"
    """Record data and replication progress: the one thing that handlers change themselves, for it is soft state."""
    broker_id: int | None = None
    """The broker that was asked; None on the controller's listener, where cluster-wide values apply."""
    listener: Listener = "broker"
    client_id: str | None = None
    principal: str | None = None
    """Who asks, such as "User:ANONYMOUS"; None: the cluster itself."""
    host: str = ""
    """The address that the request came from, as Java prints it."""
    access: Access | None = None
    """What the requester may do; None: everything. Handlers ask the methods below."""
    listener_name: str | None = None
    """The listener that was asked, such as "PLAINTEXT", whose end points are told; None: each broker's first."""
    served_apis: Sequence[Api[Any, Any]] = ()
    """The APIs of the listener that was asked, by key."""
    taken: Taken = field(default_factory=Taken)
    """What the items of this request that were decided so far will add to the cluster."""
    verdicts: Verdicts | None = None
    """What the create-topic policy said so far of the request's topics; None: there is no policy."""
    unjudged: list[RequestedTopic] = field(default_factory=list)
    """Topics that the policy has to judge before this request can be decided: its outcome is dropped then."""
    has_session: Callable[[int], bool] = lambda _: False
    """Whether a broker's heartbeats are up to date (soft state)."""
    root_log_levels: Mapping[int, str] = field(default_factory=dict)
    """The levels that root loggers were given, by node (soft state)."""
    departing: Collection[int] = ()
    """Brokers of which a former life is still in ISRs, which it leaves in stretches: they stay fenced till then."""
    losses_pending: bool = False
    """Whether brokers that went are still in ISRs: that is logged in stretches when they are many."""
    controlled_shutdown_offset: Callable[[int], int] = lambda _: 0
    """The offset behind the records that began a broker's controlled shutdown (soft state)."""
    at_once: int = ITEMS_AT_ONCE
    """About as many items are decided in one stretch, where a handler works in stretches."""

    def for_version(self, api_version: int) -> "RequestContext":
        """The same context for a request of another version, made on the client's behalf."""
        return replace(self, api_version=api_version)

    def authorize(self, operation: AclOperation, resource_type: AclResourceType, resource_name: str) -> bool:
        """Whether the requester may do this to this resource, which need not exist."""
        return self.access is None or self.access.allows(operation, resource_type, resource_name)

    def authorize_cluster(self, operation: AclOperation) -> bool:
        """Whether the requester may do this to the cluster as a whole."""
        return self.authorize(operation, AclResourceType.CLUSTER, CLUSTER_NAME)

    def authorize_some(self, operation: AclOperation, resource_type: AclResourceType) -> bool:
        """Whether there may be a resource of the type to which the requester may do this."""
        return self.access is None or self.access.allows_some(operation, resource_type)

    def refuse_cluster(self, operation: AclOperation) -> ApiError | None:
        """Why a request that needs this right on the cluster is refused as a whole; None: it is not."""
        return None if self.authorize_cluster(operation) else refused_as_a_whole(operation)

    def denied(self, operation: AclOperation, resource_type: AclResourceType, names: Iterable[str]) -> frozenset[str]:
        """Those of the names to which the requester may not do this. Does not look at them where all is allowed."""
        return self.access.denied(operation, resource_type, names) if self.access else frozenset()

    def permits(self, operation: AclOperation, resource_type: AclResourceType) -> Callable[[str], bool]:
        """The question of `authorize` for many names, one after the other, of which not all may be asked."""
        return self.access.permits(operation, resource_type) if self.access else lambda _: True

    def authorized_operations(self, resource_type: AclResourceType, names: Sequence[str]) -> Sequence[int]:
        """For each resource what the requester may do, as bits of AclOperation (KIP-430)."""
        if self.access is None:
            return [all_operations(resource_type)] * len(names)
        return self.access.operations(resource_type, names)

    def cluster_authorized_operations(self) -> int:
        """The same for the cluster; nothing is told to those who may not describe it."""
        if not self.authorize_cluster(AclOperation.DESCRIBE):
            return 0
        return self.authorized_operations(AclResourceType.CLUSTER, [CLUSTER_NAME])[0]

    def new_uuid(self) -> Uuid:
        """A fresh id from the seeded generator."""
        return new_uuid(random_bytes(self.rng))


@dataclass(frozen=True, slots=True)
class BrokerContact:
    """A broker's heartbeat: its session lives on. Soft state, kept by the core and never logged."""

    broker_id: int
    controlled_shutdown_offset: int | None = None
    """Set when this request began its controlled shutdown: what the broker has to catch up to before it may stop."""


@dataclass(frozen=True, slots=True)
class Departing:
    """A broker that has to leave more ISRs than one request may change."""

    broker_id: int
    unclean: bool = False
    """Whether it is no longer eligible to lead, either: it may have lost what it was trusted with."""


@dataclass(frozen=True, slots=True)
class WentOffline:
    """Log directories of a broker that serves, with more replicas in ISRs than one request may change."""

    broker_id: int
    directories: Collection[Uuid]


@runtime_checkable
class Waiting(Protocol):
    """An answer that is not ready: record data has to be replicated, or written, before it is."""

    partitions: "Collection[LogKey]"
    """When something becomes of one of these, it is time to look."""
    look_at_ms: int
    """When it is time to look although nothing happened."""

    def look(self, image: "MetadataImage", data: "DataPlane", now_ms: int) -> Message | None:
        """The answer, if it is ready or there is no time left; None: `look_at_ms` says when to look again."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer, and the records that make it true. No records: nothing changed."""

    response: Message | Waiting | None
    """None: the client wants no answer (a produce request with acks=0)."""
    records: Records = ()
    contact: BrokerContact | None = None
    departing: Departing | None = None
    went_offline: WentOffline | None = None
    root_log_levels: Mapping[int, str] = field(default_factory=dict)
    """New levels of root loggers, by node. Soft state: a process forgets them when it ends."""
    unsaid: Mapping[str, str] = field(default_factory=dict)
    """Why topics were refused, by name, where the response has no place for it: for the request log."""


Stretches: TypeAlias = Generator[None, None, Outcome]
"""A decision that takes long: between two stretches others are served, but nobody changes the image."""


def at_once(stretches: Stretches) -> Outcome:
    """The whole decision in one go."""
    while True:
        try:
            next(stretches)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
