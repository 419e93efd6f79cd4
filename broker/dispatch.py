"""The APIs that brokers answer themselves, with their handlers; and the one list of all APIs that Klamm serves.

What clients are offered (`SERVED`), tests and fuzzers derive from `APIS`. Adding an API of the brokers is one line
here, beside its message module and its handler (docs/add-an-api.md). The handlers of groups are in
`dispatch_of_groups`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from klamm.broker.brokers import SimulatedBrokers
from klamm.broker.handler import BrokerHandler
from klamm.broker.handlers.alter_replica_log_dirs import handle_alter_replica_log_dirs
from klamm.broker.handlers.delete_records import handle_delete_records
from klamm.broker.handlers.describe_log_dirs import handle_describe_log_dirs
from klamm.broker.handlers.describe_producers import handle_describe_producers
from klamm.broker.handlers.fetch import handle_fetch
from klamm.broker.handlers.init_producer_id import handle_init_producer_id
from klamm.broker.handlers.list_offsets import handle_list_offsets
from klamm.broker.handlers.offset_for_leader_epoch import handle_offset_for_leader_epoch
from klamm.broker.handlers.produce import handle_produce
from klamm.broker.handlers.replica_status import handle_replica_status
from klamm.broker.handlers.telemetry import handle_get_telemetry_subscriptions, handle_push_telemetry
from klamm.broker.handlers.transactions.add_to_txn import handle_add_offsets_to_txn, handle_add_partitions_to_txn
from klamm.broker.handlers.transactions.administration import handle_describe_transactions, handle_list_transactions
from klamm.broker.handlers.transactions.end_txn import handle_end_txn
from klamm.broker.handlers.transactions.write_txn_markers import handle_write_txn_markers
from klamm.controller import dispatch as controller
from klamm.controller.context import RequestContext
from klamm.controller.handler import Handlers
from klamm.controller.handlers.quorum.fetch_log import handle_fetch_log
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.controller.releases import NO_EMULATION, Emulation
from klamm.controller.served_apis import ServedByListener, serve
from klamm.controller.steps import Steps
from klamm.protocol.api import Api
from klamm.protocol.fields import Message
from klamm.protocol.messages.brokers import allocate_producer_ids, alter_replica_log_dirs, describe_log_dirs, envelope
from klamm.protocol.messages.cluster import get_telemetry_subscriptions, push_telemetry
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
from klamm.protocol.messages.partitions import alter_partition, offset_for_leader_epoch, replica_status
from klamm.protocol.messages.share_state import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from klamm.protocol.messages.shares import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    describe_share_group_offsets,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
)
from klamm.protocol.messages.streams import streams_group_describe, streams_group_heartbeat
from klamm.protocol.messages.transactions import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    write_txn_markers,
)


def _fetch(brokers: SimulatedBrokers, image: MetadataImage, request: Any, context: RequestContext) -> Outcome | Steps:
    # The only API that means something else on the controller's listener: there it reads the metadata log.
    if context.requester.listener == "controller":
        return handle_fetch_log(image, request, context)
    return handle_fetch(brokers, image, request, context)


HANDLERS: Final[Mapping[Api[Any, Any], BrokerHandler]] = {
    produce.API: handle_produce,
    get_telemetry_subscriptions.API: handle_get_telemetry_subscriptions,
    push_telemetry.API: handle_push_telemetry,
    fetch.API: _fetch,
    list_offsets.API: handle_list_offsets,
    delete_records.API: handle_delete_records,
    init_producer_id.API: handle_init_producer_id,
    offset_for_leader_epoch.API: handle_offset_for_leader_epoch,
    describe_producers.API: handle_describe_producers,
    describe_log_dirs.API: handle_describe_log_dirs,
    alter_replica_log_dirs.API: handle_alter_replica_log_dirs,
    replica_status.API: handle_replica_status,
    add_partitions_to_txn.API: handle_add_partitions_to_txn,
    add_offsets_to_txn.API: handle_add_offsets_to_txn,
    end_txn.API: handle_end_txn,
    write_txn_markers.API: handle_write_txn_markers,
    describe_transactions.API: handle_describe_transactions,
    list_transactions.API: handle_list_transactions,
}

GROUP_APIS: Final[tuple[Api[Any, Any], ...]] = (
    find_coordinator.API,
    join_group.API,
    sync_group.API,
    heartbeat.API,
    leave_group.API,
    offset_commit.API,
    offset_fetch.API,
    offset_delete.API,
    describe_groups.API,
    list_groups.API,
    delete_groups.API,
    txn_offset_commit.API,
    consumer_group_heartbeat.API,
    consumer_group_describe.API,
    streams_group_heartbeat.API,
    streams_group_describe.API,
)
"""The APIs that group coordinators decide: the keys of `dispatch_of_groups.HANDLERS`."""
SHARE_APIS: Final[tuple[Api[Any, Any], ...]] = (
    share_group_heartbeat.API,
    share_group_describe.API,
    share_fetch.API,
    share_acknowledge.API,
    describe_share_group_offsets.API,
    alter_share_group_offsets.API,
    delete_share_group_offsets.API,
    initialize_share_group_state.API,
    read_share_group_state.API,
    write_share_group_state.API,
    delete_share_group_state.API,
    read_share_group_state_summary.API,
)
"""The APIs of share groups: the keys of `dispatch_of_shares.HANDLERS`."""
BROKER_APIS: Final = (*HANDLERS, *GROUP_APIS, *SHARE_APIS)
"""The APIs that brokers answer themselves."""
APIS: Final = (*BROKER_APIS, *controller.HANDLERS)
"""All APIs that Klamm serves."""
SERVED: Final[ServedByListener] = serve(APIS)
"""The APIs that every client is served, unless the settings say otherwise."""


def handlers_with(brokers: SimulatedBrokers, emulation: Emulation = NO_EMULATION) -> Handlers:
    """The handlers of all APIs, for a controller in one process with `brokers`, and those that brokers of an emulated
    release have in addition."""
    of_groups = {api: _imported_when_asked(api, _handlers_of_groups) for api in GROUP_APIS}
    of_shares = {api: _imported_when_asked(api, _handlers_of_shares) for api in SHARE_APIS}
    return {
        **{api: partial(handle, brokers) for api, handle in {**HANDLERS, **of_groups, **of_shares}.items()},
        **controller.HANDLERS,
        **(_of_zookeeper() if any(release.has_zookeeper for release in emulation.releases) else {}),
    }


def _of_zookeeper() -> Handlers:
    from klamm.controller.handlers.brokers.between_nodes import BETWEEN_NODES, refused_to_clients

    of_controllers = (alter_partition.API, envelope.API, allocate_producer_ids.API)
    return {
        **BETWEEN_NODES,
        **{api: refused_to_clients(api.response, controller.HANDLERS[api]) for api in of_controllers},
    }


def _handlers_of_groups() -> Mapping[Api[Any, Any], BrokerHandler]:
    from klamm.broker.dispatch_of_groups import HANDLERS as OF_GROUPS

    return OF_GROUPS


def _handlers_of_shares() -> Mapping[Api[Any, Any], BrokerHandler]:
    from klamm.broker.dispatch_of_shares import HANDLERS as OF_SHARES

    return OF_SHARES


def _imported_when_asked(
    api: Api[Any, Any], imported: Callable[[], Mapping[Api[Any, Any], BrokerHandler]]
) -> BrokerHandler:
    # Many clusters never have a group. The modules of groups are a sixth of the code that a start would import.
    def handle(
        brokers: SimulatedBrokers, image: MetadataImage, request: Message, context: RequestContext
    ) -> Outcome | Steps:
        return imported()[api](brokers, image, request, context)

    return handle
