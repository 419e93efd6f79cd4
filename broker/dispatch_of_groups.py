"""The APIs that group coordinators decide, with their handlers.

`dispatch` imports this module when the first of these requests arrives, and lists their APIs in `GROUP_APIS`: each API
has a line in both.
"""

from collections.abc import Mapping
from typing import Any, Final

from klamm.broker.handler import BrokerHandler
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
from klamm.broker.handlers.groups.streams_groups import (
    handle_streams_group_describe,
    handle_streams_group_heartbeat,
)
from klamm.broker.handlers.transactions.txn_offset_commit import handle_txn_offset_commit
from klamm.protocol.api import Api
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
from klamm.protocol.messages.streams import streams_group_describe, streams_group_heartbeat

HANDLERS: Final[Mapping[Api[Any, Any], BrokerHandler]] = {
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
    txn_offset_commit.API: handle_txn_offset_commit,
    consumer_group_heartbeat.API: handle_consumer_group_heartbeat,
    consumer_group_describe.API: handle_consumer_group_describe,
    streams_group_heartbeat.API: handle_streams_group_heartbeat,
    streams_group_describe.API: handle_streams_group_describe,
}
