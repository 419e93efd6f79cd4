"""What StreamsGroupDescribe says of a member's tasks of each kind, and what a streams group leaves of another one."""

from dataclasses import replace

import pytest

from klamm.broker.groups.streams.describe import describe
from klamm.broker.groups.streams.tasks import AssignedTasks, Tasks
from klamm.protocol.records.coordinator.groups import GroupMetadataKey
from tests.broker.groups.streams_host import GROUP, StreamsShard


@pytest.fixture
def shard() -> StreamsShard:
    made = StreamsShard()
    made.create("t", 4)
    return made


def test_tasks_of_all_kinds_are_described_as_they_are_and_as_they_are_to_be(shard: StreamsShard) -> None:
    shard.beat("a")
    group = shard.group
    assigned = AssignedTasks({"0": {3: 1, 0: 1}}, {"0": frozenset({1})}, {"0": frozenset({2})})
    group.put_member(replace(group.members["a"], assigned=assigned))
    group.put_target("a", Tasks({"0": frozenset({1, 0})}, {"0": frozenset({2})}, {"0": frozenset({3})}))
    (member,) = describe(group, True, GROUP).members
    for shown, active, standby, warmup in (
        (member.assignment, [0, 3], [1], [2]),
        (member.target_assignment, [0, 1], [2], [3]),
    ):
        assert [(each.subtopology_id, each.partitions) for each in shown.active_tasks] == [("0", active)]
        assert [each.partitions for each in shown.standby_tasks] == [standby]
        assert [each.partitions for each in shown.warmup_tasks] == [warmup]


def test_a_member_without_a_target_has_an_empty_one(shard: StreamsShard) -> None:
    shard.beat("a")
    shard.group.put_target("a", None)
    (member,) = describe(shard.group, True, GROUP).members
    assert (member.target_assignment.active_tasks, member.target_assignment.warmup_tasks) == ((), ())


def test_an_empty_classic_group_is_removed_by_the_first_streams_member(shard: StreamsShard) -> None:
    assert shard.commit("", -1, 0) == {0}
    shard.log.clear()
    assert not shard.beat("a").error_code
    assert shard.log[0] == (GroupMetadataKey(group=GROUP), None)
    assert list(shard.state.streams.groups) == [GROUP]
    assert GROUP not in shard.state.groups


def test_a_member_that_is_unknown_is_removed_without_effect(shard: StreamsShard) -> None:
    shard.beat("a")
    shard.group.soft.shutdown_by = "a"
    shard.group.remove_member("b")
    assert (list(shard.group.members), shard.group.soft.shutdown_by) == (["a"], "a")
    shard.group.remove_member("a")
    assert shard.group.soft.shutdown_by is None, "it is over when the last member has gone"
