"""The rights that each request about groups and offsets needs: rows like those of `authorization_rows`."""

from klamm.controller.authorizer import AclOperation
from klamm.protocol.messages.groups import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    sync_group,
)
from klamm.protocol.messages.offsets import offset_commit, offset_delete, offset_fetch
from klamm.protocol.messages.streams import streams_group_describe, streams_group_heartbeat
from klamm.protocol.uuid import Uuid
from tests.controller.handlers.authorization_row import GROUP_DENIED, Row, group

READ, DESCRIBE, DELETE = AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE
NO_TOPIC = offset_commit.OffsetCommitRequestTopic(
    topic_id=Uuid(b"\1" * 16), partitions=[offset_commit.OffsetCommitRequestPartition()]
)

GROUP_ROWS = [
    Row(
        "FindCoordinator",
        find_coordinator.API,
        lambda name: find_coordinator.FindCoordinatorRequest(coordinator_keys=[name]),
        [group(DESCRIBE), group(READ), group(DELETE)],
        GROUP_DENIED,
    ),
    Row(
        "JoinGroup",
        join_group.API,
        lambda name: join_group.JoinGroupRequest(group_id=name, session_timeout_ms=10_000),
        [group(READ)],
        GROUP_DENIED,
    ),
    Row(
        "SyncGroup",
        sync_group.API,
        lambda name: sync_group.SyncGroupRequest(group_id=name),
        [group(READ)],
        GROUP_DENIED,
    ),
    Row(
        "Heartbeat", heartbeat.API, lambda name: heartbeat.HeartbeatRequest(group_id=name), [group(READ)], GROUP_DENIED
    ),
    Row(
        "LeaveGroup",
        leave_group.API,
        lambda name: leave_group.LeaveGroupRequest(group_id=name),
        [group(READ)],
        GROUP_DENIED,
    ),
    Row(
        "OffsetCommit",
        offset_commit.API,
        lambda name: offset_commit.OffsetCommitRequest(group_id=name, topics=[NO_TOPIC]),
        [group(READ)],
        GROUP_DENIED,
    ),
    Row(
        "OffsetFetch",
        offset_fetch.API,
        lambda name: offset_fetch.OffsetFetchRequest(
            groups=[offset_fetch.OffsetFetchRequestGroup(group_id=name, topics=None)]
        ),
        [group(DESCRIBE), group(READ)],
        GROUP_DENIED,
    ),
    Row(
        "OffsetDelete",
        offset_delete.API,
        lambda name: offset_delete.OffsetDeleteRequest(group_id=name),
        [group(DELETE)],
        GROUP_DENIED,
    ),
    Row(
        "DescribeGroups",
        describe_groups.API,
        lambda name: describe_groups.DescribeGroupsRequest(groups=[name]),
        [group(DESCRIBE), group(READ)],
        GROUP_DENIED,
    ),
    Row(
        "DeleteGroups",
        delete_groups.API,
        lambda name: delete_groups.DeleteGroupsRequest(groups_names=[name]),
        [group(DELETE)],
        GROUP_DENIED,
    ),
    Row(
        "ConsumerGroupHeartbeat",
        consumer_group_heartbeat.API,
        lambda name: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(group_id=name, member_id="a"),
        [group(READ)],
        GROUP_DENIED,
    ),
    Row(
        "ConsumerGroupDescribe",
        consumer_group_describe.API,
        lambda name: consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[name]),
        [group(DESCRIBE), group(READ)],
        GROUP_DENIED,
    ),
    Row(
        "StreamsGroupHeartbeat",
        streams_group_heartbeat.API,
        lambda name: streams_group_heartbeat.StreamsGroupHeartbeatRequest(group_id=name, member_id="a"),
        [group(READ)],
        GROUP_DENIED,
    ),
    Row(
        "StreamsGroupDescribe",
        streams_group_describe.API,
        lambda name: streams_group_describe.StreamsGroupDescribeRequest(group_ids=[name]),
        [group(DESCRIBE), group(READ)],
        GROUP_DENIED,
    ),
]
