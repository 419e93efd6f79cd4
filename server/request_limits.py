"""What one request may cost: its bytes, its entries, and where it is decoded and decided.

Each API has a row: one of the two defaults, or one of `_OTHERS`. The sizes are compared before the request is
decoded, so that no request can take memory or time that its row does not allow (docs/hard-knocks.md has what was
measured). An entry is an element of an array, at any depth (`klamm.protocol.codec.sizes`).
"""

from collections.abc import Mapping
from typing import Final

from klamm.broker.dispatch import BROKER_APIS
from klamm.broker.groups.limits import MAX_TASKS_OF_GROUP
from klamm.protocol.api import Api
from klamm.protocol.messages.data import delete_records, describe_producers, fetch, list_offsets, produce
from klamm.protocol.messages.groups import consumer_group_describe, describe_groups, find_coordinator
from klamm.protocol.messages.partitions import alter_partition_reassignments, offset_for_leader_epoch, replica_status
from klamm.protocol.messages.shares import share_group_describe
from klamm.protocol.messages.streams import streams_group_describe, streams_group_heartbeat
from klamm.protocol.messages.topics import create_topics, metadata
from klamm.protocol.messages.transactions import describe_transactions, init_producer_id, write_txn_markers
from klamm.quick_dataclasses import dataclass
from klamm.server.limits import KIB, MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """The limits of one API."""

    small_bytes: int = 256
    """A request of at most this size is handled at once, and its entries are not counted."""
    entries_at_once: int = 20
    """A request of at most this many entries is handled at once. A larger one is decoded in a thread."""
    max_entries: int = 200_000
    """A request of more entries is refused before it is decoded: its connection is closed."""
    max_bytes: int | None = 10 * MIB
    """A larger request is refused before it is decoded. None: `socket.request.max.bytes` is the only limit, because the
    request carries record batches."""
    of_metadata: bool = True
    """Whether a large request is decided in the thread, while the metadata does not change. Otherwise it is decided on
    the event loop, because it is about what brokers hold, which changes all the time; `max_entries` bounds how long."""


DEFAULT: Final = RequestLimits()
OF_BROKERS: Final = RequestLimits(small_bytes=4 * KIB, entries_at_once=500, max_entries=10_000, of_metadata=False)
"""The default of the APIs that brokers answer themselves: their coordinators and partition logs change all the time."""
_OTHERS: Final[Mapping[Api, RequestLimits]] = {  # type: ignore[type-arg]
    produce.API: RequestLimits(
        small_bytes=16 * KIB, entries_at_once=1_000, max_entries=5_000, max_bytes=None, of_metadata=False
    ),
    fetch.API: RequestLimits(
        small_bytes=16 * KIB, entries_at_once=1_000, max_entries=5_000, max_bytes=4 * MIB, of_metadata=False
    ),
    list_offsets.API: RequestLimits(entries_at_once=500, max_entries=5_000, of_metadata=False),
    delete_records.API: RequestLimits(entries_at_once=500, max_entries=5_000, of_metadata=False),
    describe_producers.API: RequestLimits(entries_at_once=500, max_entries=5_000, of_metadata=False),
    replica_status.API: RequestLimits(entries_at_once=500, max_entries=5_000, of_metadata=False),
    offset_for_leader_epoch.API: RequestLimits(entries_at_once=500, max_entries=5_000, of_metadata=False),
    init_producer_id.API: RequestLimits(max_entries=1_000, of_metadata=False),
    **dict.fromkeys(
        (
            consumer_group_describe.API,
            describe_groups.API,
            describe_transactions.API,
            find_coordinator.API,
            streams_group_describe.API,
            share_group_describe.API,
            write_txn_markers.API,
        ),
        RequestLimits(small_bytes=4 * KIB, entries_at_once=500, max_entries=4_000, of_metadata=False),
    ),
    # A member may have all tasks of its group.
    streams_group_heartbeat.API: RequestLimits(
        small_bytes=4 * KIB, entries_at_once=500, max_entries=4 * MAX_TASKS_OF_GROUP, of_metadata=False
    ),
    # Their handlers pause after some hundred items by themselves.
    create_topics.API: RequestLimits(small_bytes=4 * KIB, entries_at_once=1_000),
    alter_partition_reassignments.API: RequestLimits(small_bytes=4 * KIB, entries_at_once=1_000),
    metadata.API: RequestLimits(small_bytes=4 * KIB, entries_at_once=500),
}
_BY_KEY: Final = {
    api.key.to_bytes(2, "big"): limits for api, limits in {**dict.fromkeys(BROKER_APIS, OF_BROKERS), **_OTHERS}.items()
}


def limits_of(frame: bytes) -> RequestLimits:
    """The limits of the API whose key is in the first two bytes."""
    return _BY_KEY.get(frame[:2], DEFAULT)
