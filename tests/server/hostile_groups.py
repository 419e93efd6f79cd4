"""Requests about groups and transactions that mean no good, from a seed: ids, epochs and sizes of any kind."""

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from random import Random
from typing import Any

from klamm.broker.dispatch import APIS
from klamm.protocol.api import Api
from klamm.protocol.fields import Message
from klamm.protocol.messages.groups.consumer_group_describe import ConsumerGroupDescribeRequest
from klamm.protocol.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from klamm.protocol.messages.groups.delete_groups import DeleteGroupsRequest
from klamm.protocol.messages.groups.describe_groups import DescribeGroupsRequest
from klamm.protocol.messages.groups.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.groups.heartbeat import HeartbeatRequest
from klamm.protocol.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.messages.groups.leave_group import LeaveGroupRequest, MemberIdentity
from klamm.protocol.messages.groups.list_groups import ListGroupsRequest
from klamm.protocol.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from klamm.protocol.messages.offsets.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.messages.offsets.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from klamm.protocol.messages.offsets.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from klamm.protocol.messages.offsets.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from klamm.protocol.messages.streams.streams_group_describe import StreamsGroupDescribeRequest
from klamm.protocol.messages.streams.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from klamm.protocol.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest
from klamm.protocol.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from klamm.protocol.messages.transactions.describe_transactions import DescribeTransactionsRequest
from klamm.protocol.messages.transactions.end_txn import EndTxnRequest
from klamm.protocol.messages.transactions.init_producer_id import InitProducerIdRequest
from klamm.protocol.messages.transactions.list_transactions import ListTransactionsRequest
from klamm.protocol.messages.transactions.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from klamm.protocol.uuid import Uuid

TOPIC = "known"
GROUPS = ("g", "h", "", "\0", "a/../b", "ö" * 300, "𝄞" * 50, "x" * 30_000)
IDS = ("", "m", "\0\x01", "ß" * 100, "y" * 30_000)
TOPICS = (TOPIC, TOPIC, "gone", "", "__consumer_offsets", "z" * 300, "__transaction_state")
NUMBERS = (-(2**31), -3, -2, -1, 0, 1, 2, 5, 1_000, 2**31 - 1)
LONGS = (-(2**63), -2, -1, 0, 1, 999, 2**40, 2**63 - 1)
SHORTS = (-(2**15), -1, 0, 1, 2**15 - 1)
REGEXES = (
    "(a+)+$",
    "(" * 500 + "a" + ")" * 500,
    "a{1000}{1000}",
    "(a|aa)*b",
    "[[:alpha:]]{100}",
    "\\p{L}*.*.*.*.*x",
    "((((a{9}){9}){9}){9}){9}",
    "[",
    "(?=a)",
    "k.*",
    "",
    "x" * 20_000,
)
BY_REQUEST = {api.request: api for api in APIS}


