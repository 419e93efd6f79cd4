"""A shard with streams groups: topologies, conversions, loading, soft state, limits of memory; without partitions."""

from typing import Any

import pytest

from klamm.broker.groups import limits
from klamm.broker.groups.classic_group import GroupState
from klamm.broker.groups.classic_requests import Join
from klamm.broker.groups.consumer.hosted import Client
from klamm.broker.groups.groups_with_streams import Beat, Creation
from klamm.broker.groups.offset_protocol import Commit, Committer, Reader
from klamm.broker.groups.streams.group import StreamsGroup
from klamm.broker.groups.streams.member import Member, MemberState
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.groups.list_groups import ListGroupsResponse
from klamm.protocol.messages.streams.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from klamm.protocol.records.coordinator.streams_groups import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
)
from klamm.protocol.records.coordinator.streams_groups import (
    StreamsGroupCurrentMemberAssignmentValueTaskIds as CurrentTaskIds,
)
from klamm.protocol.uuid import ZERO_UUID
from tests.broker.groups.streams_host import GROUP, StreamsShard, topology
from tests.broker.groups.test_all_groups import Answered
from tests.broker.groups.test_mixed_groups import subscription


@pytest.fixture
def shard() -> StreamsShard:
    made = StreamsShard()
    made.create("t", 4)
    return made


def statuses(response: StreamsGroupHeartbeatResponse) -> list[tuple[int, str]]:
    return [(status.status_code, status.status_detail) for status in response.status or ()]


def tasks(listed: Any) -> dict[str, list[int]]:
    return {each.subtopology_id: list(each.partitions) for each in listed}


# -- tasks -------------------------------------------------------------------------------------------------------------


def test_tasks_move_by_revocation_and_release(shard: StreamsShard) -> None:
    assert tasks(shard.beat("a").active_tasks) == {"0": [0, 1, 2, 3]}
    assert shard.beat("b").active_tasks == []
    revoked = shard.beat("a", 2, active={"0": {0, 1, 2, 3}})
    assert (revoked.member_epoch, tasks(revoked.active_tasks)) == (2, {"0": [0, 1]})
    assert shard.group.members["a"].state is MemberState.UNREVOKED_TASKS
    assert shard.beat("b", 3, active={}).active_tasks is None
    assert shard.beat("a", 2, active={"0": {0, 1}}).member_epoch == 3
    assert tasks(shard.beat("b", 3, active={}).active_tasks) == {"0": [2, 3]}
    assert shard.group.state == "Stable"


def test_a_member_that_does_not_give_up_tasks_is_removed_in_time(shard: StreamsShard) -> None:
    shard.beat("a")
    shard.beat("b")
    shard.beat("a", 2, active={"0": {0, 1, 2, 3}})
    shard.pass_time(1_999)
    assert "a" in shard.group.members
    shard.beat("b", 3)
    shard.pass_time(1)
    assert list(shard.group.members) == ["b"]


def test_the_rebalance_timeout_stops_when_the_tasks_are_given_up(shard: StreamsShard) -> None:
    shard.beat("a")
    shard.beat("b")
    shard.beat("a", 2, active={"0": {0, 1, 2, 3}})
    shard.beat("a", 2, active={"0": {0, 1}})
    shard.pass_time(2_500)
    assert list(shard.group.members) == ["a", "b"]


def test_a_session_that_ends_removes_the_member_and_begins_an_epoch(shard: StreamsShard) -> None:
    shard.beat("a")
    shard.pass_time(2_999)
    assert shard.group.state == "Stable"
    shard.pass_time(1)
    assert (shard.group.state, shard.group.group_epoch) == ("Empty", 3)


def test_a_member_in_a_state_of_a_newer_broker_has_to_come_again(shard: StreamsShard) -> None:
    shard.beat("a")
    key = StreamsGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="a")
    value = StreamsGroupCurrentMemberAssignmentValue(member_epoch=2, state=9)
    shard.log.append((key, value))
    shard.reload()
    assert shard.beat("a", 2, active={"0": {0}}).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert tasks(shard.beat("a", 0).active_tasks) == {"0": [0, 1, 2, 3]}


