"""The APIs that brokers answer themselves, with their handlers; and the one list of all APIs that Klamm serves.

What clients are offered (`SERVED`), tests and fuzzers derive from `APIS`. Adding an API of the brokers is one line
here, beside its message module and its handler (docs/add-an-api.md).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.handlers.delete_records import handle_delete_records
from klamm.broker.handlers.describe_log_dirs import handle_describe_log_dirs
from klamm.broker.handlers.describe_producers import handle_describe_producers
from klamm.broker.handlers.fetch import handle_fetch
from klamm.broker.handlers.groups.administration import (
    handle_delete_groups,
    handle_describe_groups,
    handle_list_groups,
)
from klamm.broker.handlers.groups.consumer_groups import (
    handle_consumer_group_describe,
    handle_consumer_group_heartbeat,
)
from klamm.broker.handlers.groups.find_coordinator import handle_find_coordinator
from klamm.broker.handlers.groups.join_group import handle_join_group
from klamm.broker.handlers.groups.members import handle_heartbeat, handle_leave_group, handle_sync_group
from klamm.broker.handlers.groups.offset_commit import handle_offset_commit
from klamm.broker.handlers.groups.offset_delete import handle_offset_delete
from klamm.broker.handlers.groups.offset_fetch import handle_offset_fetch
from klamm.broker.handlers.init_producer_id import handle_init_producer_id
from klamm.broker.handlers.list_offsets import handle_list_offsets
from klamm.broker.handlers.offset_for_leader_epoch import handle_offset_for_leader_epoch
from klamm.broker.handlers.produce import handle_produce
from klamm.broker.handlers.replica_status import handle_replica_status
from klamm.broker.handlers.transactions.add_to_txn import handle_add_offsets_to_txn, handle_add_partitions_to_txn
from klamm.broker.handlers.transactions.administration import handle_describe_transactions, handle_list_transactions
from klamm.broker.handlers.transactions.end_txn import handle_end_txn
from klamm.broker.handlers.transactions.txn_offset_commit import handle_txn_offset_commit
from klamm.broker.handlers.transactions.write_txn_markers import handle_write_txn_markers
from klamm.controller import dispatch as controller
from klamm.controller.context import RequestContext
from klamm.controller.handler import Handlers
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.controller.served_apis import ServedByListener, serve
from klamm.controller.steps import Steps
from klamm.protocol.api import Api
from klamm.protocol.messages.brokers import describe_log_dirs
from klamm.protocol.messages.data import delete_records, describe_producers, fetch, list_offsets, produce
from klamm.protocol.messages.groups import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    sync_group,
)
from klamm.protocol.messages.offsets import offset_commit, offset_delete, offset_fetch, txn_offset_commit
from klamm.protocol.messages.partitions import offset_for_leader_epoch, replica_status
from klamm.protocol.messages.transactions import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    write_txn_markers,
)

BrokerHandler: TypeAlias = Callable[[SimulatedBrokers, MetadataImage, Any, RequestContext], Outcome | Steps]
"""A `Handler` with one more argument, the first: the brokers of this process. The context says which one was asked."""

HANDLERS: Final[Mapping[Api[Any, Any], BrokerHandler]] = {
    produce.API: handle_produce,
    fetch.API: handle_fetch,
    list_offsets.API: handle_list_offsets,
    delete_records.API: handle_delete_records,
    init_producer_id.API: handle_init_producer_id,
    offset_for_leader_epoch.API: handle_offset_for_leader_epoch,
    describe_producers.API: handle_describe_producers,
    describe_log_dirs.API: handle_describe_log_dirs,
    replica_status.API: handle_replica_status,
    find_coordinator.API: handle_find_coordinator,
    join_group.API: handle_join_group,
    sync_group.API: handle_sync_group,
    heartbeat.API: handle_heartbeat,
    leave_group.API: handle_leave_group,
    offset_commit.API: handle_offset_commit,
    offset_fetch.API: handle_offset_fetch,
    offset_delete.API: handle_offset_delete,
    describe_groups.API: handle_describe_groups,
    list_groups.API: handle_list_groups,
    delete_groups.API: handle_delete_groups,
    add_partitions_to_txn.API: handle_add_partitions_to_txn,
    add_offsets_to_txn.API: handle_add_offsets_to_txn,
    end_txn.API: handle_end_txn,
    txn_offset_commit.API: handle_txn_offset_commit,
    write_txn_markers.API: handle_write_txn_markers,
    describe_transactions.API: handle_describe_transactions,
    list_transactions.API: handle_list_transactions,
    consumer_group_heartbeat.API: handle_consumer_group_heartbeat,
    consumer_group_describe.API: handle_consumer_group_describe,
}

APIS: Final = (*HANDLERS, *controller.HANDLERS)
"""All APIs that Klamm serves."""
SERVED: Final[ServedByListener] = serve(APIS)
"""The APIs that every client is served, unless the settings say otherwise."""


def handlers_with(brokers: SimulatedBrokers) -> Handlers:
    """The handlers of all APIs, for a controller in one process with `brokers`."""
    return {**{api: partial(handle, brokers) for api, handle in HANDLERS.items()}, **controller.HANDLERS}