class Hostile:
    """The requests of one seed."""

    def __init__(self, seed: int, topic_id: Uuid) -> None:
        self._chance = Random(seed)
        self._topic_id = topic_id

    def request(self) -> tuple[Api[Any, Any], int, Message]:
        """One request in any version."""
        made = self._chance.choice(KINDS)(self)
        api = BY_REQUEST[type(made)]
        return api, self._chance.randint(api.kept_versions.start, api.latest_stable), made

    def _one(self, values: Iterable[Any]) -> Any:
        return self._chance.choice(tuple(values))

    def _many(self, make: Callable[[], Any]) -> list[Any]:
        return [make() for _ in range(self._one((0, 1, 1, 2, 50)))]

    def _instance(self) -> str | None:
        return self._one((None, None, *IDS))  # type: ignore[no-any-return]

    def join(self) -> Message:
        return JoinGroupRequest(
            group_id=self._one(GROUPS),
            session_timeout_ms=self._one((*NUMBERS, 6_000, 6_000, 6_000)),
            rebalance_timeout_ms=self._one((100, 200, *NUMBERS[:6])),
            member_id=self._one(IDS),
            group_instance_id=self._instance(),
            protocol_type=self._one(("consumer", "consumer", "connect", "", "\0")),
            protocols=self._many(
                lambda: JoinGroupRequestProtocol(
                    name=self._one(("range", *IDS)), metadata=self._chance.randbytes(self._one((0, 1, 10, 5_000)))
                )
            ),
        )

    def sync(self) -> Message:
        return SyncGroupRequest(
            group_id=self._one(GROUPS),
            generation_id=self._one(NUMBERS),
            member_id=self._one(IDS),
            group_instance_id=self._instance(),
            protocol_type=self._one((None, "consumer", "")),
            protocol_name=self._one((None, "range", "")),
            assignments=self._many(
                lambda: SyncGroupRequestAssignment(member_id=self._one(IDS), assignment=self._chance.randbytes(100))
            ),
        )

    def heartbeat(self) -> Message:
        return HeartbeatRequest(
            group_id=self._one(GROUPS),
            generation_id=self._one(NUMBERS),
            member_id=self._one(IDS),
            group_instance_id=self._instance(),
        )

    def leave(self) -> Message:
        return LeaveGroupRequest(
            group_id=self._one(GROUPS),
            member_id=self._one(IDS),
            members=self._many(lambda: MemberIdentity(member_id=self._one(IDS), group_instance_id=self._instance())),
        )

    def streams_heartbeat(self) -> Message:
        topics = [TopicInfo(name=self._one(TOPICS), partitions=self._one((0, 0, *NUMBERS)))]
        subtopologies = self._many(
            lambda: Subtopology(
                subtopology_id=self._one(IDS),
                source_topics=self._one(([], [TOPIC], list(TOPICS))),
                repartition_sink_topics=self._one(([], list(TOPICS))),
                repartition_source_topics=self._one(([], topics)),
                state_changelog_topics=self._one(([], [TopicInfo(name=self._one(TOPICS))], topics)),
                copartition_groups=self._one(([], [CopartitionGroup(source_topics=[0, 1], source_topic_regex=[-1])])),
            )
        )
        tasks = [TaskIds(subtopology_id=self._one(IDS), partitions=[0, 0, self._one(NUMBERS)])]
        return StreamsGroupHeartbeatRequest(
            group_id=self._one(GROUPS),
            member_id=self._one(IDS),
            member_epoch=self._one((0, 0, 0, *NUMBERS)),
            endpoint_information_epoch=self._one(NUMBERS),
            instance_id=self._one((None, None, None, "", "i")),
            rebalance_timeout_ms=self._one((1_000, *NUMBERS)),
            topology=self._one((None, Topology(epoch=self._one((0, 1, *NUMBERS)), subtopologies=subtopologies))),
            active_tasks=self._one((None, [], tasks)),
            standby_tasks=self._one((None, [], tasks)),
            warmup_tasks=self._one((None, [])),
            process_id=self._one((None, *IDS)),
            user_endpoint=self._one((None, Endpoint(host="h", port=1))),
            shutdown_application=self._one((False, True)),
        )

    def streams_describe(self) -> Message:
        return StreamsGroupDescribeRequest(
            group_ids=[self._one(GROUPS) for _ in range(self._one((1, 3)))], include_authorized_operations=True
        )

    def consumer_heartbeat(self) -> Message:
        return ConsumerGroupHeartbeatRequest(
            group_id=self._one(GROUPS),
            member_id=self._one(IDS),
            member_epoch=self._one((0, 0, *NUMBERS)),
            instance_id=self._instance(),
            rack_id=self._instance(),
            rebalance_timeout_ms=self._one((1_000, *NUMBERS)),
            subscribed_topic_names=self._one((None, [], [TOPIC], list(TOPICS))),
            subscribed_topic_regex=self._one((None, *REGEXES)),
            server_assignor=self._one((None, "uniform", "range", "none", "")),
            topic_partitions=self._one(
                (
                    None,
                    [],
                    [TopicPartitions(topic_id=self._topic_id, partitions=[0, 0, self._one(NUMBERS)])],
                    [TopicPartitions(topic_id=Uuid(self._chance.randbytes(16)), partitions=[0])],
                )
            ),
        )

    def consumer_describe(self) -> Message:
        return ConsumerGroupDescribeRequest(group_ids=self._many(lambda: self._one(GROUPS)))

    def describe(self) -> Message:
        return DescribeGroupsRequest(groups=self._many(lambda: self._one(GROUPS)))

    def delete(self) -> Message:
        return DeleteGroupsRequest(groups_names=self._many(lambda: self._one(GROUPS)))

    def list(self) -> Message:
        return ListGroupsRequest(states_filter=self._many(lambda: self._one(("Stable", *IDS))))

    def find(self) -> Message:
        keys = self._many(lambda: self._one((*GROUPS, f"g:{self._topic_id}:0")))
        return FindCoordinatorRequest(
            key=self._one(GROUPS), key_type=self._one((-1, 0, 1, 2, 3, 127)), coordinator_keys=keys
        )

    def commit(self) -> Message:
        partitions = self._many(
            lambda: OffsetCommitRequestPartition(
                partition_index=self._one(NUMBERS),
                committed_offset=self._one(LONGS),
                committed_leader_epoch=self._one(NUMBERS),
                committed_metadata=self._one((None, "", "m" * 4_096, "m" * 4_097, "𝄞" * 2_049)),
            )
        )
        return OffsetCommitRequest(
            group_id=self._one(GROUPS),
            generation_id_or_member_epoch=self._one(NUMBERS),
            member_id=self._one(IDS),
            group_instance_id=self._instance(),
            retention_time_ms=self._one(LONGS),
            topics=self._many(
                lambda: OffsetCommitRequestTopic(name=self._one(TOPICS), topic_id=self._topic_id, partitions=partitions)
            ),
        )

    def fetch(self) -> Message:
        topics = [OffsetFetchRequestTopics(name=self._one(TOPICS), topic_id=self._topic_id, partition_indexes=NUMBERS)]
        groups = self._many(
            lambda: OffsetFetchRequestGroup(
                group_id=self._one(GROUPS),
                member_id=self._instance(),
                member_epoch=self._one(NUMBERS),
                topics=self._one((None, topics)),
            )
        )
        return OffsetFetchRequest(group_id=self._one(GROUPS), groups=groups, require_stable=self._one((True, False)))

    def delete_offsets(self) -> Message:
        partitions = [OffsetDeleteRequestPartition(partition_index=number) for number in NUMBERS]
        topics = [OffsetDeleteRequestTopic(name=self._one(TOPICS), partitions=partitions)]
        return OffsetDeleteRequest(group_id=self._one(GROUPS), topics=topics)

    def initialize(self) -> Message:
        return InitProducerIdRequest(
            transactional_id=self._one((None, *GROUPS)),
            transaction_timeout_ms=self._one((1_000, *NUMBERS)),
            producer_id=self._one(LONGS),
            producer_epoch=self._one(SHORTS),
        )

    def add_partitions(self) -> Message:
        topics = [AddPartitionsToTxnTopic(name=self._one(TOPICS), partitions=NUMBERS)]
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=self._one(GROUPS),
            producer_id=self._one(LONGS),
            producer_epoch=self._one(SHORTS),
            verify_only=self._one((True, False)),
            topics=topics,
        )
        return AddPartitionsToTxnRequest(transactions=[transaction] * self._one((0, 1, 3)))

    def add_offsets(self) -> Message:
        return AddOffsetsToTxnRequest(
            transactional_id=self._one(GROUPS),
            producer_id=self._one(LONGS),
            producer_epoch=self._one(SHORTS),
            group_id=self._one(GROUPS),
        )

    def commit_in_transaction(self) -> Message:
        partitions = [
            TxnOffsetCommitRequestPartition(
                partition_index=number,
                committed_offset=self._one(LONGS),
                committed_metadata=self._one((None, "m" * 5_000)),
            )
            for number in NUMBERS
        ]
        return TxnOffsetCommitRequest(
            transactional_id=self._one(GROUPS),
            group_id=self._one(GROUPS),
            producer_id=self._one(LONGS),
            producer_epoch=self._one(SHORTS),
            generation_id=self._one(NUMBERS),
            member_id=self._one(IDS),
            group_instance_id=self._instance(),
            topics=[TxnOffsetCommitRequestTopic(name=self._one(TOPICS), partitions=partitions)],
        )

    def end(self) -> Message:
        return EndTxnRequest(
            transactional_id=self._one(GROUPS),
            producer_id=self._one(LONGS),
            producer_epoch=self._one(SHORTS),
            committed=self._one((True, False)),
        )

    def markers(self) -> Message:
        topics = [WritableTxnMarkerTopic(name=self._one(TOPICS), partition_indexes=NUMBERS)]
        marker = WritableTxnMarker(
            producer_id=self._one(LONGS),
            producer_epoch=self._one(SHORTS),
            transaction_result=self._one((True, False)),
            topics=topics,
            coordinator_epoch=self._one(NUMBERS),
        )
        return WriteTxnMarkersRequest(markers=[marker] * self._one((0, 1, 20)))

    def describe_transactions(self) -> Message:
        return DescribeTransactionsRequest(transactional_ids=self._many(lambda: self._one(GROUPS)))

    def list_transactions(self) -> Message:
        return ListTransactionsRequest(
            state_filters=self._many(lambda: self._one(("Ongoing", *IDS))),
            producer_id_filters=list(LONGS),
            transactional_id_pattern=self._one((None, *REGEXES)),
        )