def test_tasks_without_epochs_have_that_of_the_member(shard: StreamsShard) -> None:
    shard.beat("a")
    key = StreamsGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="a")
    active = [CurrentTaskIds(subtopology_id="0", partitions=[0, 3], assignment_epochs=None)]
    shard.log.append((key, StreamsGroupCurrentMemberAssignmentValue(member_epoch=7, active_tasks=active)))
    shard.reload()
    assert shard.group.members["a"].assigned.active == {"0": {0: 7, 3: 7}}


def test_the_first_assignment_waits_for_others_and_is_made_by_time(shard: StreamsShard) -> None:
    shard.configure(initial_rebalance_delay_ms=500)
    delayed = shard.beat("a")
    assert (delayed.member_epoch, delayed.active_tasks) == (1, [])
    assert statuses(delayed) == [(5, "Assignment delayed due to the configured initial rebalance delay.")]
    shard.beat("b")
    shard.pass_time(499)
    assert shard.group.assignment_epoch == 1
    shard.pass_time(1)
    assert {member_id: tasks.active for member_id, tasks in shard.group.target.items()} == {
        "a": {"0": {1, 3}},
        "b": {"0": {0, 2}},
    }


def test_assignments_are_not_computed_too_often(shard: StreamsShard) -> None:
    shard.configure(assignment_interval_ms=1_000)
    shard.beat("a")
    assert statuses(shard.beat("b")) == [(5, "Assignment delayed due to the configured assignment interval.")]
    shard.pass_time(999)
    assert statuses(shard.beat("a", 2))
    shard.pass_time(1)
    assert not statuses(shard.beat("a", 2))
    assert shard.group.assignment_epoch == 3


# -- topologies --------------------------------------------------------------------------------------------------------


def test_missing_topics_are_reported_until_they_are_there(shard: StreamsShard) -> None:
    missing = shard.beat("a", topology=topology("t", changelogs=("s",)), remark="; because.")
    assert statuses(missing) == [(3, "Internal topics are missing: s; because.")]
    assert (shard.group.state, missing.active_tasks) == ("NotReady", [])
    shard.create("s", 4)
    assert tasks(shard.beat("a", 2).active_tasks) == {"0": [0, 1, 2, 3]}
    shard.remove("t")
    gone = shard.beat("a", 3, active={"0": {0, 1, 2, 3}})
    assert (statuses(gone), gone.active_tasks) == ([(1, "Source topics t are missing.")], [])


def test_the_topics_that_a_heartbeat_would_have_created(shard: StreamsShard) -> None:
    wanted = topology("t", changelogs=("s",))
    request = StreamsGroupHeartbeatRequest(group_id=GROUP, member_id="a", topology=wanted)
    beat = Beat(request, shard_client(), Creation())
    missing = shard.state.missing_topics(beat, shard.now_ms)
    assert [(topic.name, topic.partitions) for topic in missing.values()] == [("s", 4)]
    shard.beat("a", topology=wanted)
    shard.create("s", 4)
    shard.beat("a", 2)
    later = Beat(StreamsGroupHeartbeatRequest(group_id=GROUP, member_id="a", member_epoch=3), shard_client())
    assert not shard.state.missing_topics(later, shard.now_ms)
    shard.remove("s")
    assert list(shard.state.missing_topics(later, shard.now_ms)) == ["s"]
    fenced = Beat(StreamsGroupHeartbeatRequest(group_id=GROUP, member_id="a", member_epoch=9), shard_client())
    leaving = Beat(StreamsGroupHeartbeatRequest(group_id=GROUP, member_id="a", member_epoch=-1), shard_client())
    assert not shard.state.missing_topics(fenced, shard.now_ms)
    assert not shard.state.missing_topics(leaving, shard.now_ms)


def shard_client() -> Client:
    return Client("c", "/127.0.0.1", 0, lambda _: False)


