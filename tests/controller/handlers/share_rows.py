"""The rights that each request about share groups needs: rows like those of `authorization_rows`."""

from klamm.controller.authorizer import AclOperation
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
from klamm.protocol.uuid import Uuid
from tests.controller.handlers.authorization_row import CLUSTER_DENIED, GROUP_DENIED, Row, group, on_cluster

READ, DESCRIBE, DELETE = AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE
TOPIC_ID = Uuid(b"\1" * 16)
BY_BROKERS = [on_cluster(AclOperation.CLUSTER_ACTION)]


def state_row(name: str, module: object, topic: type, request: type, partition: type) -> Row:
    """A row about one of the share coordinator's own APIs."""
    return Row(
        name,
        module.API,  # type: ignore[attr-defined]
        lambda group_id: request(group_id=group_id, topics=[topic(topic_id=TOPIC_ID, partitions=[partition()])]),
        BY_BROKERS,
        CLUSTER_DENIED,
    )


SHARE_ROWS = [
    Row(
        "ShareGroupHeartbeat",
        share_group_heartbeat.API,
        lambda name: share_group_heartbeat.ShareGroupHeartbeatRequest(group_id=name, member_id="m", member_epoch=1),
        [group(READ)],
        GROUP_DENIED,
    ),
    Row(
        "ShareGroupDescribe",
        share_group_describe.API,
        lambda name: share_group_describe.ShareGroupDescribeRequest(group_ids=[name]),
        [group(DESCRIBE), group(READ), group(DELETE)],
        GROUP_DENIED,
    ),
    Row(
        "ShareFetch",
        share_fetch.API,
        lambda name: share_fetch.ShareFetchRequest(group_id=name, member_id="m"),
        [group(READ)],
        GROUP_DENIED,
    ),
    Row(
        "ShareAcknowledge",
        share_acknowledge.API,
        lambda name: share_acknowledge.ShareAcknowledgeRequest(group_id=name, member_id="m", share_session_epoch=1),
        [group(READ)],
        GROUP_DENIED,
    ),
    Row(
        "DescribeShareGroupOffsets",
        describe_share_group_offsets.API,
        lambda name: describe_share_group_offsets.DescribeShareGroupOffsetsRequest(
            groups=[describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(group_id=name)]
        ),
        [group(DESCRIBE), group(READ), group(DELETE)],
        GROUP_DENIED,
    ),
    Row(
        "AlterShareGroupOffsets",
        alter_share_group_offsets.API,
        lambda name: alter_share_group_offsets.AlterShareGroupOffsetsRequest(group_id=name),
        [group(READ)],
        GROUP_DENIED,
    ),
    Row(
        "DeleteShareGroupOffsets",
        delete_share_group_offsets.API,
        lambda name: delete_share_group_offsets.DeleteShareGroupOffsetsRequest(group_id=name),
        [group(DELETE)],
        GROUP_DENIED,
    ),
    state_row(
        "InitializeShareGroupState",
        initialize_share_group_state,
        initialize_share_group_state.InitializeStateData,
        initialize_share_group_state.InitializeShareGroupStateRequest,
        initialize_share_group_state.PartitionData,
    ),
    state_row(
        "ReadShareGroupState",
        read_share_group_state,
        read_share_group_state.ReadStateData,
        read_share_group_state.ReadShareGroupStateRequest,
        read_share_group_state.PartitionData,
    ),
    state_row(
        "WriteShareGroupState",
        write_share_group_state,
        write_share_group_state.WriteStateData,
        write_share_group_state.WriteShareGroupStateRequest,
        write_share_group_state.PartitionData,
    ),
    state_row(
        "DeleteShareGroupState",
        delete_share_group_state,
        delete_share_group_state.DeleteStateData,
        delete_share_group_state.DeleteShareGroupStateRequest,
        delete_share_group_state.PartitionData,
    ),
    state_row(
        "ReadShareGroupStateSummary",
        read_share_group_state_summary,
        read_share_group_state_summary.ReadStateSummaryData,
        read_share_group_state_summary.ReadShareGroupStateSummaryRequest,
        read_share_group_state_summary.PartitionData,
    ),
]