KINDS: tuple[Callable[[Hostile], Message], ...] = (
    Hostile.join,
    Hostile.join,
    Hostile.sync,
    Hostile.heartbeat,
    Hostile.leave,
    Hostile.consumer_heartbeat,
    Hostile.consumer_heartbeat,
    Hostile.consumer_describe,
    Hostile.streams_heartbeat,
    Hostile.streams_heartbeat,
    Hostile.streams_describe,
    Hostile.describe,
    Hostile.delete,
    Hostile.list,
    Hostile.find,
    Hostile.commit,
    Hostile.fetch,
    Hostile.delete_offsets,
    Hostile.initialize,
    Hostile.add_partitions,
    Hostile.add_offsets,
    Hostile.commit_in_transaction,
    Hostile.end,
    Hostile.markers,
    Hostile.describe_transactions,
    Hostile.list_transactions,
)


def error_codes(value: object) -> list[int]:
    """All error codes of a response."""
    if is_dataclass(value) and not isinstance(value, type):
        return [
            code
            for one in fields(value)
            for code in (
                [getattr(value, one.name)] if one.name.endswith("error_code") else error_codes(getattr(value, one.name))
            )
        ]
    if isinstance(value, (list, tuple)):
        return [code for one in value for code in error_codes(one)]
    return []