@pytest.mark.parametrize(
    ("subtopologies", "code"),
    [
        ([Subtopology(subtopology_id="0", source_topics=["t"])] * 2, ErrorCode.UNKNOWN_SERVER_ERROR),
        ([Subtopology(subtopology_id="0")], ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (
            [
                Subtopology(
                    subtopology_id="0", source_topics=["t"], copartition_groups=[CopartitionGroup(source_topics=[-1])]
                )
            ],
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ),
        (
            [
                Subtopology(
                    subtopology_id="0",
                    source_topics=["t"],
                    copartition_groups=[CopartitionGroup(repartition_source_topics=[0])],
                )
            ],
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ),
        (
            [Subtopology(subtopology_id="0", repartition_source_topics=[TopicInfo(name="r", partitions=-3)])],
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ),
        (
            [Subtopology(subtopology_id="0", repartition_source_topics=[TopicInfo(name="r", partitions=10_001)])],
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
        ),
    ],
)
def test_a_bad_topology_is_refused_and_makes_no_group(
    shard: StreamsShard, subtopologies: list[Subtopology], code: ErrorCode
) -> None:
    assert shard.beat("a", topology=Topology(subtopologies=subtopologies)).error_code == code
    assert not shard.state.streams.groups
    assert not shard.log


def test_a_topology_of_the_most_tasks_is_accepted(shard: StreamsShard) -> None:
    shard.create("r", limits.MAX_TASKS_OF_GROUP)
    assert not shard.beat("a", topology=topology("r")).error_code
    shard.grow("r", limits.MAX_TASKS_OF_GROUP + 1)
    refused = shard.beat("a", 2)
    assert refused.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert refused.error_message == "The topology has 10001 tasks, which is more than 10000."


def test_a_member_with_an_older_topology_is_told_and_another_topology_is_refused(shard: StreamsShard) -> None:
    shard.beat("a", topology=topology("t", epoch=2))
    assert statuses(shard.beat("b", topology=topology("x", epoch=1)))[0][0] == 0
    assert shard.beat("c", topology=topology("x", epoch=2)).error_code == ErrorCode.INVALID_REQUEST
    assert shard.beat("c", topology=topology("t", epoch=3)).error_code == ErrorCode.INVALID_REQUEST
    assert list(shard.group.members) == ["a", "b"]


def test_subtopologies_in_another_order_are_the_same_topology(shard: StreamsShard) -> None:
    shard.create("u", 1)
    both = [
        Subtopology(subtopology_id="0", source_topics=["t"]),
        Subtopology(subtopology_id="1", source_topics=["u"]),
    ]
    shard.beat("a", topology=Topology(subtopologies=both))
    assert not shard.beat("b", topology=Topology(subtopologies=both[::-1])).error_code


# -- other kinds of groups ---------------------------------------------------------------------------------------------


def join_classic(shard: StreamsShard, member_id: str = "") -> Any:
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
    shard.settle(shard.state.join(GROUP, asked, shard.now_ms))
    shard.pass_time(0)
    return waiter.response


def test_an_empty_group_of_either_kind_is_taken_over_by_the_other_protocol(shard: StreamsShard) -> None:
    shard.beat("a")
    assert join_classic(shard).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    shard.beat("a", -1)
    joined = join_classic(shard)
    assert (joined.error_code, joined.generation_id) == (0, 1)
    assert GROUP not in shard.state.streams.groups
    assert shard.beat("b").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    shard.pass_time(6_000)
    assert shard.state.groups[GROUP].state is GroupState.EMPTY
    assert shard.beat("b").member_epoch == 2
    assert GROUP not in shard.state.groups


def test_a_conversion_is_the_same_after_a_load(shard: StreamsShard) -> None:
    shard.beat("a")
    shard.beat("a", -1)
    join_classic(shard)
    shard.reload()
    assert GROUP not in shard.state.streams.groups
    assert GROUP in shard.state.groups


def listed(shard: StreamsShard, states: list[str], types: list[str]) -> list[str]:
    response = shard.run(lambda waiter: shard.state.list_groups(states, types, waiter))
    assert isinstance(response, ListGroupsResponse)
    return [
        f"{group.group_id} {group.protocol_type} {group.group_type} {group.group_state}" for group in response.groups
    ]


def test_groups_are_listed_by_type_and_state(shard: StreamsShard) -> None:
    shard.beat("a")
    assert listed(shard, [], []) == ["g streams streams Stable"]
    assert listed(shard, ["STABLE"], ["Streams"]) == ["g streams streams Stable"]
    assert listed(shard, ["Empty"], []) == listed(shard, [], ["classic", "consumer"]) == []
    shard.remove("t")
    shard.beat("a", 2)
    assert listed(shard, ["NotReady"], []) == []
    assert listed(shard, ["not_ready"], []) == ["g streams streams NotReady"]


def test_only_an_empty_group_is_deleted_and_its_offsets_with_it(shard: StreamsShard) -> None:
    shard.beat("a")
    commit(shard, "a", 2, 0)

    def delete() -> int:
        return int(shard.run(lambda waiter: shard.state.delete(GROUP, waiter)).error_code)

    assert delete() == ErrorCode.NON_EMPTY_GROUP
    shard.beat("a", -1)
    assert delete() == ErrorCode.NONE
    assert delete() == ErrorCode.GROUP_ID_NOT_FOUND
    assert not shard.state.offsets.count
    shard.reload()
    assert not shard.state.streams.groups
    assert not shard.state.groups


def test_a_deleted_group_has_no_delay_left(shard: StreamsShard) -> None:
    shard.configure(initial_rebalance_delay_ms=500)
    shard.beat("a")
    shard.beat("a", -1)
    shard.run(lambda waiter: shard.state.delete(GROUP, waiter))
    shard.pass_time(400)
    shard.beat("a")
    shard.pass_time(200)
    assert statuses(shard.beat("a", 1)), "the delay of the new group is not over"


# -- offsets -----------------------------------------------------------------------------------------------------------


def commit(
    shard: StreamsShard, member_id: str, epoch: int, *partitions: int, version: int = 9, topic: str = "t"
) -> Any:
    committer = Committer(GROUP, member_id, None, epoch)
    commits = [Commit(topic, ZERO_UUID, partition, 5, -1, "") for partition in partitions]
    response = shard.run(
        lambda waiter: shard.state.offset_protocol.commit(committer, commits, waiter, shard.now_ms, api_version=version)
    )
    return response if isinstance(response, ErrorCode) else set(response.codes.values())


def test_commits_by_member_epoch(shard: StreamsShard) -> None:
    shard.beat("a")
    assert commit(shard, "a", 2, 0, 1) == {ErrorCode.NONE}
    assert commit(shard, "a", 2, 0, version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert commit(shard, "a", 3, 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(shard, "b", 2, 0) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(shard, "", -1, 0) == ErrorCode.UNKNOWN_MEMBER_ID
    shard.beat("b")
    shard.beat("a", 2, active={"0": {0, 1, 2, 3}})
    shard.beat("a", 2, active={"0": {0, 1}})
    assert commit(shard, "a", 2, 0, 1) == {ErrorCode.NONE}, "it has had these tasks since epoch 2"
    assert commit(shard, "a", 1, 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(shard, "a", 2, 0, 2) == ErrorCode.STALE_MEMBER_EPOCH, "one of them is not its own"
    assert commit(shard, "a", 2, 0, topic="other") == ErrorCode.STALE_MEMBER_EPOCH
    shard.beat("a", -1)
    shard.beat("b", -1)
    assert commit(shard, "", -1, 0) == {ErrorCode.NONE}


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
    commit(shard, "a", 2, 0)
    commit(shard, "a", 2, 0, topic="other")
    delete = shard.state.offset_protocol.delete_offsets
    kept = shard.run(lambda waiter: delete(GROUP, {"t": [0], "other": [0]}, waiter)).codes
    assert kept == {("t", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ("other", 0): ErrorCode.NONE}
    shard.settle(shard.state.loaded(shard.now_ms))
    shard.beat("a", -1)
    shard.pass_time(86_400_000 + 600_000)
    assert not shard.state.streams.groups
    assert not shard.state.offsets.count


# -- soft state --------------------------------------------------------------------------------------------------------


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


# -- limits ------------------------------------------------------------------------------------------------------------


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
