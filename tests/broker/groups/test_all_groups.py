"""A shard with groups of both protocols: timers, conversion, loading, limits of memory; without partitions."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from klamm.broker.coordinator.outbox import Outbox, Written
from klamm.broker.groups.all_groups import AllGroups
from klamm.broker.groups.classic_group import GroupState
from klamm.broker.groups.classic_requests import Join
from klamm.broker.groups.consumer.hosted import RESOLUTION_STEP, Client, Cluster
from klamm.broker.groups.consumer.outcome import GroupSettings as ConsumerSettings
from klamm.broker.groups.limits import MAX_GROUP_BYTES, MAX_SUBSCRIPTION_BYTES
from klamm.broker.groups.offset_protocol import Commit, Committer
from klamm.broker.groups.settings import GroupSettings
from klamm.broker.topic_changes import TopicChanges
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fields import Message
from klamm.protocol.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from klamm.protocol.messages.groups.leave_group import LeaveGroupRequest, MemberIdentity
from klamm.protocol.messages.groups.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.groups.consumer_host import TopicTable, same
from tests.broker.groups.test_mixed_groups import assignment, subscription

GROUP = "g"
CLASSIC = GroupSettings(
    max_size=100,
    initial_rebalance_delay_ms=0,
    min_session_timeout_ms=1_000,
    max_session_timeout_ms=60_000,
    offset_metadata_max_bytes=4_096,
    offsets_retention_ms=86_400_000,
    offsets_retention_check_interval_ms=600_000,
)
CONSUMER = ConsumerSettings(session_timeout_ms=3_000, assignment_interval_ms=0)


class Answered:
    """A waiter that stores its response."""

    def __init__(self) -> None:
        self.response: Any = None

    @property
    def is_answered(self) -> bool:
        return self.response is not None

    def resolve(self, response: object) -> None:
        self.response = response

    def refuse(self, code: ErrorCode) -> None:
        self.response = code


class Shard:
    """Replays and answers immediately; `log` has the written records."""

    def __init__(self) -> None:
        self.topics = TopicTable()
        self.changes = TopicChanges()
        self.now_ms = 1_000
        self.log: list[tuple[Message, Message | None]] = []
        self.state = self.new_state()

    def new_state(self) -> AllGroups:
        ids = iter(range(1_000_000))
        cluster = Cluster(lambda: self.topics, lambda _: CONSUMER, self.changes, lambda: f"made-{next(ids)}")
        return AllGroups(CLASSIC, lambda: f"id-{next(ids)}", cluster)

    def run(self, operation: Callable[[Answered], Outbox]) -> Answered:
        waiter = Answered()
        self._settle(operation(waiter))
        self.pass_time(0)
        return waiter

    def pass_time(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        while (outbox := self.state.tick(self.now_ms)) is not None:
            self._settle(outbox)

    def _settle(self, outbox: Outbox) -> None:
        for record in outbox.records:
            self.log.append((record.key, record.value))
            self.state.replay(record.key, record.value, Written(len(self.log), self.now_ms, live=True))
        for reply in outbox.replies:
            if reply.response is None:
                reply.waiter.refuse(reply.code)
            else:
                reply.waiter.resolve(reply.response)

    def heartbeat(self, member_id: str, epoch: int = 0, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        joining = {"rebalance_timeout_ms": 4_000, "topic_partitions": []} if epoch == 0 else {}
        request = ConsumerGroupHeartbeatRequest(
            group_id=fields.pop("group_id", GROUP), member_id=member_id, member_epoch=epoch, **{**joining, **fields}
        )
        client = Client("c", "/127.0.0.1", 1, lambda _: True)
        response = self.run(lambda waiter: self.state.consumer_heartbeat(request, client, waiter, self.now_ms)).response
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response

    def join_classic(self, member_id: str) -> Answered:
        waiter = Answered()
        asked = Join(
            waiter=waiter,
            member_id=member_id,
            instance_id=None,
            protocol_type="consumer",
            protocols={"range": subscription()},
            session_timeout_ms=6_000,
            rebalance_timeout_ms=4_000,
            client_id="c",
            client_host="/127.0.0.1",
            requires_known_member_id=False,
            can_skip_assignment=True,
        )
        self._settle(self.state.join(GROUP, asked, self.now_ms))
        self.pass_time(0)
        return waiter


@pytest.fixture
def shard() -> Shard:
    made = Shard()
    made.topics.create("orders", 4)
    return made


def with_a_classic_member(shard: Shard) -> str:
    """Add a classic group whose only member has all partitions. Returns its member id."""
    joined = shard.join_classic("").response
    sent = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment(0, 1, 2, 3))
    request = SyncGroupRequest(
        group_id=GROUP, member_id=joined.member_id, generation_id=joined.generation_id, assignments=[sent]
    )
    shard.run(lambda waiter: shard.state.sync(request, waiter, shard.now_ms))
    return str(joined.member_id)


def test_a_group_is_upgraded_and_downgraded_while_a_classic_member_lives(shard: Shard) -> None:
    classic_id = with_a_classic_member(shard)
    joined = shard.heartbeat("b", subscribed_topic_names=["orders"])
    assert (joined.error_code, joined.member_epoch) == (0, 2)
    assert GROUP not in shard.state.groups
    assert shard.state.consumer.groups[GROUP].members.keys() == {classic_id, "b"}
    request = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id="b")])
    shard.run(lambda waiter: shard.state.leave(request, waiter, shard.now_ms))
    assert GROUP not in shard.state.consumer.groups
    group = shard.state.groups[GROUP]
    assert (group.state, list(group.members)) == (GroupState.PREPARING_REBALANCE, [classic_id])
    assert shard.join_classic(classic_id).response.generation_id == 3


def test_who_waits_in_a_classic_group_that_is_upgraded_has_to_join_again(shard: Shard) -> None:
    classic_id = with_a_classic_member(shard)
    waiting = shard.join_classic("")
    assert not waiting.is_answered
    shard.heartbeat("b", subscribed_topic_names=["orders"])
    assert waiting.response.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert classic_id in shard.state.consumer.groups[GROUP].members


def test_an_empty_group_of_either_kind_is_taken_over_by_the_other_protocol(shard: Shard) -> None:
    shard.heartbeat("a", subscribed_topic_names=["orders"])
    shard.heartbeat("a", -1)
    assert shard.join_classic("").response.generation_id == 1
    assert GROUP not in shard.state.consumer.groups


def test_a_session_that_ends_removes_the_member(shard: Shard) -> None:
    shard.heartbeat("a", subscribed_topic_names=["orders"])
    shard.pass_time(2_999)
    assert "a" in shard.state.consumer.groups[GROUP].members
    shard.pass_time(1)
    assert shard.state.consumer.groups[GROUP].state == "Empty"


def test_regular_expressions_are_resolved_in_steps_while_others_are_served(shard: Shard) -> None:
    for number in range(3 * RESOLUTION_STEP):
        shard.topics.create(f"audit-{number}", 1)
    assert shard.heartbeat("a", subscribed_topic_regex="o.*").member_epoch == 1
    assert shard.heartbeat("b", group_id="other", subscribed_topic_names=["orders"]).member_epoch == 2
    assert not shard.state.consumer.groups[GROUP].resolved
    for _ in range(4):
        shard.pass_time(1)
    assert shard.state.consumer.groups[GROUP].resolved["o.*"].topic_names == {"orders"}
    assert shard.heartbeat("a", 1).member_epoch == 2


def test_a_shard_that_loads_the_records_has_the_same_groups_and_their_sessions(shard: Shard) -> None:
    shard.heartbeat("a", subscribed_topic_names=["orders"])
    shard.heartbeat("b", subscribed_topic_regex="o.*")
    before = shard.state.consumer.groups[GROUP]
    shard.state = shard.new_state()
    for offset, (key, value) in enumerate(shard.log):
        shard.state.replay(key, value, Written(offset, 0))
    assert same(shard.state.consumer.groups[GROUP], before)
    shard.state.loaded(shard.now_ms)
    shard.pass_time(3_000)
    assert shard.state.consumer.groups[GROUP].state == "Empty"


def test_subscriptions_are_bounded_one_by_one_and_together(shard: Shard) -> None:
    assert shard.heartbeat("a", subscribed_topic_names=["x" * MAX_GROUP_BYTES]).error_code == -1
    names = ["x" * (MAX_GROUP_BYTES - 1_000)]
    codes = [
        shard.heartbeat(f"m{number}", group_id=f"g{number}", subscribed_topic_names=names).error_code
        for number in range(MAX_SUBSCRIPTION_BYTES // MAX_GROUP_BYTES + 2)
    ]
    assert set(codes) == {ErrorCode.NONE, ErrorCode.GROUP_MAX_SIZE_REACHED}
    assert shard.state.consumer.subscription_bytes <= MAX_SUBSCRIPTION_BYTES
    shard.heartbeat("m0", -1, group_id="g0")
    assert shard.heartbeat("late", subscribed_topic_names=names).error_code == ErrorCode.NONE


def test_settings_of_one_group_hold_for_it(shard: Shard) -> None:
    shard.state.consumer.cluster = replace(
        shard.state.consumer.cluster, settings_of=lambda _: replace(CONSUMER, heartbeat_interval_ms=150)
    )
    assert shard.heartbeat("a", subscribed_topic_names=["orders"]).heartbeat_interval_ms == 150


def commit(shard: Shard, epoch: int, *commits: Commit, producer_id: int = -1) -> object:
    """The codes by partition, or that of the request."""
    protocol, committer = shard.state.offset_protocol, Committer(GROUP, "a", None, epoch)
    if producer_id >= 0:
        answered = shard.run(
            lambda waiter: protocol.commit_in_transaction(
                committer, commits, waiter, shard.now_ms, producer_id=producer_id, producer_epoch=0
            )
        )
    else:
        answered = shard.run(lambda waiter: protocol.commit(committer, commits, waiter, shard.now_ms, api_version=9))
    codes = getattr(answered.response, "codes", None)
    return answered.response if codes is None else list(codes.values())


def test_one_partition_that_an_older_epoch_may_not_commit_refuses_all(shard: Shard) -> None:
    """As recorded for streams groups; Apache Kafka has one code for both."""
    shard.heartbeat("a", subscribed_topic_names=["orders"])
    shard.heartbeat("b", subscribed_topic_names=["orders"])
    topic = shard.topics.named("orders")
    assert topic is not None
    owned = [TopicPartitions(topic_id=topic.topic_id, partitions=[0, 1])]
    assert shard.heartbeat("a", 2, topic_partitions=owned).member_epoch == 3
    kept, lost = (Commit("orders", topic.topic_id, partition, 5, -1, "") for partition in (0, 3))
    gone, large = replace(kept, topic_name="gone"), replace(lost, metadata="x" * 5_000)
    assert commit(shard, 2, kept) == [ErrorCode.NONE]
    assert commit(shard, 2, kept, lost) == commit(shard, 2, lost, kept) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(shard, 2, kept, large) == [ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert commit(shard, 2, kept, producer_id=7) == [ErrorCode.NONE]
    assert commit(shard, 2, kept, lost, producer_id=7) == ErrorCode.ILLEGAL_GENERATION
    assert commit(shard, 2, gone, producer_id=7) == ErrorCode.ILLEGAL_GENERATION
