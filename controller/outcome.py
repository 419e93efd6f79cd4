"""What a handler is given beside the image and the request, and what it gives back.

Handlers are synchronous functions `(image, request, context) -> Outcome`. They change nothing: a change is the
records of the outcome, which `controller.core` appends and replays. Time, randomness and new ids are taken from
the context, before a record exists, so that replay needs none of them (Kafka: ControllerResult).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from controller.random_ids import new_uuid
from controller.settings import Settings
from protocol.api import Api, Listener
from protocol.columns import Columns
from protocol.fields import Message
from protocol.uuid import Uuid

# One request is one batch: with the ids of replicas, ISR and directories this many come to about 250 MB.
MAX_PLACED_REPLICAS_PER_REQUEST = 10_000_000

Record: TypeAlias = Message | Columns[Any]
Records: TypeAlias = Sequence[Record]
"""Records in log order; a run of columns stands for one record per row."""


def count_records(records: Records) -> int:
    """How many offsets `records` take."""
    return sum(len(record) if isinstance(record, Columns) else 1 for record in records)


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """Who this cluster and its controller are: fixed while the process runs."""

    cluster_id: str
    controller_id: int
    controller_end_point: tuple[str, int] | None = None
    """Host and port of the controller listener, if there is one."""


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
    broker_id: int | None = None
    """The broker that was asked; None on the controller's listener, where cluster-wide values apply."""
    listener: Listener = "broker"
    client_id: str | None = None
    served_apis: Sequence[Api[Any, Any]] = ()
    """The APIs of the listener that was asked, by key."""
    replicas_left: int = MAX_PLACED_REPLICAS_PER_REQUEST
    """How many replicas this request may still have placed; placement counts it down."""
    has_session: Callable[[int], bool] = lambda _: False
    """Whether a broker's heartbeats are up to date (soft state)."""
    controlled_shutdown_offset: Callable[[int], int] = lambda _: 0
    """The offset behind the records that began a broker's controlled shutdown (soft state)."""

    def for_version(self, api_version: int) -> "RequestContext":
        """The same context for a request of another version, made on the client's behalf."""
        return replace(self, api_version=api_version)

    def new_uuid(self) -> Uuid:
        """A fresh id from the seeded generator."""
        return new_uuid(self.rng.bytes)


@dataclass(frozen=True, slots=True)
class BrokerContact:
    """A broker was heard from: its session lives on. Soft state, kept by the core and never logged."""

    broker_id: int
    controlled_shutdown_offset: int | None = None
    """Set when this request began its controlled shutdown: what the broker has to catch up to before it may stop."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer, and the records that make it true. No records: nothing changed."""

    response: Message
    records: Records = ()
    contact: BrokerContact | None = None
