"""A shard with streams groups: tasks, topologies, groups of other kinds; without partitions."""

from typing import Any

import pytest

from klamm.broker.groups import limits
from klamm.broker.groups.classic_group import GroupState
from klamm.broker.groups.classic_requests import Join
from klamm.broker.groups.consumer.hosted import Client
from klamm.broker.groups.groups_with_streams import Beat, Creation
from klamm.broker.groups.streams.member import MemberState
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.groups.list_groups import ListGroupsResponse
from klamm.protocol.messages.streams.streams_group_heartbeat import (
    CopartitionGroup,
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


# -- tasks ------------------------------------------------------------------------------------------------------------


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


# -- topologies -------------------------------------------------------------------------------------------------------


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
            [Subtopology(subtopology_id="0", repartition_source_topics=[TopicInfo(name="r", partitions=5_001)])],
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
    assert refused.error_message == "The topology has 5001 tasks, which is more than 5000."


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


# -- other kinds of groups --------------------------------------------------------------------------------------------


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
    shard.commit("a", 2, 0)

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


@pytest.mark.parametrize(
    ("field", "tasks", "name"),
    [
        ("active_tasks", None, "ActiveTasks"),
        ("active_tasks", [TaskIds(subtopology_id="0", partitions=[0])], "ActiveTasks"),
        ("standby_tasks", None, "StandbyTasks"),
        ("standby_tasks", [TaskIds(subtopology_id="0", partitions=[0])], "StandbyTasks"),
        ("warmup_tasks", None, "WarmupTasks"),
    ],
)
def test_a_member_that_joins_has_empty_lists_of_tasks(field: str, tasks: list[TaskIds] | None, name: str) -> None:
    shard = StreamsShard()
    shard.create("t", 1)
    given: dict[str, Any] = {field: tasks}
    refused = shard.beat("a", **given)
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.INVALID_REQUEST,
        f"{name} must be empty when (re-)joining.",
    )
    assert GROUP not in shard.state.streams.groups
