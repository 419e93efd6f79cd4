"""The APIs of share groups, with their handlers.

`dispatch` imports this module when the first of these requests arrives, and lists their APIs in `SHARE_APIS`: each API
has a line in both.
"""

from collections.abc import Mapping
from typing import Any, Final

from klamm.broker.handler import BrokerHandler
from klamm.broker.handlers.share.described_offsets import handle_describe_share_group_offsets
from klamm.broker.handlers.share.group_offsets import (
    handle_alter_share_group_offsets,
    handle_delete_share_group_offsets,
)
from klamm.broker.handlers.share.groups import handle_share_group_describe, handle_share_group_heartbeat
from klamm.broker.handlers.share.share_acknowledge import handle_share_acknowledge
from klamm.broker.handlers.share.share_fetch import handle_share_fetch
from klamm.broker.handlers.share.state import (
    handle_delete_share_group_state,
    handle_initialize_share_group_state,
    handle_read_share_group_state,
    handle_read_share_group_state_summary,
    handle_write_share_group_state,
)
from klamm.protocol.api import Api
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

HANDLERS: Final[Mapping[Api[Any, Any], BrokerHandler]] = {
    share_group_heartbeat.API: handle_share_group_heartbeat,
    share_group_describe.API: handle_share_group_describe,
    share_fetch.API: handle_share_fetch,
    share_acknowledge.API: handle_share_acknowledge,
    describe_share_group_offsets.API: handle_describe_share_group_offsets,
    alter_share_group_offsets.API: handle_alter_share_group_offsets,
    delete_share_group_offsets.API: handle_delete_share_group_offsets,
    initialize_share_group_state.API: handle_initialize_share_group_state,
    read_share_group_state.API: handle_read_share_group_state,
    write_share_group_state.API: handle_write_share_group_state,
    delete_share_group_state.API: handle_delete_share_group_state,
    read_share_group_state_summary.API: handle_read_share_group_state_summary,
}
