"""A shard with streams groups: offsets, end points, shutdowns, loading; limits of memory; without partitions."""

from typing import Any

import pytest

from klamm.broker.groups.groups_with_streams import request_size
from klamm.broker.groups.offset_protocol import Reader
from klamm.broker.groups.streams.group import StreamsGroup
from klamm.broker.groups.streams.member import Member
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.streams.streams_group_describe import StreamsGroupDescribeRequest
from klamm.protocol.messages.streams.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    Topology,
)
from tests.broker.groups.conversation import Conversation
from tests.broker.groups.streams_host import GROUP, StreamsShard, topology


@pytest.fixture
def shard() -> StreamsShard:
    made = StreamsShard()
    made.create("t", 4)
    return made


def statuses(response: StreamsGroupHeartbeatResponse) -> list[tuple[int, str]]:
    return [(status.status_code, status.status_detail) for status in response.status or ()]


def tasks(listed: Any) -> dict[str, list[int]]:
    return {each.subtopology_id: list(each.partitions) for each in listed}


# -- offsets ----------------------------------------------------------------------------------------------------------


def test_commits_by_member_epoch(shard: StreamsShard) -> None:
    shard.beat("a")
    assert shard.commit("a", 2, 0, 1) == {ErrorCode.NONE}
    assert shard.commit("a", 2, 0, version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert shard.commit("a", 3, 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert shard.commit("b", 2, 0) == ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.commit("", -1, 0) == ErrorCode.UNKNOWN_MEMBER_ID
    shard.beat("b")
    shard.beat("a", 2, active={"0": {0, 1, 2, 3}})
    shard.beat("a", 2, active={"0": {0, 1}})
    assert shard.commit("a", 2, 0, 1) == {ErrorCode.NONE}, "it has had these tasks since epoch 2"
    assert shard.commit("a", 1, 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert shard.commit("a", 2, 0, 2) == ErrorCode.STALE_MEMBER_EPOCH, "one of them is not its own"
    assert shard.commit("a", 2, 0, topic="other") == ErrorCode.STALE_MEMBER_EPOCH
    shard.beat("a", -1)
    shard.beat("b", -1)
    assert shard.commit("", -1, 0) == {ErrorCode.NONE}


def test_reads_by_member_epoch(shard: StreamsShard) -> None:
    shard.beat("a")

    def fetch(reader: Reader) -> Any:
        protocol = shard.state.offset_protocol
        return shard.run(lambda waiter: protocol.fetch(GROUP, {"t": [0]}, waiter, require_stable=False, reader=reader))

    assert fetch(Reader("a", 1)) == ErrorCode.STALE_MEMBER_EPOCH
    assert fetch(Reader("b", 2)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert not isinstance(fetch(Reader("a", 2)), ErrorCode)
    assert not isinstance(fetch(Reader(None, -1)), ErrorCode)


def test_offsets_of_topics_in_use_stay_and_others_expire(shard: StreamsShard) -> None:
    shard.beat("a")
    shard.commit("a", 2, 0)
    shard.commit("a", 2, 0, topic="other")
    delete = shard.state.offset_protocol.delete_offsets
    kept = shard.run(lambda waiter: delete(GROUP, {"t": [0], "other": [0]}, waiter)).codes
    assert kept == {("t", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ("other", 0): ErrorCode.NONE}
    shard.settle(shard.state.loaded(shard.now_ms))
    shard.beat("a", -1)
    shard.pass_time(86_400_000 + 600_000)
    assert not shard.state.streams.groups
    assert not shard.state.offsets.count


# -- soft state -------------------------------------------------------------------------------------------------------


def test_end_points_are_shown_when_they_have_changed(shard: StreamsShard) -> None:
    app = Endpoint(host="app", port=80)
    first = shard.beat("a", user_endpoint=app)
    shown = first.partitions_by_user_endpoint
    assert shown is not None
    assert [(each.user_endpoint.host, tuple(each.active_partitions[0].partitions)) for each in shown] == [
        ("app", (0, 1, 2, 3))
    ]
    assert first.endpoint_information_epoch == 0, "a group that was just made does not remember it"
    assert shard.beat("a", 2, endpoint_information_epoch=0).partitions_by_user_endpoint is None
    again = shard.beat("a", 0, user_endpoint=app)
    assert again.endpoint_information_epoch == 1
    assert shard.beat("a", 2, endpoint_information_epoch=0).partitions_by_user_endpoint is not None
    assert shard.beat("a", 2, endpoint_information_epoch=1).partitions_by_user_endpoint is None


def test_a_shutdown_is_told_to_all_until_the_group_is_empty(shard: StreamsShard) -> None:
    shard.beat("a")
    shard.beat("b")
    asked = (4, "Streams group member a encountered a fatal error and requested a shutdown for the entire application.")
    assert statuses(shard.beat("a", 2, shutdown_application=True)) == [asked]
    assert statuses(shard.beat("b", 3)) == [asked]
    shard.beat("a", -1)
    assert statuses(shard.beat("b", 3)) == [asked]
    shard.beat("b", -1)
    assert not statuses(shard.beat("c"))


def test_a_load_gives_the_same_group_and_begins_its_sessions(shard: StreamsShard) -> None:
    tags = [KeyValue(key="zone", value="x"), KeyValue(key="rack", value="y")]
    shard.beat("a", rack_id="r", client_tags=tags, user_endpoint=Endpoint(host="h", port=65_535))
    shard.beat("b")
    shard.beat("a", 2, active={"0": {0, 1, 2, 3}})
    before = shard.group
    shard.pass_time(1_500)
    shard.reload()
    after = shard.group
    assert after is not before
    for name in ("members", "target", "topology", "group_epoch", "metadata_hash", "assignment_configs"):
        assert getattr(after, name) == getattr(before, name), name
    assert after.assignment_timestamp_ms == before.assignment_timestamp_ms == 1_000
    assert after.target_tasks == 4
    shard.pass_time(1_999)
    assert "a" in shard.group.members
    shard.pass_time(1)
    assert list(shard.group.members) == ["b"], "its rebalance timeout has begun anew"
    shard.pass_time(1_000)
    assert not shard.group.members


def test_members_are_visited_in_the_order_of_kafkas_table() -> None:
    """The keys of a TimelineHashMap of Kafka 4.3 to which the same was done, on JDK 17."""
    group = StreamsGroup("g")
    for number in range(1, 6):
        group.put_member(Member(f"m{number}"))
    assert [member.member_id for member in group.in_table_order()] == ["m5", "m2", "m4", "m1", "m3"]
    for number in range(40):
        group.put_member(Member(f"member-{number}"))
    for number in range(36):
        group.remove_member(f"member-{number}")
    assert [member.member_id for member in group.in_table_order()] == (
        ["m5", "member-39", "m2", "member-36", "m4", "member-38", "m1", "m3", "member-37"]
    )


# -- limits -----------------------------------------------------------------------------------------------------------


def test_members_and_topologies_have_a_limit_in_bytes(shard: StreamsShard, monkeypatch: pytest.MonkeyPatch) -> None:
    shard.beat("a")
    kept = shard.state.streams.bytes_kept
    assert 2_000 < kept < 3_000
    monkeypatch.setattr("klamm.broker.groups.groups_with_streams.MAX_STREAMS_BYTES", kept + 200)
    assert not shard.beat("b").error_code
    assert shard.beat("c").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not shard.beat("a", 2, active={"0": {0, 1, 2, 3}}).error_code, "members may go on"
    shard.beat("b", -1)
    assert shard.state.streams.bytes_kept == kept
    shard.reload()
    assert shard.state.streams.bytes_kept == kept


def test_a_topology_larger_than_a_record_is_refused(shard: StreamsShard) -> None:
    many = [Subtopology(subtopology_id=str(at), source_topics=["t" * 249] * 100) for at in range(40)]
    assert shard.beat("a", topology=Topology(subtopologies=many)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_the_tasks_of_a_shard_have_a_limit(shard: StreamsShard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klamm.broker.groups.streams.hosted.MAX_ASSIGNED_TASKS", 9)
    assert not shard.beat("a").error_code
    assert not shard.beat("a", group_id="h").error_code
    assert shard.beat("a", group_id="i").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    shard.beat("a", -1)
    assert not shard.beat("a", group_id="i").error_code, "the tasks of a member that left are free"


def test_groups_have_a_limit(shard: StreamsShard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klamm.broker.groups.groups_with_streams.MAX_GROUPS", 2)
    assert not shard.beat("a").error_code
    assert not shard.beat("a", group_id="h").error_code
    assert shard.beat("a", group_id="i").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not shard.beat("b").error_code


def test_a_full_group_takes_nobody_not_even_its_own_members(shard: StreamsShard) -> None:
    shard.configure(max_size=2)
    shard.beat("a")
    shard.beat("b")
    for member_id in ("c", "a"):
        refused = shard.beat(member_id)
        assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert refused.error_message == "The streams group has reached its maximum capacity of 2 members."
    assert not shard.beat("a", 2).error_code


def test_a_group_has_a_largest_size_of_our_own(shard: StreamsShard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klamm.broker.groups.streams.heartbeat.MAX_STREAMS_MEMBERS", 2)
    assert [shard.beat(name).error_code for name in ("a", "b", "c")] == [0, 0, ErrorCode.GROUP_MAX_SIZE_REACHED]


def test_tasks_that_the_topology_does_not_have_are_refused(shard: StreamsShard) -> None:
    shard.beat("a")
    assert shard.beat("a", 2, active={"0": {3}}).error_code == ErrorCode.NONE
    for wrong in ({"0": {4}}, {"0": {-1}}, {"1": {0}}):
        assert shard.beat("a", 2, active=wrong).error_code == ErrorCode.INVALID_REQUEST
        assert shard.beat("a", 2, active={}, standby=wrong).error_code == ErrorCode.INVALID_REQUEST
    twice = [TaskIds(subtopology_id="0", partitions=[0]), TaskIds(subtopology_id="0", partitions=[1])]
    shard.beat("b")
    answer = shard.beat("a", 2, active={}, active_tasks=twice)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


# -- a coordinator that moves ------------------------------------------------------------------------------------------


def test_another_broker_coordinates_the_group_from_its_records(group: Conversation) -> None:
    """The records go through bytes, and through the log of the partition."""
    joining = StreamsGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="a",
        rebalance_timeout_ms=1_000,
        topology=topology("t", epoch=3),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
        rack_id="r",
        user_endpoint=Endpoint(host="app", port=65_535),
        client_tags=[KeyValue(key="zone", value="ö")],
    )
    assert group.ask(joining).error_code == 0
    group.pass_time(3_000)
    beating = StreamsGroupHeartbeatRequest(group_id=GROUP, member_id="a", member_epoch=1)
    assert group.ask(beating).member_epoch == 2
    asked = StreamsGroupDescribeRequest(group_ids=[GROUP])
    before = group.ask(asked)
    assert before.groups[0].group_state == "Stable"
    assert [list(each.partitions) for each in before.groups[0].members[0].assignment.active_tasks] == [[0, 1]]
    group.cluster.shut_down(group.coordinator_id)
    moved = Conversation(group.cluster)
    moved.pass_time(10)
    assert moved.coordinator_id != group.coordinator_id
    assert moved.ask(asked) == before
    beating.member_epoch = 2
    assert (moved.ask(beating).error_code, moved.ask(beating).member_epoch) == (0, 2)


def test_an_end_point_of_one_member_is_an_error_for_all_while_the_tasks_are_not_known(shard: StreamsShard) -> None:
    shard.beat("a", user_endpoint=Endpoint(host="h", port=7))
    epoch = shard.beat("b").member_epoch
    shard.remove("t")
    refused = shard.beat("b", epoch, endpoint_information_epoch=-1)
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_the_size_of_a_heartbeat_counts_what_its_records_hold() -> None:
    def size(*changelogs: str, **fields: Any) -> int:
        return request_size(StreamsGroupHeartbeatRequest(topology=topology("t", changelogs=changelogs), **fields))

    assert size(rack_id="r" * 500) >= size() + 500
    assert size(process_id="p" * 500) >= size() + 500
    assert size("c" * 200) >= size() + 200
